"""What a store or a snapshot has, held against what its changelog gives."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from statestores.arrow.snapshots.expired_rows import expired_up_to_ms, living
from statestores.arrow.snapshots.reader import Snapshot
from statestores.reading.partition_places import PartitionPlace
from statestores.reading.partition_reader import PartitionReader
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.timestamped.expiry import Expiry
from statestores.spi.specification import StoreSpecification, TimestampedKeyValue, TtlClock
from statestores.verification.content import first_difference, visible


def difference_from_log(
    place: PartitionPlace,
    specification: StoreSpecification[Any, Any],
    rows: Iterable[pa.RecordBatch],
    basis: Snapshot | None,
    offset: int,
    where: str,
    by: str,
    *,
    judged: tuple[Mapping[str, str | int], int | None],
) -> str | None:
    """Return the first difference of *rows* from the content at *offset* of the log at *place*.

    The content is that of *basis* and the changes after it, or of the changes alone. *where* and
    *by* name the two. The rows were *judged* by a specification, in stored form, and a stream time:
    what had expired was left out of them (TTL-10).

    Raises:
        OffsetOutOfRangeError: Changes in between are gone, or not yet there.
        ChangelogCorruptedError, StoreCorruptedError, StorageError: Something cannot be read.
    """
    by_each = [judged, (specification.describe(), judged[1])]
    if basis is not None:
        by_each.append((basis.manifest.specification, basis.manifest.stream_time_ms))
    # What has expired by another time to live, that of then, may be there or not (TTL-9, TTL-11).
    horizons = [expired_up_to_ms(description, time_ms) for description, time_ms in by_each]
    if isinstance(specification, TimestampedKeyValue) and specification.ttl_clock is TtlClock.WALL:
        # What has expired by the clock is left out of *rows* since they were asked for, and of the
        # others as they are read: the same moment, a later one, must count for both.
        horizons.append(Expiry(specification, None).horizon_ms(NO_STREAM_TIME))
        specification = without_time_to_live(specification)
    expected: Iterable[pa.RecordBatch]
    expected = PartitionReader(place, specification).replay_after(basis, offset).rows()
    horizon_ms = max((each for each in horizons if each is not None), default=None)
    rows, expected = living(rows, horizon_ms), living(expected, horizon_ms)
    return first_difference(visible(rows), visible(expected), where, by)


def judged_for(snapshot: Snapshot) -> tuple[Mapping[str, str | int], int | None]:
    """Return by what it was judged which rows *snapshot* has."""
    return snapshot.manifest.specification, snapshot.manifest.stream_time_ms


def without_time_to_live(
    specification: TimestampedKeyValue[Any, Any],
) -> TimestampedKeyValue[bytes, bytes]:
    """Return what *specification* says of stored rows, none of which expires."""
    return TimestampedKeyValue(specification.name, partitioner=specification.partitioner)
