"""One task of a test driver: a runtime over stores that the driver has opened."""

from collections.abc import Mapping
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statestores import Durability, TopicPartition, open_store
from statestores.errors import MissingDriverError
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.record import RawRecord
from statestores.processing.runtime import TaskLog, TaskRuntime, head_times
from statestores.processing.topology import SubTopology
from statestores.serdes.typed_stores.processor_store import for_processors

if TYPE_CHECKING:
    from statestores.processing.runtime.row_order import Block


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
        cache_max_bytes: int = 0,
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
                cache_max_bytes=cache_max_bytes,
            )
        except BaseException:
            self._close_stores()
            raise
        self._next_offsets: dict[TopicPartition, int] = {}
        self._times = head_times(part)

    def take(self, topic: str, partition: int, records: list[RawRecord]) -> None:
        """Process records of one partition, with the offsets that come next."""
        place = TopicPartition(topic, partition)
        first = self._next_offset(place)
        self._next_offsets[place] = first + len(records)
        if len(records) == 1:
            self.runtime.process(topic, partition, first, records[0])
        else:
            self.runtime.process_batch(topic, partition, first, records)

    def take_several(self, records: list[tuple[str, RawRecord]]) -> None:
        """Process records of several topics, of this partition, in the order given."""
        block = self._block(records)
        if block is not None:
            for lot in block.lots:
                self._next_offsets[lot.partition] = lot.offsets[-1] + 1
            self.runtime.process_block(block, stops=False)
            return
        for topic, several in groupby(records, key=itemgetter(0)):
            self.take(topic, self.runtime.task_partition, [record for _, record in several])

    def _block(self, records: list[tuple[str, RawRecord]]) -> "Block | None":
        """Return *records* as a block; ``None`` without Arrow, or if a log could not have one."""
        try:
            make = import_module("statestores.processing.runtime.row_order").block_of
        except MissingDriverError:
            return None
        places = {
            topic: TopicPartition(topic, self.runtime.task_partition)
            for topic in dict.fromkeys(topic for topic, _ in records)
        }
        firsts = {place: self._next_offset(place) for place in places.values()}
        block: Block | None = make(records, places, firsts, self._times)
        return block

    def _next_offset(self, place: TopicPartition) -> int:
        if place not in self._next_offsets:
            store = self.whole_stores[self.part.task_store.name]
            self._next_offsets[place] = store.next_offset(place)
        return self._next_offsets[place]

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
