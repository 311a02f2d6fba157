"""What runs the topology of a case: the test driver, or another that has the same face."""

from typing import Any, Protocol

from statestores.processing import Graph, Record
from statestores.processing.testing import TestDriver


class CaseDriver(Protocol):
    """Takes the input of a case, and shows what comes of it."""

    @property
    def dropped_total(self) -> int:
        """How many records went no further."""

    @property
    def dropped(self) -> str:
        """The same in words."""

    def to_batches(self, size: int) -> None:
        """Process so many records at a time."""

    def pipe(self, topic: str, record: Record[Any, Any]) -> None:
        """Take a record of the input."""

    def settle(self) -> None:
        """Process what waits for its batch to be full."""

    def advance_wall_clock(self, by_ms: int) -> None:
        """Move the wall clock, and do what is due."""

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        """Return what has come to *topic* since the last call."""

    def store(self, name: str, *, stamped: bool = False) -> Any:
        """Return a store, for reading, as it was declared or with its timestamps."""


class InMemoryDriver:
    """The test driver."""

    def __init__(
        self,
        driver: TestDriver,
        least_column_rows: int | None = None,
        least_run_rows: int | None = None,
    ) -> None:
        """Use *driver*, with columns from *least_column_rows* records on, and runs."""
        self._driver = driver
        self._least_column_rows = least_column_rows
        self._least_run_rows = least_run_rows
        self.settle = driver.settle
        self.advance_wall_clock = driver.advance_wall_clock

    def to_batches(self, size: int) -> None:
        """Process *size* records at once from now on."""
        self._driver.to_batches(
            size,
            least_column_rows=self._least_column_rows,
            least_run_rows=self._least_run_rows,
        )

    @property
    def dropped_total(self) -> int:
        """How many records went no further."""
        return self._driver.dropped_total

    @property
    def dropped(self) -> str:
        """By operator and reason."""
        found = [
            f"{reason}: {times}"
            for each in self._driver.counts
            for reason, times in each.dropped.items()
        ]
        return ", ".join(found) or "0"

    def pipe(self, topic: str, record: Record[Any, Any]) -> None:
        """Take a record of the input."""
        self._driver.topic(topic).pipe(record.value, record.key, time_ms=record.time_ms)

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        """Return what has come to *topic* since the last call."""
        return self._driver.topic(topic).read_all()

    def store(self, name: str, *, stamped: bool = False) -> Any:
        """Return a store."""
        return self._driver.store(name, stamped=stamped)


def keeps_stamps(graph: Graph, name: str) -> bool:
    """Return whether the store *name* keeps times with its values that were not declared."""
    return any(
        node.kind != "process" and any(store.name == name for store in node.stores)
        for node in graph.nodes
    )
