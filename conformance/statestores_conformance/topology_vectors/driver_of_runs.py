"""Cases in a runner that runs until it is idle, once for each batch of the input."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from statestores.errors import StoreNotFoundError
from statestores.processing import Record, Topology
from statestores.processing.testing.declared_view import DeclaredView
from statestores.serdes import register_serde
from statestores_conformance.topology_vectors.case_driver import keeps_stamps
from statestores_conformance.topology_vectors.vocabulary import NeutralKeySerde


class DriverOfRuns(ABC):
    """Runs a topology again and again, the wall clock in the hand of the case.

    It is a `CaseDriver`: its face is that of the test driver, as far as a case needs it.
    """

    def __init__(self, topology: Topology, directory: Path, backend: str) -> None:
        """Begin with an empty directory."""
        register_serde(NeutralKeySerde())  # a state names the serdes of its stores
        self._topology, self._directory, self._backend = topology, directory, backend
        self._graph = topology.build()
        self._wall_ms = 0
        self._size = 1
        self._waiting: list[tuple[str, Record[Any, Any]]] = []
        self._stack = ExitStack()
        self._stores: dict[str, Any] = {}
        self.dropped_total = 0
        self._has_run = False

    def __enter__(self) -> Self:
        """Begin: the first run opens what is there from the beginning, such as timers."""
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
            name = waiting[start][0]
            if end == len(waiting) or waiting[end][0] != name:
                self._append(name, (record for _, record in waiting[start:end]))
                start = end
                self._run_now()

    def advance_wall_clock(self, by_ms: int) -> None:
        """Move the wall clock, and do what is due."""
        self.settle()
        self._begin()  # before the clock moves
        self._wall_ms += by_ms
        self._run_now()

    def store(self, name: str, *, stamped: bool = False) -> Any:
        """Return the store *name*, open until the case is over."""
        if name not in self._graph.stores:
            raise StoreNotFoundError(f"the case has no store {name!r}")
        self._begin()
        if name not in self._stores:
            self._stores[name] = self._open_store(name)
        store = self._stores[name]
        return DeclaredView(store) if keeps_stamps(self._graph, name) and not stamped else store

    def _begin(self) -> None:
        """Run once, if that has not been done."""
        if not self._has_run:
            self._run_now()

    def _run_now(self) -> None:
        self._has_run = True
        self._run()

    @property
    def dropped(self) -> str:
        """The records that were dropped; the reasons are in the log."""
        return f"{self.dropped_total}"

    @abstractmethod
    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        """Return what has come to *topic* since the last call."""

    @abstractmethod
    def _append(self, topic: str, records: Iterable[Record[Any, Any]]) -> None:
        """Append *records* to *topic*, durably."""

    @abstractmethod
    def _open_store(self, name: str) -> Any:
        """Open the store *name* of the last run; `_stack` closes it."""

    @abstractmethod
    def _run(self) -> None:
        """Run until everything that is there is processed."""
