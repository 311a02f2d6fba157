"""Cases in the local runner: durable topics, and a run until idle for each batch of the input.

Each run opens the state that the one before has left, so a case is also one of restarts.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statestores.logged_store import open_logged_store
from statestores.processing import LocalRunner, LocalTopics, Record, Topology
from statestores.spi import Durability
from statestores_conformance.topology_vectors.driver_of_runs import DriverOfRuns


class LocalDriver(DriverOfRuns):
    """Runs a topology in a directory."""

    def __init__(
        self, topology: Topology, directory: Path, backend: str, *, cache_max_bytes: int = 0
    ) -> None:
        """Begin with an empty directory; updates wait in *cache_max_bytes* for a commit."""
        super().__init__(topology, directory, backend)
        self._cache_max_bytes = cache_max_bytes
        self._seen: Counter[str] = Counter()

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        self.settle()
        with self._opened() as topics:
            opened = topics.topic(self._graph.topics[topic])
            found = [each.record for each in opened.read(0, self._seen[topic])]
        self._seen[topic] += len(found)
        return found

    def _append(self, topic: str, records: Iterable[Record[Any, Any]]) -> None:
        with self._opened() as topics:
            topics.topic(self._graph.topics[topic]).append(records)

    def _open_store(self, name: str) -> Any:
        logged = open_logged_store(self._directory / "state", name, 0, backend=self._backend)
        return self._stack.enter_context(logged).store

    def _opened(self) -> LocalTopics:
        return LocalTopics(self._directory / "topics", durability=Durability.PROCESS_CRASH)

    def _run(self) -> None:
        runner = LocalRunner(
            self._topology,
            self._directory / "state",
            self._directory / "topics",
            backend=self._backend,
            durability=Durability.PROCESS_CRASH,
            cache_max_bytes=self._cache_max_bytes,
            until="idle",
            clock_ms=lambda: self._wall_ms,
        )
        progress = runner.run()
        self.dropped_total += progress.dropped
