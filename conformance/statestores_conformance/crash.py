"""The crash kit: a process that writes a store is killed, and the store judged from outside.

The rule is CMT (COM-2, COM-22): the content is exactly what the operations up to the committed
offset give, and that offset is the last one promised before the kill, or the one under way.
"""

import random
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from statestores.registry import load_backend
from statestores.spi import StateStore
from statestores_conformance.crash_child import INTENT, PROMISE
from statestores_conformance.crash_nursery import Nursery
from statestores_conformance.crash_workload import CHANGELOG, INPUT, WORKLOADS, Workload
from statestores_conformance.engines import durability_of

_LONGEST_LIFE_SECONDS = 0.2
"""How long a process lives at most after its first promise."""

_PATIENCE_SECONDS = 120.0
"""How long to wait for a process's first promise before it counts as hanging."""

_POLL_SECONDS = 0.002

_SHARE_AIMED_AT_COMMITS = 0.6
"""So many kills come while a commit is under way; the others at any time."""

_SHARE_WHILE_OPENING = 0.2
"""So often a process is killed soon after its start as well: it may be recovering, or creating."""

_LONGEST_OPENING_SECONDS = 0.05

_KILLS_PER_STORE = 20
"""After so many kills the next store is a new one: the first commits are the most delicate."""


class CrashKitError(Exception):
    """The process did not live long enough to be killed; the message has what it wrote."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One process, from start to death, and what was found."""

    seed: int
    """The seed of its operations, and of the time at which it was killed."""

    promised: int
    """The last offset whose commit had returned."""

    under_way: int
    """The last offset whose commit had begun."""

    committed: int | None
    """The offset that the store says."""

    violations: tuple[str, ...]
    """What contradicts CMT, in words."""


@dataclass(slots=True)
class CrashReport:
    """What a run of kills found."""

    backend: str
    """The backend's name or ``module:Class``."""

    kind: str
    """The kind of store."""

    seed: int
    """The seed of the run: the same seed gives the same operations."""

    kills: list[Kill] = field(default_factory=list)
    """Every kill that counts: each came after at least one promise of its process."""

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
    options: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> CrashReport:
    """Kill *n* processes that write stores of *kind* over *backend*, and judge each store.

    Args:
        backend: A registered name, or ``module:Class``.
        n: How many kills. Only those after the process's first commit are counted.
        seed: Decides the operations, and when each process dies.
        kind: ``"key-value"`` or ``"versioned"``.
        options: The backend's own.
        root: Where the stores are; a temporary directory unless given.

    Raises:
        CrashKitError: A process ended by itself, or did not commit at all.
    """
    report = CrashReport(backend, kind, seed)
    with (
        tempfile.TemporaryDirectory(dir=root) as scratch,
        Nursery(Path(scratch) / "errors") as nursery,
    ):
        run: _Run | None = None
        for number in range(n):
            if run is None or number % _KILLS_PER_STORE == 0:
                store = Path(scratch) / f"store-{number}"
                run = _Run(backend, dict(options or {}), WORKLOADS[kind](seed + number), store)
            kill = run.kill_once(nursery, random.Random(repr((seed, number))))  # noqa: S311  # repeatable
            report.kills.append(kill)
            if kill.violations:
                run = None
    return report


class _Run:
    """Processes that are killed one after the other over one store."""

    def __init__(
        self, backend: str, options: dict[str, str], workload: Workload, store: Path
    ) -> None:
        self._backend = backend
        self._options = options
        self._workload = workload
        self._store = store
        self._oracle = store.with_suffix(".oracle")

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

    def _start(self, nursery: Nursery) -> None:
        nursery.start(
            {
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
        while nursery.is_running() and not self._lines(PROMISE):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _wait_for_a_commit(self, nursery: Nursery) -> None:
        """Wait until a commit is under way, or the process has ended."""
        while nursery.is_running():
            lines = self._oracle.read_bytes().splitlines()
            if lines[-1].startswith(INTENT):
                return

    def _lines(self, word: bytes) -> list[int]:
        """Return the offsets of the whole lines of the oracle that begin with *word*."""
        if not self._oracle.exists():
            return []
        whole = self._oracle.read_bytes().rpartition(b"\n")[0]
        lines = (line.split() for line in whole.splitlines())
        return [int(offset) for found, offset in lines if found == word]

    def _judge(self) -> Kill:
        """Open the store in this process and compare it with what the operations give."""
        engine = load_backend(self._backend).open(self._store, self._options)
        promised, intents = self._lines(PROMISE)[-1], self._lines(INTENT)
        with self._workload.open(engine, durability_of(engine)) as store:
            committed = store.committed_offset(CHANGELOG)
            violations = [
                *self._misplaced(committed, promised, intents),
                *(self._damaged(store, committed) if committed is not None else ()),
            ]
        return Kill(self._workload.seed, promised, intents[-1], committed, tuple(violations))

    @staticmethod
    def _misplaced(committed: int | None, promised: int, intents: list[int]) -> list[str]:
        """Return what is wrong with the committed offset itself."""
        if committed is None:
            return [f"no offset is committed, and {promised} was promised"]
        if committed < promised:
            return [f"offset {committed} is committed, and {promised} was promised"]
        if committed not in intents:
            return [f"offset {committed} is committed, and is that of no commit"]
        return []

    def _damaged(self, store: StateStore, committed: int) -> list[str]:
        """Return how the content differs from that at the committed offset."""
        self._workload.model_up_to(committed)
        violations = list(self._workload.differences(store))
        if store.position.get(INPUT) != committed:
            violations.append(f"the position is {store.position!r}, expected {committed}")
        return violations
