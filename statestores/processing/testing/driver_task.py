"""One task of a test driver: a runtime over stores that the driver has opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statestores import Durability, TopicPartition, open_store
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.record import RawRecord
from statestores.processing.runtime import TaskLog, TaskRuntime
from statestores.processing.topology import SubTopology
from statestores.serdes.typed_stores.processor_store import for_processors


class DriverTask:
    """The stores of a part in one partition, and the runtime over them."""

    def __init__(
        self,
        part: SubTopology,
        partition: int,
        directory: Path,
        log: TaskLog,
        *,
        backend: str,
        options: Mapping[str, object] | None,
        wall_ms: int,
        errors: ErrorPolicy,
        global_stores: Mapping[str, Any],
    ) -> None:
        """Open the stores under *directory*, and make the runtime."""
        self.part = part
        self.whole_stores: dict[str, Any] = {}
        try:
            for specification in part.stores:
                self.whole_stores[specification.name] = open_store(
                    directory / specification.name / str(partition),
                    specification,
                    backend=backend,
                    options=options,
                    durability=Durability.PROCESS_CRASH,
                )
            self.stores = {
                name: for_processors(
                    store, "the driver commits, after each call or by TestDriver.commit"
                )
                for name, store in self.whole_stores.items()
            }
            self.runtime = TaskRuntime(
                part,
                partition,
                self.stores,
                log,
                wall_ms=wall_ms,
                errors=errors,
                global_stores=global_stores,
            )
        except BaseException:
            self._close_stores()
            raise
        self._next_offsets: dict[TopicPartition, int] = {}

    def take(self, topic: str, partition: int, records: list[RawRecord]) -> None:
        """Process records of one partition, with the offsets that come next."""
        place = TopicPartition(topic, partition)
        first = self._next_offsets.get(place)
        if first is None:
            first = self.whole_stores[self.part.task_store.name].next_offset(place)
        self._next_offsets[place] = first + len(records)
        if len(records) == 1:
            self.runtime.process(topic, partition, first, records[0])
        else:
            self.runtime.process_batch(topic, partition, first, records)

    def commit(self) -> None:
        """Commit every store with the position."""
        position = self.runtime.prepare_commit()
        for store in self.whole_stores.values():
            store.advance_position(position)
            store.commit({})

    def close(self) -> None:
        """Close the runtime and the stores; what is not committed is forgotten."""
        try:
            self.runtime.close()
        finally:
            self._close_stores()

    def _close_stores(self) -> None:
        for store in self.whole_stores.values():
            store.close()
