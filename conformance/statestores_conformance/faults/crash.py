"""The crash kit: a process that writes to a store is killed, and the store judged from outside.

The rule is CMT (COM-2, COM-22): the content is exactly what the operations up to the committed
offset give, and that offset is the last one promised before the kill, or the one under way.
"""

import random
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from statestores.spi import StateStore
from statestores_conformance.faults.crash_child import INTENT, PROMISE, open_store
from statestores_conformance.faults.crash_nursery import Nursery, shared_nursery
from statestores_conformance.faults.crash_workload import CHANGELOG, INPUT, WORKLOADS, Workload

_LONGEST_LIFE_SECONDS = 0.2
"""How long a process lives at most after its first promise."""

_PATIENCE_SECONDS = 120.0
"""How long to wait for a process's first promise before it counts as hanging."""

_POLL_SECONDS = 0.002

_GLANCE_SECONDS = 0.0002
"""Between two looks at whether a commit is under way, which lasts about as long. Without a pause
they would take a processor from the process that is to commit."""

_LOOKS_PER_QUESTION = 20
"""After so many looks at the oracle the nursery is asked whether the process is still there."""

_SHARE_AIMED_AT_COMMITS = 0.6
"""The share of kills that come while a commit is under way; the others come at any time."""

_SHARE_WHILE_OPENING = 0.2
"""How often a process is also killed soon after its start: it may be recovering, or creating."""

_LONGEST_OPENING_SECONDS = 0.05

_KILLS_PER_STORE = 20
"""After this many kills the next store is a new one: the first commits are the most delicate."""


class CrashKitError(Exception):
    """The process did not live long enough to be killed; the message quotes what it wrote."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One process, from start to death, and what was found."""

    seed: int
    """The seed of its operations, and of the time at which it was killed."""

    promised: int | None
    """The last offset whose commit had returned; ``None`` when none ever had."""

    under_way: int | None
    """The last offset whose commit had begun; ``None`` when this process had begun none."""

    committed: int | None
    """The offset that the store reports."""

    violations: tuple[str, ...]
    """What contradicts CMT, in words."""

    failpoint: str | None = None
    """The failpoint at which the process died; ``None`` when it was killed at random."""


@dataclass(slots=True)
class CrashReport:
    """What a run of kills found."""

    backend: str
    """The backend's name, ``module:Class`` or ``module:function``."""

    kind: str
    """The kind of store."""

    seed: int
    """The seed of the run: the same seed gives the same operations."""

    kills: list[Kill] = field(default_factory=list)
    """Every kill that counts: a random one only after at least one promise of its process."""

    @property
    def violations(self) -> list[str]:
        """Every violation, with the seed that found it."""
        return [f"seed {kill.seed}: {text}" for kill in self.kills for text in kill.violations]


def run_kills(
    backend: str,
    n: int,
    seed: int,
    *,
    kind: str = "key-value",
    options: Mapping[str, object] | None = None,
    root: Path | None = None,
    failpoints: Sequence[str] = (),
) -> CrashReport:
    """Kill *n* processes that write stores of *kind* by *backend*, and judge each store.

    Args:
        backend: A registered name, or ``module:Class``; or, of a store at door two, the function
            that opens it, ``module:function``.
        n: How many kills. Random ones count only after a first commit.
        seed: Decides the operations, and when each process dies.
        kind: One of `WORKLOADS`.
        options: The backend's own.
        root: Where the stores are; a temporary directory unless given.
        failpoints: Where to kill instead of at random: at each of them in turn when it is reached
            for the first time, then at each when it is reached for the second time, and so on.

    Raises:
        CrashKitError: A process ended on its own, or did not commit at all.
    """
    report = CrashReport(backend, kind, seed)
    nursery = shared_nursery()
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        run: _Run | None = None
        for number in range(n):
            if run is None or number % _KILLS_PER_STORE == 0:
                store = Path(scratch) / f"store-{number}"
                run = _Run(backend, dict(options or {}), WORKLOADS[kind](seed + number), store)
            if failpoints:
                turn, place = divmod(number, len(failpoints))
                kill = run.kill_at(nursery, failpoints[place], turn + 1)
            else:
                kill = run.kill_once(nursery, random.Random(repr((seed, number))))  # noqa: S311  # repeatable
            report.kills.append(kill)
            if kill.violations:
                run = None
    return report


class _Run:
    """Processes that are killed one after the other over one store."""

    def __init__(
        self, backend: str, options: dict[str, object], workload: Workload, store: Path
    ) -> None:
        self._backend = backend
        self._options = options
        self._workload = workload
        self._store = store
        self._oracle = store.with_suffix(".oracle")
        self._found: int | None = None
        """The offset that was committed when the store was last judged."""

    def kill_once(self, nursery: Nursery, dice: random.Random) -> Kill:
        """Start a process, kill it after its first promise, and judge what it leaves."""
        if dice.random() < _SHARE_WHILE_OPENING:
            self._start(nursery)
            time.sleep(dice.random() * _LONGEST_OPENING_SECONDS)
            nursery.kill()
        self._oracle.unlink(missing_ok=True)
        self._start(nursery)
        hanging = not self._promises_something(nursery)
        if not hanging:
            time.sleep(dice.random() ** 2 * _LONGEST_LIFE_SECONDS)
            if dice.random() < _SHARE_AIMED_AT_COMMITS:
                self._wait_for_a_commit(nursery)
        code = nursery.kill()
        if code != -signal.SIGKILL:
            raise CrashKitError(f"the process ended by itself with {code}: {nursery.errors()}")
        if hanging:
            raise CrashKitError(
                f"the process did not commit within {_PATIENCE_SECONDS:.0f} seconds"
            )
        return self._judge()

    def kill_at(self, nursery: Nursery, failpoint: str, at: int) -> Kill:
        """Start a process that dies at *failpoint* for the *at*-th time; judge what it leaves."""
        self._oracle.unlink(missing_ok=True)
        self._start(nursery, (failpoint, at))
        code = nursery.wait(_PATIENCE_SECONDS)
        if code is None:
            nursery.kill()
            raise CrashKitError(f"the process never reached {failpoint!r} (time {at})")
        if code != -signal.SIGKILL:
            raise CrashKitError(f"the process ended by itself with {code}: {nursery.errors()}")
        return self._judge(failpoint)

    def _start(self, nursery: Nursery, failpoint: tuple[str, int] | None = None) -> None:
        nursery.start(
            {
                "failpoint": failpoint,
                "backend": self._backend,
                "options": self._options,
                "kind": self._workload.kind,
                "seed": self._workload.seed,
                "store": str(self._store),
                "oracle": str(self._oracle),
            }
        )

    def _promises_something(self, nursery: Nursery) -> bool:
        """Wait until the process has committed once, or ended; return whether either came."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for looks in count(1):
            if self._lines(PROMISE):
                return True
            # The nursery has to be asked, and to wake up for it.
            if looks % _LOOKS_PER_QUESTION == 0 and not nursery.is_running():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        raise AssertionError("there is no last number")

    def _wait_for_a_commit(self, nursery: Nursery) -> None:
        """Wait until a commit is under way, or the process has ended."""
        for looks in count(1):
            if self._oracle.read_bytes().splitlines()[-1].startswith(INTENT):
                return
            if looks % _LOOKS_PER_QUESTION == 0 and not nursery.is_running():
                return
            time.sleep(_GLANCE_SECONDS)

    def _lines(self, word: bytes) -> list[int]:
        """Return the offsets of the whole lines of the oracle that begin with *word*."""
        if not self._oracle.exists():
            return []
        whole = self._oracle.read_bytes().rpartition(b"\n")[0]
        lines = (line.split() for line in whole.splitlines())
        return [int(offset) for found, offset in lines if found == word]

    def _judge(self, failpoint: str | None = None) -> Kill:
        """Open the store in this process and compare it with what the operations give."""
        promises, intents = self._lines(PROMISE), self._lines(INTENT)
        promised = promises[-1] if promises else self._found
        under_way = intents[-1] if intents else None
        with open_store(self._backend, self._options, self._store, self._workload) as store:
            committed = store.committed_offset(CHANGELOG)
            violations = [
                *self._misplaced(committed, promised, intents, failpoint),
                *self._damaged(store, committed),
            ]
        self._found = committed
        return Kill(
            self._workload.seed, promised, under_way, committed, tuple(violations), failpoint
        )

    @staticmethod
    def _misplaced(
        committed: int | None, promised: int | None, intents: list[int], failpoint: str | None
    ) -> list[str]:
        """Return what is wrong with the committed offset itself."""
        reached = -1 if committed is None else committed
        if promised is not None and reached < promised:
            return [f"offset {committed} is committed, and {promised} was promised"]
        if committed not in (promised, *intents):
            return [f"offset {committed} is committed, and is that of no commit"]
        if failpoint == "commit.apply.before" and committed != promised:
            return [f"offset {committed} is committed, and the engine had not seen it"]
        if failpoint == "commit.apply.after" and committed != intents[-1]:
            return [f"offset {committed} is committed, and the engine had applied {intents[-1]}"]
        return []

    def _damaged(self, store: StateStore, committed: int | None) -> list[str]:
        """Return how the content differs from that at the committed offset."""
        if committed is not None:
            self._workload.model_up_to(committed)
        violations = list(self._workload.differences(store))
        if store.position.get(INPUT) != committed:
            violations.append(f"the position is {store.position!r}, expected {committed}")
        return violations
