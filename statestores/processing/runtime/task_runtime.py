"""A task at work: records in, changes in its stores and records out. One class for every runner.

A runner opens the stores, makes a `TaskRuntime`, and then in a loop: gives it records, moves the
wall clock, and commits. To commit it calls `prepare_commit`, which writes times to the stores and
returns the position, and makes stores, emitted records and position durable as one. Whatever an
operator has to remember lies in the stores; so a runtime that is made anew over stores as a commit
left them goes on as if nothing had happened. After a failure, throw the runtime away, roll the
stores back, and make another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.errors import InvalidArgumentError
from statestores.failpoints import reach
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.operators.ends import Source
from statestores.processing.record import Headers, RawRecord, Record
from statestores.processing.runtime.column_ways import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS, ColumnWays
from statestores.processing.runtime.operator_side import NO_RECORD, OperatorSide
from statestores.processing.runtime.task_log import TaskLog
from statestores.processing.runtime.task_meter import TaskMeter
from statestores.processing.runtime.task_metrics import TaskCounts
from statestores.processing.runtime.update_cache import cache_of
from statestores.processing.runtime.wiring import wired
from statestores.processing.topology import SubTopology
from statestores.spi import TopicPartition
from statestores.spi.records import new_tuple

if TYPE_CHECKING:
    import pyarrow as pa

    from statestores.processing.runtime.row_order import Block, Lot


class TaskRuntime(OperatorSide):
    """One part of a topology for one partition. One thread at a time uses it."""

    def __init__(
        self,
        part: SubTopology,
        partition: int,
        stores: Mapping[str, Any],
        log: TaskLog,
        *,
        wall_ms: int,
        errors: ErrorPolicy | None = None,
        global_stores: Mapping[str, Any] | None = None,
        least_column_rows: int = LEAST_COLUMN_ROWS,
        least_run_rows: int = LEAST_RUN_ROWS,
        cache_max_bytes: int = 0,
        tags: Mapping[str, str] | None = None,
        no_wall_clock: str | None = None,
        meter: TaskMeter | None = None,
    ) -> None:
        """Make the operators of *part*, over open stores.

        Args:
            part: What to run.
            partition: The partition of the task.
            stores: A typed store for each of ``part.stores``, by name, best as processors get them
                (`statestores.tasks.Task.store`).
            log: Takes what is emitted.
            wall_ms: The wall clock now.
            errors: What becomes of records that fail; by default the task fails.
            global_stores: The stores of the global tables that ``part.global_stores`` names.
            least_column_rows: From how many records on a batch is processed as columns (PRC-55).
            least_run_rows: From how many records on a smaller one is processed as a run (PRC-95);
                with a cache, none is.
            cache_max_bytes: Memory in which updates wait for later ones of their keys (PRC-82).
            tags: Those of the task's metrics.
            no_wall_clock: Why there are no timers of the wall clock, if there are none.
            meter: What measures the task, with what it has counted in a runtime before this one; by
                default one that begins here, with *tags*.

        Raises:
            StoreNotFoundError: A store is missing.
            InvalidTopologyError: An operator goes by a wall clock that there is not.
        """
        super().__init__(
            part,
            partition,
            {**(global_stores or {}), **stores},
            log,
            wall_ms=wall_ms,
            errors=errors or ErrorPolicy(),
            meter=meter or TaskMeter(TaskCounts(), tags or {"task-id": f"{part.name}-{partition}"}),
            no_wall_clock=no_wall_clock,
        )
        self._position: dict[tuple[str, int], int] = {}
        self._moved_to_ms: int | None = None
        self._operators, self._ways = wired(part, self._errors, self.failed)
        self._sources = {
            operator.topic.name: operator
            for operator in self._operators.values()
            if isinstance(operator, Source)
        }
        self._entries = {
            name: (source.decode, source.forward) for name, source in self._sources.items()
        }
        self._columns = ColumnWays(
            self,
            self._operators,
            self._ways,
            self._errors,
            least_rows=least_column_rows,
            least_run_rows=least_run_rows,
            has_cache=bool(cache_max_bytes),
        )
        for operator in self._operators.values():
            operator.open(self)
        self._cache = cache_of(
            part, self._operators, self._ways, self.store, cache_max_bytes, self._flush_full_cache
        )

    # The runner's side.

    def process(self, topic: str, partition: int, offset: int, record: RawRecord) -> None:
        """Take one record, and do with it and with the timers that it sets off all there is to do.

        Records of one partition come in the order of their offsets.

        Raises:
            InvalidArgumentError: The task does not read *topic*.
            ProcessingError: It failed, and the policy is to fail; the cause says why. After that
                the task does nothing more: a part of the record is in its stores.
        """
        try:
            decode, forward = self._entries[topic]
        except KeyError as error:
            self._check_whole()
            raise InvalidArgumentError(
                f"the part {self.part.name!r} does not read {topic!r}; it reads: "
                f"{', '.join(self._sources)}"
            ) from error
        self.topic, self.partition, self.offset, self._raw = topic, partition, offset, record
        self.counts.processed += 1
        self._position[topic, partition] = offset
        try:
            item = decode(record)
        except Exception as error:  # noqa: BLE001  # serdes and extractors may raise anything
            self.failed(self._sources[topic].name, error, self._errors.decode)
            return
        if item[2] > self.stream_time_ms:  # noqa: PLR1730  # max() takes three times as long
            self.stream_time_ms = item[2]
        try:
            forward(item)
            if self.stream_time_ms >= self._stream_timers.next_ms:
                self._no_record()
                self._stream_timers.fire(self.stream_time_ms)
        except Exception as error:
            if self._has_been_said(error):
                raise
            raise self._wrapped(error) from error

    def process_batch(
        self, topic: str, partition: int, first_offset: int, records: Sequence[RawRecord]
    ) -> None:
        """Take several records of one partition, the first of which has *first_offset*.

        The stores are then as if each had been processed for itself, and for each key the last of
        what is emitted is the same (PRC-9). Where there are enough of them, they are processed as
        columns.

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        offsets = range(first_offset, first_offset + len(records))
        self.process_records(topic, partition, offsets, records)

    def process_records(
        self, topic: str, partition: int, offsets: Sequence[int], records: Sequence[RawRecord]
    ) -> None:
        """Take several records of one partition, each of which has one of *offsets*.

        What becomes of them is what `process_batch` says.

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        batches = self._columns.batches if len(records) > 1 else None
        if batches is not None:
            batch = batches.batch(topic, list(records))
            if batch is not None:
                self.process_rows(topic, partition, offsets, batch)
                return
        self.process_each(topic, partition, offsets, records)

    def process_each(  # noqa: C901  # a call less for each record
        self,
        topic: str,
        partition: int,
        offsets: Sequence[int],
        records: Iterable[tuple[Any, Any, int, Headers]],
        raw: Callable[[], RawRecord] | None = None,
    ) -> None:
        """Take records of one partition, given as their fields, one by one: `process`, in a loop.

        They are those of raw records; or of decoded ones, if *raw* returns the one at hand as it
        came. What differs by record is looked at for each, and the rest before the first.
        """
        entry = self._entries.get(topic)
        if entry is None:
            for offset, record in zip(offsets, records, strict=True):
                self.process(topic, partition, offset, Record(*record))  # which says what is wrong
            return
        (decode, forward), timers = entry, self._stream_timers
        self.topic, self.partition, self._raw = topic, partition, raw or NO_RECORD
        offset, done = -1, 0
        try:
            for offset, record in zip(offsets, records, strict=True):
                self.offset = offset
                done += 1
                if raw is not None:
                    item = new_tuple(Record, record)
                else:
                    self._raw = record
                    try:
                        item = decode(record)
                    except Exception as error:  # noqa: BLE001  # serdes may raise anything
                        self.failed(self._sources[topic].name, error, self._errors.decode)
                        continue
                if item[2] > self.stream_time_ms:  # noqa: PLR1730  # as in `process`
                    self.stream_time_ms = item[2]
                forward(item)
                if self.stream_time_ms >= timers.next_ms:
                    self._no_record()
                    timers.fire(self.stream_time_ms)
                    self.topic, self.partition, self._raw = topic, partition, raw or NO_RECORD
        except Exception as error:
            if self._has_been_said(error):
                raise
            raise self._wrapped(error) from error
        finally:
            self.counts.processed += done
            if done:
                self._position[topic, partition] = offset

    def process_rows(
        self, topic: str, partition: int, offsets: Sequence[int], batch: "pa.RecordBatch"
    ) -> None:
        """Take records of one partition as the columns of a log of records (PRC-48).

        What becomes of them is what `process_batch` says. They are processed record by record
        where columns could not give the same (PRC-56).

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        batches = self._columns.batches if self._entries else None
        entry = None if batches is None else batches.entry(topic, batch.num_rows)
        columns = None
        if batches is not None and entry is not None:
            columns = batches.columns(entry, topic, batch)
        if (
            batches is None
            or entry is None
            or columns is None
            or columns.last_ms >= self._stream_timers.next_ms
        ):
            items = None if batches is None else batches.items(topic, batch)
            if batches is None or items is None:
                fields = import_module("statestores.processing.record_rows").fields_of(batch)
                self.process_each(topic, partition, offsets, fields)
            else:
                raw = batches.raw_at(offsets, batch)
                self.process_each(topic, partition, offsets, items, raw)
            return
        self._take(
            [(topic, partition, offsets)],
            columns.last_ms,
            lambda: batches.take(entry, offsets, batch, columns),
        )

    def take_lots(self, lots: "Iterable[Lot]", last_ms: int, take: Callable[[], None]) -> None:
        """Do with rows of several partitions all there is to do, which is what *take* does.

        The highest of their times is *last_ms*.

        Raises:
            ProcessingError: See `process`.
        """
        self._take([(*lot.partition, lot.offsets) for lot in lots], last_ms, take)

    def _take(
        self,
        places: Iterable[tuple[str, int, Sequence[int]]],
        last_ms: int,
        take: Callable[[], None],
    ) -> None:
        self._flush_cache()
        for topic, partition, offsets in places:
            if len(offsets):
                self.topic, self.partition = topic, partition
                self.counts.processed += len(offsets)
                self._position[topic, partition] = offsets[-1]
        self.stream_time_ms = max(self.stream_time_ms, last_ms)
        with self._telling_failures():
            take()
        reach("task.batch-processed")

    def process_block(self, block: "Block", *, stops: bool = True) -> list[int]:
        """Take rows of several partitions, in the order in which they come up (PRC-87).

        What becomes of them is what `process_batch` says of each run of rows of one partition.
        Return how many of each lot were taken: all, unless it *stops* where a processor has asked
        for a commit.

        Requires: Arrow is there, or nobody could have made the block.

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        if len(block.lots) > 1 and self._entries:
            return self._columns.blocks.take(block, stops=stops)
        for lot in block.lots:
            self.process_rows(*lot.partition, lot.offsets, lot.batch)
        return [len(lot.offsets) for lot in block.lots]

    def takes_rows(self, topic: str) -> bool:
        """Whether batches of *topic* are processed as columns when they are large enough."""
        return self._columns.are_taken(topic)

    def use_columns_from(self, least_column_rows: int | None, least_run_rows: int | None) -> None:
        """Process batches as columns and runs from so many records on; ``None``: as before."""
        self._columns.use_from(least_column_rows, least_run_rows)

    @property
    def declined_columns(self) -> dict[str, dict[str, int]]:
        """Which steps were given columns and used records, why, and how often."""
        return self._columns.declined

    def advance_wall_clock(self, now_ms: int) -> None:
        """Move the wall clock to *now_ms*, and do what is due. Backward moves nothing.

        The first move may be to where the clock was when the task was opened: timers may have come
        due while nobody ran it.

        Raises:
            ProcessingError: A timer failed, and the policy is to fail.
        """
        self._check_whole()
        if now_ms < self.wall_ms or now_ms == self._moved_to_ms:
            return
        self.wall_ms = self._moved_to_ms = now_ms
        self._no_record()
        with self._telling_failures():
            if now_ms >= self._wall_timers.next_ms:
                self._wall_timers.fire(now_ms)
            for listener in self._wall_listeners:
                listener(now_ms)

    @property
    def next_stream_ms(self) -> int:
        """When the next timer of stream time is due; beyond 2**63 - 1 when there is none."""
        return self._stream_timers.next_ms

    @property
    def next_wall_ms(self) -> int:
        """When the next timer of the wall clock is due; beyond 2**63 - 1 when there is none."""
        return self._wall_timers.next_ms

    def prepare_commit(self) -> dict[TopicPartition, int]:
        """Write to the stores what is kept beside them; return the position to commit with them.

        It has the last offset of each partition that has been processed since the task was opened.

        Raises:
            ProcessingError: The task has failed: what is in its stores is not whole.
        """
        self._check_whole()
        self._flush_cache()
        for operator in self._operators.values():
            operator.prepare_commit()
        self._keep_times()
        self._emission.count_waiting()
        self.commit_requested = False
        return {TopicPartition(*place): last for place, last in self._position.items()}

    def committed(self) -> None:
        """Hear that the commit came about; one that failed is prepared again."""
        self._emission.committed()

    def close(self) -> None:
        """Close the operators; the stores are the runner's."""
        for operator in self._operators.values():
            operator.close()

    def _flush_cache(self) -> None:
        """Give on the updates that wait."""
        if self._cache is not None:
            self._no_record()
            with self._telling_failures():
                self._cache.flush()

    def _flush_full_cache(self) -> None:
        """Give on the updates that wait, while a record is processed that has not made them."""
        at = self.topic, self.partition, self.offset, self._raw
        self._flush_cache()
        self.topic, self.partition, self.offset, self._raw = at
