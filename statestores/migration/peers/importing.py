"""A store of another library into a state root.

Where the other library has partitions as Kafka has them, they keep their numbers and offsets, and
each is there whole or not at all. Where it has none, keys are placed as ours are, and all rows are
there or none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.errors import (
    InvalidArgumentError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.migration.partition_import import (
    ImportedPartition,
    checked_first,
    importing_into,
    in_order,
    partitions_there,
    root_outside,
    write_partition,
)
from statestores.migration.peers.source import PEER_ROW_SCHEMAS, PeerState, PeerStore
from statestores.migration.row_checks import checked_rows, readable
from statestores.reading.partition_places import log_at
from statestores.serdes.descriptions import SPECIFICATIONS
from statestores.spi.kinds import WINDOW, Kind
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification
from statestores.staging.staged_write import create_at_once
from statestores.state_root import StateRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPlan:
    """What one store of another library becomes. Made by `plan_peer_import`."""

    store: str
    """The store's name in the source, and here."""

    specification: StoreSpecification[Any, Any]
    """What it is here."""

    partitions: int
    """How many partitions it has here."""

    present: tuple[int, ...]
    """The partitions that keep their numbers. Empty where keys are placed as ours are."""

    check_keys: bool
    """Whether each key must be in the partition that its bytes give."""


def plan_peer_import(
    source: PeerState,
    store: str,
    *,
    kind: Kind | str | None = None,
    retention_ms: int | None = None,
    partitions: int | None = None,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    check_keys: bool = True,
) -> PeerPlan:
    """Return what *store* becomes; nothing is written.

    Args:
        source: The state of the other library.
        store: The store's name.
        kind: Its kind, where the bytes do not tell.
        retention_ms: For how long windows, sessions or versions are kept, which no other library
            writes down.
        partitions: How many there are. By default as many as are needed for those in the source,
            and 1 where it has none.
        key: The serde that reads the keys, which stay as they are.
        value: The serde that reads the values.
        check_keys: Refuse keys that Kafka's default partitioner puts elsewhere, if the library
            should have put them there.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: Something is missing, or impossible.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The store cannot be read.
    """
    found = source.store(store)
    if found.problem is not None:
        raise UnsupportedFormatError(found.problem)
    chosen = _chosen(found, kind)
    field = chosen.retention
    if field is not None and retention_ms is None:
        raise InvalidArgumentError(
            f"the retention of the {chosen.name} store {store!r} is missing, which is not in its "
            "files; take it from the application's code"
        )
    if field is None and retention_ms is not None:
        raise InvalidArgumentError(
            f"the store {store!r} is of the kind {chosen.name!r}, which has no retention"
        )
    own: dict[str, Any] = {} if field is None else {field: retention_ms}
    if chosen == WINDOW:
        if found.window_size_ms is None:
            raise InvalidArgumentError(
                f"the store {store!r} has no windows yet, and nothing else says how long they are; "
                "leave it out by naming the others"
            )
        own["window_size_ms"] = found.window_size_ms
    needed = found.partitions[-1] + 1 if found.partitions else 1
    if partitions is not None and partitions < needed:
        raise InvalidArgumentError(
            f"the store {store!r} has the partitions {', '.join(map(str, found.partitions))} in "
            f"{str(source.path)!r}, so there are at least {needed}, got {partitions}"
        )
    return PeerPlan(
        store=store,
        specification=SPECIFICATIONS[chosen](store, key=key, value=value, **own),
        partitions=partitions or needed,
        present=found.partitions,
        check_keys=check_keys and found.places_by_key,
    )


def import_peer_state(
    source: PeerState,
    root: str | PathLike[str],
    plans: list[PeerPlan],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    skip_existing: bool = False,
    progress: ProgressCallback | None = None,
) -> list[ImportedPartition]:
    """Import the stores of *plans* into the state root at *root*, made if need be (MIG-17).

    A partition gets its rows, the changelog offset that the library had, under the topic's name,
    and a snapshot. Rows without partitions go into changelogs alone, and reach engines when these
    are next opened: a backend is chosen then. A call that died is repeated with *skip_existing*.

    Raises:
        StoreMismatchError: A store is already there and is a different one, or it or a partition is
            there and must not be skipped.
        InvalidArgumentError: *root* is inside of what is imported, a key is in another partition
            than its own, or a backend was named for rows without partitions.
        SerializationError: A serde of the plan does not read a key or value (MIG-20).
        StoreLockedError: The other program runs, or another import into *root*.
        StoreCorruptedError, UnsupportedFormatError, StorageError: Something cannot be read or
            written. Partitions that are complete stay.
    """
    with root_outside(source.path, root) as target:
        places = [(plan.store, number) for plan in plans for number in plan.present]
        existing = partitions_there(target, places, skip_existing=skip_existing)
        for plan in plans:
            if plan.store in target.stores and plan.present:  # only compares
                target.add_store(plan.specification, partitions=plan.partitions)
            if not plan.present and (backend is not None or options):
                raise InvalidArgumentError(
                    f"the rows of {plan.store!r} go into changelogs alone; choose the backend when "
                    "the store is opened"
                )
        new = {
            (plan.store, number): partial(_examined, source, plan, number)
            for plan in plans
            for number in plan.present
            if (plan.store, number) not in existing
        }
        meter = Meter(progress)
        done: list[ImportedPartition] = []
        with importing_into(target), checked_first(target, new):
            for plan in plans:
                if not plan.present:
                    done.append(_import_placed(source, target, plan, meter, skip=skip_existing))
                done.extend(
                    ImportedPartition.left(plan.store, number)
                    if (plan.store, number) in existing
                    else _import_partition(source, target, plan, number, backend, options, meter)
                    for number in plan.present
                )
        return done


def _chosen(found: PeerStore, kind: Kind | str | None) -> Kind:
    """Return the kind of a store: *kind* where it can be that, or the one that is certain."""
    names = " or ".join(each.name for each in found.kinds)
    if kind is None and found.kind is None:
        raise InvalidArgumentError(
            f"the bytes of the store {found.name!r} do not tell its kind, which can be {names}; "
            "say which one it is"
        )
    matching = [each for each in found.kinds if kind in (None, each, each.name)]
    if not matching:
        raise InvalidArgumentError(
            f"the store {found.name!r} cannot be of the kind {str(kind)!r}; it is {names}"
        )
    return matching[0]


def _import_partition(
    source: PeerState,
    target: StateRoot,
    plan: PeerPlan,
    partition: int,
    backend: str | None,
    options: Mapping[str, object] | None,
    meter: Meter,
) -> ImportedPartition:
    """Import a partition under its number.

    Requires: the lock of what is aside.
    """
    kind = plan.specification.kind
    return write_partition(
        target,
        plan.specification,
        plan.partitions,
        partition,
        in_order(kind, PEER_ROW_SCHEMAS[kind], _checked(source, plan, partition)),
        source.offsets(plan.store, partition),
        backend=backend,
        options=options,
        meter=meter,
    )


def _examined(source: PeerState, plan: PeerPlan, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield what `_checked` does, of a partition whose offset is known."""
    source.offsets(plan.store, partition)
    return _checked(source, plan, partition)


def _checked(source: PeerState, plan: PeerPlan, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, which are readable and whose keys belong there.

    Raises:
        SerializationError: A serde does not read a key or value.
        InvalidArgumentError: A key belongs elsewhere.
    """
    return checked_rows(
        source.read(plan.store, partition, plan.specification.kind),
        plan.specification,
        plan.partitions,
        partition,
        check_keys=plan.check_keys,
    )


def _has_changes(target: StateRoot, store: str, partitions: int) -> bool:
    """Whether anything was ever written to *store*.

    An import that died before its commit has left directories of partitions, and nothing in them:
    such a store was once taken for one that is there, and stayed empty.
    """
    places = [target.partition(store, number) for number in range(partitions)]
    specification = target.store(store).specification
    return any(
        place.path.exists() and log_at(place, specification).end().offset > 0 for place in places
    )


def _import_placed(
    source: PeerState, target: StateRoot, plan: PeerPlan, meter: Meter, *, skip: bool
) -> ImportedPartition:
    """Import a store without partitions, all of it or nothing.

    Requires: the lock of what is aside.
    """
    name, kind = plan.store, plan.specification.kind
    if name in target.stores:
        target.add_store(plan.specification, partitions=plan.partitions)  # only compares
        if _has_changes(target, name, plan.partitions):
            if skip:
                return ImportedPartition.left(name, 0)
            raise StoreMismatchError(
                f"the store {name!r} is in {str(target.path)!r} already; import into another state "
                "root, or under another name, or skip what is there"
            )

    def changes() -> Iterator[pa.RecordBatch]:
        for batch in readable(source.read(name, None, kind), plan.specification):
            meter.add(batch.num_rows, batch.nbytes)
            yield changes_from_encoded(batch, plan.specification)

    written = create_at_once(
        target, plan.specification, partitions=plan.partitions, changes=changes()
    )
    return ImportedPartition.come(name, 0, written.rows)
