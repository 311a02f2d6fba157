"""A store without history as a versioned one: its changelog says what it held, and when.

A put of a store with timestamps is valid from its timestamp; every other change from the time at
which it was committed, by the writer's clock, and never before the change ahead of it.
"""

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import pyarrow as pa

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.changelog import Frame, FrameKind
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.migration.partition_import import (
    PUT_ROWS,
    ImportedPartition,
    importing_into,
    partitions_there,
    write_partition,
)
from statestores.migration.target_root import importing_root
from statestores.reading.partition_places import log_at, place_of
from statestores.reading.unfinished_imports import bringing
from statestores.reading.visible_log import VisibleLog
from statestores.spi.kinds import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.state_root import StateRoot

_VERSIONS = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("valid_from", pa.int64(), nullable=False),
    ]
)


def import_as_versioned(
    source: str | PathLike[str],
    store: str,
    root: str | PathLike[str],
    *,
    history_retention_ms: int,
    name: str | None = None,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    skip_existing: bool = False,
    progress: ProgressCallback | None = None,
) -> list[ImportedPartition]:
    """Make a versioned store in *root* from the changelog of a key-value *store* (MIG-19).

    Partitions, serdes, partitioner and position stay. What a compaction has dropped from the
    changelog is not in the history. The source is only read, beside whoever writes to it.

    Args:
        source: The state root of the store.
        store: Its name. With timestamps or without.
        root: The state root of the versioned store; made if need be, and may be *source*.
        history_retention_ms: How far the history goes back from its latest time.
        name: The new store's name; by default *store*, if it is not there yet.
        backend: The backend of the new store.
        options: Its options.
        skip_existing: Leave partitions of the new store that are there already, as after a call
            that died.
        progress: Is told how far the import is.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: It has a kind with times of its own.
        StoreMismatchError: There is a store of the new name already, and it is a different one, or
            must not be skipped.
        OffsetOutOfRangeError: The beginning of a changelog was deleted, and with it the history.
        ChangelogCorruptedError, StorageError: Something cannot be read or written. Partitions that
            are complete stay.
    """
    origin = StateRoot.open(source)
    entry = origin.store(store)
    plain = entry.specification
    if plain.kind not in {KEY_VALUE, TIMESTAMPED_KEY_VALUE}:
        raise InvalidArgumentError(
            f"the store {store!r} is a {plain.kind.name} store, whose rows have times of their "
            "own; only key-value stores become versioned ones"
        )
    specification: Versioned[Any, Any] = Versioned(
        name or store,
        key=plain.key,
        value=plain.value,
        partitioner=plain.partitioner,
        history_retention_ms=history_retention_ms,
    )
    logs = [log_at(place_of(origin, store, number), plain) for number in range(entry.partitions)]
    for number, log in enumerate(logs):
        first = log.beginning().offset
        if first > 0:
            raise OffsetOutOfRangeError(
                f"the changelog of partition {number} of {store!r} begins with offset {first}: "
                "what it held before is deleted, and no history could be made of it; import an "
                "export of its content instead"
            )
    with importing_root(root) as target:
        places = [(specification.name, number) for number in range(entry.partitions)]
        existing = partitions_there(target, places, skip_existing=skip_existing)
        if specification.name in target.stores:  # only compares
            target.add_store(specification, partitions=entry.partitions)
        new = [place for place in places if place not in existing]
        meter = Meter(progress)
        done: list[ImportedPartition] = []
        with importing_into(target), bringing(target.path, new):
            for number, log in enumerate(logs):
                if (specification.name, number) in existing:
                    done.append(ImportedPartition.left(specification.name, number))
                    continue
                end = log.end()
                done.append(
                    write_partition(
                        target,
                        specification,
                        entry.partitions,
                        number,
                        _versions(log, plain, end.offset),
                        end.position,
                        backend=backend,
                        options=options,
                        meter=meter,
                    )
                )
    return done


def _versions(
    log: VisibleLog, plain: StoreSpecification[Any, Any], stop: int
) -> Iterator[pa.Table]:
    """Yield the changes up to *stop* as versions, in the order of the log."""
    latest = 0
    present: set[bytes] = set()
    rows: list[tuple[bytes, bytes | None, int]] = []
    for frame in log.frames(0, stop):
        latest = max(latest, _newest(frame, plain))
        if frame.kind is FrameKind.CLEAR:
            rows.extend((key, None, latest) for key in sorted(present))
            present.clear()
        for key, value, time in _changes(frame, plain, latest):
            rows.append((key, value, time))
            if value is None:
                present.discard(key)
            else:
                present.add(key)
        if len(rows) >= PUT_ROWS:
            yield _table(rows)
            rows = []
    if rows:
        yield _table(rows)


def _newest(frame: Frame, plain: StoreSpecification[Any, Any]) -> int:
    """Return the latest time of a frame: what deletions in it and after it are not before."""
    if plain.kind == KEY_VALUE:
        return frame.appended_at_ms
    times = frame.batch.column("timestamp").drop_null()
    return max(times.to_pylist(), default=0)


def _changes(
    frame: Frame, plain: StoreSpecification[Any, Any], latest: int
) -> Iterator[tuple[bytes, bytes | None, int]]:
    keys, values = frame.batch.column("key").to_pylist(), frame.batch.column("value").to_pylist()
    if plain.kind == KEY_VALUE:
        yield from ((key, value, latest) for key, value in zip(keys, values, strict=True))
        return
    times = frame.batch.column("timestamp").to_pylist()
    for key, value, time in zip(keys, values, times, strict=True):
        yield key, value, latest if time is None else time


def _table(rows: list[tuple[bytes, bytes | None, int]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, _VERSIONS, strict=True)],
        schema=_VERSIONS,
    )
