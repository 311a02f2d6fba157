"""Whether two snapshots hold the same, however they are cut into files (SNP-3).

What has expired since one of them was written counts for neither: a snapshot leaves it out (TTL-10)
when the wall clock says so, or by a time to live that has been changed since.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from statestores.arrow.row_batches import even_batches
from statestores.arrow.snapshots.expired_rows import expired_up_to_ms, living
from statestores.arrow.snapshots.reader import Snapshot
from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.self_description import differences
from statestores.serdes.descriptions import specification_from_description

_COMPARED_ROWS = 1024
_NO_LIMIT = 1 << 62


def hold_the_same(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two valid snapshots hold the same content, but for what has expired."""
    if _facts(one) != _facts(other) or not _of_one_store(one, other):
        return False
    horizon_ms = _horizon_ms(one, other)
    pairs = zip_longest(_evenly(one, horizon_ms), _evenly(other, horizon_ms))
    return all(
        mine is not None and theirs is not None and mine.equals(theirs) for mine, theirs in pairs
    )


def _of_one_store(one: Snapshot, other: Snapshot) -> bool:
    """Return whether *other* is of the store of *one*, with a later schema or time to live."""
    before, after = one.manifest.specification, other.manifest.specification
    if dict(before) == dict(after):
        return True
    try:
        specification = specification_from_description(after)
        return not differences(before, specification, specification.changeable)
    except InvalidArgumentError:  # a serde that is not registered here
        return False


def _horizon_ms(one: Snapshot, other: Snapshot) -> int | None:
    """Return up to which timestamp rows have expired for one of them by now."""
    written_ms = max(each.manifest.created_at_ms for each in (one, other))
    found = (
        expired_up_to_ms(
            each.manifest.specification, each.manifest.stream_time_ms, least_now_ms=written_ms
        )
        for each in (one, other)
    )
    return max((each for each in found if each is not None), default=None)


def _evenly(snapshot: Snapshot, horizon_ms: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches whose borders depend on the number of rows alone."""
    rows = living(snapshot.batches(), horizon_ms)
    return even_batches(rows, batch_rows=_COMPARED_ROWS, batch_bytes=_NO_LIMIT)


def _facts(snapshot: Snapshot) -> tuple[Any, ...]:
    """Return what two snapshots of the same content have in common, apart from their rows."""
    manifest = snapshot.manifest
    return (
        manifest.partition,
        dict(manifest.offsets),
        manifest.position,
        manifest.stream_time_ms,
    )
