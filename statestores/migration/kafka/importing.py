"""A whole state directory of Kafka Streams into a state root.

Partitions keep their numbers, and rows go through the changelog of each, so that every reader of a
state root sees them. A partition is written aside and renamed when it is complete: it is there
whole or not at all, whenever the import dies. The directory of Kafka Streams is only read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.errors import InvalidArgumentError
from statestores.migration.kafka.kinds import ROW_SCHEMAS, KafkaKind
from statestores.migration.kafka.state import KafkaStateDirectory
from statestores.migration.kafka.target import specification_for
from statestores.migration.partition_import import (
    ImportedPartition,
    checked_first,
    importing_into,
    in_order,
    partitions_there,
    root_outside,
    write_partition,
)
from statestores.migration.row_checks import checked_rows
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What one store of Kafka Streams becomes. Made by `plan_import`."""

    store: str
    """The store's name, there and here."""

    kind: KafkaKind
    """What its bytes are."""

    specification: StoreSpecification[Any, Any]
    """What it is here."""

    partitions: int
    """How many partitions it has here, those that are not in the directory included."""

    present: tuple[int, ...]
    """The partitions that are in the directory."""

    check_keys: bool
    """Whether each key must be in the partition that its bytes give."""


def plan_import(
    source: KafkaStateDirectory,
    store: str,
    *,
    kind: KafkaKind | None = None,
    retention_ms: int | None = None,
    window_size_ms: int | None = None,
    partitions: int | None = None,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    check_keys: bool = True,
) -> ImportPlan:
    """Return what *store* becomes; nothing is written.

    Args:
        source: The directory of Kafka Streams.
        store: The store's name.
        kind: Its kind, where the bytes do not tell.
        retention_ms: For how long windows, sessions or versions are kept. Kafka Streams does not
            write it down.
        window_size_ms: How long the windows are. Kafka Streams does not write it down.
        partitions: How many partitions the application has. By default as many as are needed for
            those in the directory; those of other machines may come after them.
        key: The serde that reads the keys, which stay as they are.
        value: The serde that reads the values.
        check_keys: Refuse keys that the default partitioner puts elsewhere: the number of
            partitions is wrong then, or the application has a partitioner of its own. A store that
            is imported without the check finds such keys only by scans.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: Something is missing, or impossible.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The store cannot be read.
    """
    found = source.store(store)
    chosen = source.kind_of(store, kind)
    needed = found.partitions[-1] + 1
    if partitions is not None and partitions < needed:
        raise InvalidArgumentError(
            f"the store {store!r} has the partitions {_numbers(found.partitions)} in "
            f"{str(source.path)!r}, so there are at least {needed}, got {partitions}"
        )
    specification = specification_for(
        store,
        chosen,
        retention_ms=retention_ms,
        window_size_ms=window_size_ms,
        retain_duplicates=_has_duplicates(source, store, chosen, found.partitions),
        key=key,
        value=value,
    )
    return ImportPlan(
        store=store,
        kind=chosen,
        specification=specification,
        partitions=partitions or needed,
        present=found.partitions,
        check_keys=check_keys and not found.is_global,
    )


def import_kafka_state(
    source: KafkaStateDirectory,
    root: str | PathLike[str],
    plans: Sequence[ImportPlan],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    skip_existing: bool = False,
    progress: ProgressCallback | None = None,
) -> list[ImportedPartition]:
    """Import the stores of *plans* into the state root at *root*, made if need be (MIG-14).

    Each partition gets the rows that are on disk, the changelog offset and the position that
    Kafka Streams had, under the topic's name, and a snapshot. To import what other machines have,
    call this again with their directories. A call that died is repeated with *skip_existing*.

    Raises:
        StoreMismatchError: A store is already there and is a different one, or a partition is there
            and must not be skipped; nothing was imported.
        InvalidArgumentError: *root* is inside of what is imported; or a key is in another partition
            than its own, and nothing was imported then.
        SerializationError: A serde of the plan does not read a key or value (MIG-20); likewise.
        StoreLockedError: Another import into *root* is running.
        StoreCorruptedError, UnsupportedFormatError, StorageError: Something cannot be read or
            written. Partitions that are complete stay.
    """
    with root_outside(source.path, root) as target:
        places = [(plan.store, number) for plan in plans for number in plan.present]
        existing = partitions_there(target, places, skip_existing=skip_existing)
        for plan in plans:
            if plan.store in target.stores:  # only compares; others are added when they have rows
                target.add_store(plan.specification, partitions=plan.partitions)
        new = {
            (plan.store, number): partial(_checked, source, plan, number)
            for plan in plans
            for number in plan.present
            if (plan.store, number) not in existing
        }
        with importing_into(target), checked_first(target, new):
            meter = Meter(progress)
            return [
                ImportedPartition.left(plan.store, number)
                if (plan.store, number) in existing
                else _import_partition(source, target, plan, number, backend, options, meter)
                for plan in plans
                for number in plan.present
            ]


def _import_partition(
    source: KafkaStateDirectory,
    target: StateRoot,
    plan: ImportPlan,
    partition: int,
    backend: str | None,
    options: Mapping[str, object] | None,
    meter: Meter,
) -> ImportedPartition:
    """Import a partition.

    Requires: the lock of what is aside.
    """
    offsets = source.offsets(plan.store, partition)
    return write_partition(
        target,
        plan.specification,
        plan.partitions,
        partition,
        in_order(plan.kind.store_kind, ROW_SCHEMAS[plan.kind], _checked(source, plan, partition)),
        # Kafka's changelog is what these rows were read from: an input, and no changelog of ours.
        {**offsets.changelog, **offsets.position},
        backend=backend,
        options=options,
        meter=meter,
        is_closed_cleanly=offsets.is_closed_cleanly,
    )


def _checked(
    source: KafkaStateDirectory, plan: ImportPlan, partition: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, which are readable and whose keys belong there.

    Raises:
        SerializationError: A serde does not read a key or value.
        InvalidArgumentError: A key belongs elsewhere.
    """
    return checked_rows(
        source.read(plan.store, partition, kind=plan.kind),
        plan.specification,
        plan.partitions,
        partition,
        check_keys=plan.check_keys,
    )


def _has_duplicates(
    source: KafkaStateDirectory, store: str, kind: KafkaKind, partitions: Sequence[int]
) -> bool:
    """Return whether a window store keeps several values of a window: then none has number 0."""
    for partition in partitions:
        batch = next(source.read(store, partition, kind=kind), None)
        if batch is not None:
            return "sequence" in batch.schema.names and batch.column("sequence")[0].as_py() > 0
    return False


def _numbers(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))
