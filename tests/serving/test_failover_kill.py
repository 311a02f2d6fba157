"""Reads while the instance that has the key is killed: no answer ever breaks its bound.

Two processes share one partition, active in one and copied in the other. A number goes up, commit
by commit, while readers ask with every kind of bound. Then the writer is killed with SIGKILL, the
copy is promoted, and it all goes on, the other way round.
"""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from forked_programs import Forked
from served_shop import COUNTS, INPUT

import statestores as ss
from statestores.errors import StateStoreError
from statestores.query import RoutedStores
from statestores.query.metadata import LeaseMembership
from statestores.serving import FlightStores

_PROGRAM = Path(__file__).parent / "kit" / "failover_instance.py"
SOAK = os.environ.get("STATESTORES_SOAK") == "1"
KILLS = 40 if SOAK else 2
WRITES = 12
KINDS_OF_READS = ("fresh", "lag", "bound", "stale")
FOLLOWING_S = (3600.0, 0.01)
"""Copies that are as they were when they were assigned, and such that keep up."""

LAG_CHANGES = 2 * 3
"""Three commits of two changes each."""


class Instance:
    """A process of `failover_instance`."""

    def __init__(self, root: Path, name: str, follow_interval_s: float) -> None:
        commands, writer = multiprocessing.Pipe(duplex=False)
        self._process = Forked(_PROGRAM, root, name, follow_interval_s, given=commands)
        commands.close()
        self._commands = os.fdopen(os.dup(writer.fileno()), "w", encoding="utf-8")
        writer.close()

    def tell(self, command: str) -> str:
        """Give a command, and return the answer to it."""
        self._commands.write(command + "\n")
        self._commands.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """End it as nothing else does, once."""
        if not self._commands.closed:
            with self._process:
                self._process.kill()
            self._commands.close()


class Readers:
    """Threads that read all the time, and note what no bound allows."""

    def __init__(self, queries: RoutedStores) -> None:
        self._queries = queries
        self._stop = Event()
        self.committed = 0
        self.broken: list[str] = []
        self.answers: dict[str, int] = {}
        self.after_kill: dict[str, int] = {}
        self._threads = [Thread(target=self._read, args=(name,)) for name in KINDS_OF_READS]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read for as long as this lasts."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _read(self, name: str) -> None:
        while not self._stop.is_set():
            before = self.committed  # acknowledged before the read began
            bounds: dict[str, dict[str, Any]] = {
                "fresh": {},
                "lag": {"include_stale": True, "max_lag": LAG_CHANGES},
                "bound": {
                    "include_stale": True,
                    "at_least": ss.Position({INPUT: max(0, before - 1)}),
                },
                "stale": {"include_stale": True},
            }
            least = {"fresh": before, "lag": before - 3, "bound": before - 1, "stale": 0}[name]
            try:
                found = self._queries.store(COUNTS, **bounds[name]).get("number")
            except StateStoreError as error:
                if not error.retryable:
                    self.broken.append(f"{name} raised {error!r}")
                continue
            if (found or 0) < least:
                self.broken.append(f"{name} gave {found}, and {before} had been committed")
            self.answers[name] = self.answers.get(name, 0) + 1
            self.after_kill[name] = self.after_kill.get(name, 0) + 1

    def wait_for(self, *names: str) -> None:
        """Return when each of these kinds of reads, or each of all, has had another answer."""
        self.after_kill = {}
        for _ in range(6_000):
            if self.after_kill.keys() >= set(names or KINDS_OF_READS):
                return
            if not all(thread.is_alive() for thread in self._threads):
                break
            self._stop.wait(0.01)
        pytest.fail(f"reads are not answered any more: {self.after_kill}, {self.broken[:3]}")


@pytest.mark.spec("SRV-6", "SRV-7", "SRV-3")
def test_no_answer_breaks_its_bound_while_instances_are_killed(tmp_path: Path) -> None:
    """Reads go on through each failover, and none of them gives less than it says."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    opened: list[Instance] = []
    number = 0
    try:
        opened += [Instance(root.path, name, FOLLOWING_S[0]) for name in ("a0", "b0")]
        active, standby = opened
        assert active.tell("assign 0_0 /") == "ready"
        assert active.tell("write 1") == "written 1"
        assert standby.tell("assign / 0_0") == "ready"
        with (
            FlightStores(timeout_s=5) as asking,
            RoutedStores(LeaseMembership(root.path), asking, timeout_s=1.0) as queries,
        ):
            readers = Readers(queries)
            with readers.reading():
                for kill in range(KILLS):
                    for _ in range(WRITES):
                        number = max(number, 1) + 1
                        assert active.tell(f"write {number}") == f"written {number}"
                        readers.committed = number
                    readers.wait_for()
                    active.kill()
                    readers.wait_for("stale")  # of the copy, which is as old as it is
                    assert standby.tell("assign 0_0 /") == "ready"
                    opened.append(Instance(root.path, f"c{kill}", FOLLOWING_S[(kill + 1) % 2]))
                    active, standby = standby, opened[-1]
                    assert standby.tell("assign / 0_0") == "ready"
                    readers.wait_for()

        assert readers.broken == []
        assert set(readers.answers) == set(KINDS_OF_READS)
    finally:
        for each in opened:
            each.kill()
