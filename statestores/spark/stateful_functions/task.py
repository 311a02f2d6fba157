"""What a task of a stateful operator does: open its stores, call the function, stage what it gives.

A task changes nothing that anybody sees. Its stores are copies at the offsets that the driver has
pinned; what the function writes stays pending, is staged under a name of the attempt's own, and is
forgotten by the copy. So an attempt that fails, or that runs beside another one, does no harm, and
a copy is never ahead of what is published.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from uuid import uuid4

import pyarrow as pa

from statestores.arrow.progress import Meter
from statestores.arrow.snapshots.choice import ListedSnapshot, listed_in
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.snapshot import committed_content, write_snapshot
from statestores.changelog import change_schema, changelog_partition
from statestores.changelog.rows import batch_from_changes
from statestores.errors import InvalidArgumentError, SnapshotCorruptedError, StoreNotFoundError
from statestores.files.strict_json import Fields
from statestores.generations import current_home
from statestores.object_log.documents import Staged, pack_staged, staged_in
from statestores.object_log.view import View
from statestores.opening import BytesStore, typed_store
from statestores.partitioning import partitioner_by_name
from statestores.semantics.every_kind.journal import Journal
from statestores.spark.copied_partition import copied_partition
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
from statestores.staging.staged_objects import ObjectStager
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
    """The changes of each store, in a directory."""

    outputs: tuple[StagedFile, ...]
    """What the function has emitted."""

    dropped: Mapping[str, int]
    """How many records it has dropped, by reason."""

    partition: int = 0
    """The partition."""

    objects: Mapping[str, tuple[Staged, ...]] = field(default_factory=dict)
    """The changes of each store, in an object store."""

    def to_json(self) -> str:
        """Return the result as text."""
        staged = {name: {"staged": pack_staged(some)} for name, some in self.objects.items()}
        return json.dumps({**asdict(replace(self, objects={})), "objects": staged})

    @classmethod
    def from_json(cls, text: str) -> "TaskResult":
        """Return the result that `to_json` has made *text* of."""
        content = json.loads(text)
        staged = Fields(content, "the result of a task").inside("objects")
        return cls(
            stores={
                name: tuple(StagedFile(**file) for file in files)
                for name, files in content["stores"].items()
            },
            outputs=tuple(StagedFile(**file) for file in content["outputs"]),
            dropped=content["dropped"],
            partition=content["partition"],
            objects={name: staged_in(each) for name, each in staged.items()},
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

    seen: Mapping[str, Mapping[int, View]] = field(default_factory=dict)
    """What the driver has seen of each of them, in an object store, so that tasks need not look."""

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
                seen = self.seen.get(specification.name, {}).get(partition)
                source = copied_partition(
                    plan.place, specification, plan.partitions, partition, seen
                )
                store = stack.enter_context(local_copy(source, end_offset, plan.copies))
                self._snapshot(store, partition)
                store.attach_journal(_NoCommit(changelog_partition(specification.name, partition)))
                stores[specification.name] = store
            tables = {
                table.name: stack.enter_context(
                    local_copy(
                        copied_partition(
                            plan.place, table, 1, 0, self.seen.get(table.name, {}).get(0)
                        ),
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
            pending = {name: self._pending(store, partition) for name, store in stores.items()}
            result = TaskResult(
                stores={}, outputs=outputs, dropped=dict(given.dropped), partition=partition
            )
            if plan.place.directory is None:
                return replace(
                    result,
                    objects={
                        name: self._put(stores[name], partition, attempt, changes)
                        for name, changes in pending.items()
                    },
                )
            return replace(
                result,
                stores={
                    name: self._staged(stores[name], partition, attempt, changes)
                    for name, changes in pending.items()
                },
            )

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

    def _pending(self, store: BytesStore, partition: int) -> pa.RecordBatch | None:
        """Return what is pending in *store*; ``None`` if nothing is."""
        logged = changelog_partition(store.name, partition)
        end_offset = self.end_offsets[store.name].get(partition, 0)
        before = None if end_offset == 0 else end_offset - 1
        if not store.is_open or store.committed_offset(logged) != before:
            raise InvalidArgumentError(
                f"the function has closed or truncated the store {store.name!r}; delete keys "
                "instead, so that the changelog has it"
            )
        changes = store.pending_changes()
        if not len(changes):
            return None
        return batch_from_changes(change_schema(store.specification.kind), changes)

    def _staged(
        self, store: BytesStore, partition: int, attempt: str, batch: pa.RecordBatch | None
    ) -> tuple[StagedFile, ...]:
        """Stage *batch*, which is pending in *store*, in the directory."""
        plan = self.plan
        if batch is None:
            return ()
        staged = stage(
            plan.root,
            store.specification,
            plan.partitions,
            self.write_id,
            attempt,
            [batch],
            partition=None if plan.places_keys else partition,
        )
        self._check_places(store, partition, batch, {file.partition for file in staged.files})
        return staged.files

    def _put(
        self, store: BytesStore, partition: int, attempt: str, batch: pa.RecordBatch | None
    ) -> tuple[Staged, ...]:
        """Stage *batch*, which is pending in *store*, in the object store."""
        plan = self.plan
        if batch is None:
            return ()
        stager = ObjectStager(
            plan.place.object_log(store.specification, plan.partitions),
            store.specification,
            begun=f"{self.write_id}-{attempt}",
            only=None if plan.places_keys else partition,
        )
        stager.add(batch)
        staged = stager.finish()
        self._check_places(store, partition, batch, {each.partition for each in staged.objects})
        return tuple(each.staged for each in staged.objects)

    def _check_places(
        self, store: BytesStore, partition: int, batch: pa.RecordBatch, places: set[int]
    ) -> None:
        """Accept a *batch* whose keys belong to *places*, if that is *partition* alone."""
        if places != {partition}:
            plan = self.plan
            raise InvalidArgumentError(
                f"the function has put {_stranger(store, plan.partitions, partition, batch)!r} "
                f"into {store.name!r}, a key of another partition than the rows that it was given; "
                f"write keys from the column {plan.key!r} only, so that readers find them"
            )

    def _snapshot(self, store: BytesStore, partition: int) -> None:
        """Write a snapshot when the changelog after the newest one is longer than that one.

        So what a machine without a copy has to replay is bounded by the size of the state, and the
        writing by the changes. Snapshots that are older than the last two go.
        """
        logged = changelog_partition(store.name, partition)
        committed = store.committed_offset(logged)
        if committed is None or committed < SNAPSHOT_CHANGES:
            return
        plan = self.plan
        if plan.place.directory is None:
            log = plan.place.object_log(store.specification, plan.partitions)
            snapshots = ObjectSnapshots(log=log, log_id=log.log_id(), partition=partition)
            if _is_due(snapshots.listed(), committed):
                with committed_content(store, logged) as content:
                    snapshots.write(content, meter=Meter(None))
                snapshots.remove_old(KEPT_SNAPSHOTS)
            return
        home = current_home(plan.root, store.name, plan.partitions)
        directory = PartitionDirectory(home / str(partition))
        if _is_due(listed_in(directory.snapshots), committed):
            write_snapshot(store, directory.snapshots, partition=logged)
            remove_old_snapshots(directory, KEPT_SNAPSHOTS)


def _is_due(listed: Sequence[ListedSnapshot], committed: int) -> bool:
    """Return whether the changelog up to *committed* is long enough for another snapshot."""
    if not listed:
        return True
    newest = listed[-1]
    try:
        rows = newest.read().rows
    except (SnapshotCorruptedError, StoreNotFoundError):
        rows = 0  # it is no use to a restore
    return committed - newest.offset >= max(rows, SNAPSHOT_CHANGES)


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
