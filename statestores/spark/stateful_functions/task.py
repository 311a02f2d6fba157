"""What a task of a stateful operator does: open its stores, call the function, stage what it gives.

A task changes nothing that anybody sees. Its stores are copies at the offsets that the driver has
pinned; what the function writes stays pending, is staged under a name of the attempt's own, and is
forgotten by the copy. So an attempt that fails, or that runs beside another one, does no harm, and
a copy is never ahead of what is published.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from uuid import uuid4

import pyarrow as pa

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores.changelog import change_schema, changelog_partition
from statestores.changelog.rows import batch_from_changes
from statestores.errors import InvalidArgumentError, SnapshotCorruptedError
from statestores.generations import current_home
from statestores.opening import BytesStore, typed_store
from statestores.partitioning import partitioner_by_name
from statestores.semantics.every_kind.journal import Journal
from statestores.spark.copied_partition import PartitionInDirectory
from statestores.spark.hash_placement import PLACE_COLUMN, partition_of
from statestores.spark.local_copy import local_copy
from statestores.spark.stateful_functions.output import (
    batches_of_rows,
    checked_batches,
    write_outputs,
)
from statestores.spark.stateful_functions.plan import OpenStores, StatefulPlan
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.staging.staged_rows import StagedFile
from statestores.staging.staged_write import stage
from statestores.state_root import PartitionDirectory
from statestores.upkeep.vacuum import KEPT_SNAPSHOTS, remove_old_snapshots

SNAPSHOT_CHANGES = 100_000
"""A changelog is this long before a task writes a snapshot, so that small states need none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What the successful attempt of a task has staged. Sent to the driver as text."""

    stores: Mapping[str, tuple[StagedFile, ...]]
    """The changes of each store."""

    outputs: tuple[StagedFile, ...]
    """What the function has emitted."""

    dropped: Mapping[str, int]
    """How many records it has dropped, by reason."""

    def to_json(self) -> str:
        """Return the result as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TaskResult":
        """Return the result that `to_json` has made *text* of."""
        content = json.loads(text)
        return cls(
            stores={
                name: tuple(StagedFile(**file) for file in files)
                for name, files in content["stores"].items()
            },
            outputs=tuple(StagedFile(**file) for file in content["outputs"]),
            dropped=content["dropped"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulTask:
    """The tasks of one micro-batch. Made to be sent to them."""

    plan: StatefulPlan
    """The operator."""

    write_id: str
    """The micro-batch, under whose name everything is staged."""

    number: int
    """Its number in the query."""

    end_offsets: Mapping[str, Mapping[int, int]]
    """Where the changelogs of each store end, by partition: the state before the micro-batch."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compute the rows of one partition, and yield one row: the `TaskResult`.

        Raises:
            InvalidArgumentError: The function has written a key of another partition, or has
                emptied a store or closed it.
            InvalidTypeError: It has emitted something else than the output schema declares.
            StateStoreError: A store cannot be restored, or the files cannot be written. What the
                function raises is raised as it is.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        partition = partition_of(first, self.plan.partitions)
        result = self._compute(partition, chain((first,), filled))
        yield pa.record_batch({"result": [result.to_json()]})

    def _compute(self, partition: int, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        plan = self.plan
        attempt = f"{partition:05d}-{uuid4().hex}"
        with ExitStack() as stack:
            stores: dict[str, BytesStore] = {}
            for specification in plan.specifications:
                end_offset = self.end_offsets[specification.name].get(partition, 0)
                source = PartitionInDirectory(plan.root, specification, partition)
                store = stack.enter_context(local_copy(source, end_offset, plan.copies))
                self._snapshot(store, partition)
                store.attach_journal(_NoCommit(changelog_partition(specification.name, partition)))
                stores[specification.name] = store
            tables = {
                table.name: stack.enter_context(
                    local_copy(
                        PartitionInDirectory(plan.root, table, 0),
                        self.end_offsets[table.name][0],
                        plan.copies,
                    )
                )
                for table in plan.tables
            }
            opened = {
                name: typed_store(store, store.specification)
                for name, store in {**stores, **tables}.items()
            }
            given = OpenStores(opened, partition, self.number)
            outputs = write_outputs(
                plan.outputs(self.write_id),
                attempt,
                partition,
                self._emitted(self._own_rows(batches, partition), given),
                plan.schema,
                plan.channels,
            )
            staged = {
                name: self._staged(store, partition, attempt) for name, store in stores.items()
            }
        return TaskResult(stores=staged, outputs=outputs, dropped=dict(given.dropped))

    def _own_rows(
        self, batches: Iterator[pa.RecordBatch], partition: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield *batches* without their places, all of which are that of *partition*."""
        for batch in batches:
            if partition_of(batch, self.plan.partitions) != partition:
                raise InvalidArgumentError("one task has got rows of several store partitions")
            yield batch.drop_columns([PLACE_COLUMN])

    def _emitted(
        self, batches: Iterator[pa.RecordBatch], stores: OpenStores
    ) -> Iterator[pa.RecordBatch]:
        """Call the function, and yield what it emits."""
        plan = self.plan
        if plan.by == "rows":
            rows = (row for batch in batches for row in batch.to_pylist())
            return batches_of_rows(plan.function(rows, stores), plan.schema)
        return checked_batches(plan.function(batches, stores), plan.schema)

    def _staged(self, store: BytesStore, partition: int, attempt: str) -> tuple[StagedFile, ...]:
        """Stage what is pending in *store*."""
        name, plan = store.name, self.plan
        logged = changelog_partition(name, partition)
        end_offset = self.end_offsets[name].get(partition, 0)
        before = None if end_offset == 0 else end_offset - 1
        if not store.is_open or store.committed_offset(logged) != before:
            raise InvalidArgumentError(
                f"the function has closed or truncated the store {name!r}; delete keys instead, "
                "so that the changelog has it"
            )
        changes = store.pending_changes()
        if not len(changes):
            return ()
        batch = batch_from_changes(change_schema(store.specification.kind), changes)
        staged = stage(
            plan.root,
            store.specification,
            plan.partitions,
            self.write_id,
            attempt,
            [batch],
            partition=None if plan.places_keys else partition,
        )
        if any(file.partition != partition for file in staged.files):
            raise InvalidArgumentError(
                f"the function has put {_stranger(store, plan.partitions, partition, batch)!r} "
                f"into {name!r}, a key of another partition than the rows that it was given; write "
                f"keys from the column {plan.key!r} only, so that readers find them"
            )
        return staged.files

    def _snapshot(self, store: BytesStore, partition: int) -> None:
        """Write a snapshot when the changelog after the newest one is longer than that one.

        So what a machine without a copy has to replay is bounded by the size of the state, and the
        writing by the changes. Snapshots that are older than the last two go.
        """
        logged = changelog_partition(store.name, partition)
        committed = store.committed_offset(logged)
        home = current_home(self.plan.root, store.name)
        directory = PartitionDirectory(home / str(partition))
        if committed is None or committed < SNAPSHOT_CHANGES:
            return
        newest = max(list_snapshots(directory.snapshots).items(), default=None)
        if newest is not None:
            try:
                rows = read_snapshot(newest[1]).rows
            except SnapshotCorruptedError:
                rows = 0  # it is no use to a restore
            if committed - newest[0] < max(rows, SNAPSHOT_CHANGES):
                return
        write_snapshot(store, directory.snapshots, partition=logged)
        remove_old_snapshots(directory, KEPT_SNAPSHOTS)


class _NoCommit(Journal):
    """Takes the place of the changelog, for a function that commits or empties a store."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition

    @property
    def partition(self) -> TopicPartition:
        return self._partition

    @property
    def end_offset(self) -> int:
        return 0

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        raise InvalidArgumentError(
            "a stateful function must not commit its stores: that is done with the micro-batch"
        )

    def append_clear(self, durability: Durability) -> int:
        raise InvalidArgumentError(
            "a stateful function must not truncate its stores: delete what is to go, key by key"
        )


def _stranger(store: BytesStore, partitions: int, partition: int, batch: pa.RecordBatch) -> bytes:
    """Return the first key of *batch* that belongs to another partition."""
    chosen = partitioner_by_name(store.specification.partitioner).partition_array(
        batch.column("key"), partitions
    )
    place = chosen.to_pylist().index(next(each for each in chosen.to_pylist() if each != partition))
    key: bytes = batch.column("key")[place].as_py()
    return key
