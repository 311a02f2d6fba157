"""Cases in the local runner: durable topics, and a run until idle for each batch of the input.

Each run opens the state that the one before has left, so a case is also one of restarts. Here the
face is that of the test driver, as far as a case needs it.
"""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from statestores.errors import StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.processing import LocalRunner, LocalTopics, Record, Topology
from statestores.processing.stores import PlainView
from statestores.serdes import register_serde
from statestores.spi import Durability
from statestores_conformance.topology_vectors.case_driver import keeps_stamps
from statestores_conformance.topology_vectors.vocabulary import NeutralKeySerde


class LocalDriver:
    """Runs a topology in a directory, the wall clock in the hand of the case.

    It is a `CaseDriver`.
    """

    def __init__(self, topology: Topology, directory: Path, backend: str) -> None:
        """Begin with an empty directory."""
        register_serde(NeutralKeySerde())  # a state names the serdes of its stores
        self._topology, self._directory, self._backend = topology, directory, backend
        self._topics = topology.build().topics
        self._wall_ms = 0
        self._size = 1
        self._waiting: list[tuple[str, Record[Any, Any]]] = []
        self._seen: Counter[str] = Counter()
        self._stack = ExitStack()
        self._stores: dict[str, Any] = {}
        self.dropped_total = 0

    def __enter__(self) -> Self:
        """Open what has to be there before the first record, such as timers."""
        self._run()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stores that were read."""
        self._stack.close()

    def to_batches(self, size: int) -> None:
        """Process so many records at a time."""
        self._size = size

    def pipe(self, topic: str, record: Record[Any, Any]) -> None:
        """Take a record of the input; with it, a batch may be full."""
        self._waiting.append((topic, record))
        if len(self._waiting) >= self._size:
            self.settle()

    def settle(self) -> None:
        """Append what waits, and run. Records of one topic that follow each other are one batch."""
        waiting, self._waiting = self._waiting, []
        start = 0
        for end in range(1, len(waiting) + 1):
            if end == len(waiting) or waiting[end][0] != waiting[start][0]:
                topic = self._topics[waiting[start][0]]
                with self._opened() as topics:
                    topics.topic(topic).append(each for _, each in waiting[start:end])
                start = end
                self._run()

    def advance_wall_clock(self, by_ms: int) -> None:
        """Move the wall clock, and do what is due."""
        self.settle()
        self._wall_ms += by_ms
        self._run()

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        """Return what has come to *topic* since the last call."""
        self.settle()
        with self._opened() as topics:
            opened = topics.topic(self._topics[topic])
            found = [each.record for each in opened.read(0, self._seen[topic])]
        self._seen[topic] += len(found)
        return found

    def store(self, name: str, *, stamped: bool = False) -> Any:
        """Return the store *name*, open until the case is over."""
        graph = self._topology.build()
        if name not in graph.stores:
            raise StoreNotFoundError(f"the case has no store {name!r}")
        if name not in self._stores:
            logged = open_logged_store(self._directory / "state", name, backend=self._backend)
            self._stores[name] = self._stack.enter_context(logged).store
        store = self._stores[name]
        return PlainView(store) if keeps_stamps(graph, name) and not stamped else store

    @property
    def dropped(self) -> str:
        """The records that were dropped; the reasons are in the log."""
        return f"{self.dropped_total}"

    def _opened(self) -> LocalTopics:
        return LocalTopics(self._directory / "topics", durability=Durability.PROCESS_CRASH)

    def _run(self) -> None:
        runner = LocalRunner(
            self._topology,
            self._directory / "state",
            self._directory / "topics",
            backend=self._backend,
            durability=Durability.PROCESS_CRASH,
            until="idle",
            clock_ms=lambda: self._wall_ms,
        )
        progress = runner.run()
        self.dropped_total += progress.dropped
