"""Versions in the order of their keys and times, each with its end; and beside those of a store.

A version ends where the next one of its key starts. So a store that has versions is asked for those
between which others are put, and for no more of its history.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.ascending_seeks import AscendingSeeks
from statestores.arrow.keys.key_order import Flags, Numbers
from statestores.arrow.rows.encoder import LARGE
from statestores.arrow.rows.tail import KEY_FIELD, VALUE_FIELD, concat, key_ranks
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.semantics.rows.layout import END
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.versioned.rows import DELETED, HEADER_BYTES, history_from, read_history
from statestores.semantics.versioned.view import VersionedView, stored_start_after
from statestores.spi.engine import EngineReader

VERSION_STARTS = pa.schema([KEY_FIELD, VALUE_FIELD, VERSIONED_ROWS.field("valid_from")])
"""Versions without their ends."""

VERSIONS = VERSION_STARTS.append(VERSIONED_ROWS.field("valid_to"))
"""Versions with them; the end of the latest one of a key is null."""

GONE = -1
"""In the place of an end: the history has that row, and must no longer have it."""

# Where a version among others comes from. Of those with the same start the last of these counts.
_NEXT_START = 0
"""Nowhere: a version of the store starts there, and it stays as it is."""
_HISTORY = 1
"""The history of the store, of which it ends earlier now."""
_LATEST = 2
"""The latest rows of the store; it is superseded now."""
_CHANGES = 3
"""The changes."""


def versions_of(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Return *changes*, in log order, in key and time order, each with its end.

    Of changes with equal key and start the last one counts.
    """
    order, ends = chained(changes)
    rows = changes.take(pa.array(order))
    return pa.RecordBatch.from_arrays([*rows.columns, ends], schema=VERSIONS)


def chained(changes: pa.RecordBatch) -> tuple[Numbers, pa.Array]:
    """Return the places of those of *changes* that count, in key and time order, and their ends."""
    ranks = key_ranks(changes.column("key"))
    starts = changes.column("valid_from").to_numpy()
    order = np.lexsort((starts, ranks))
    ranks, starts = ranks[order], starts[order]
    same_key = ranks[1:] == ranks[:-1]
    counts = np.append(~same_key | (starts[1:] != starts[:-1]), values=True)
    order, ranks, starts = order[counts], ranks[counts], starts[counts]
    latest = np.append(ranks[1:] != ranks[:-1], values=True)
    return order, pa.array(np.append(starts[1:], 0), pa.int64(), mask=latest)


def beside_stored(view: VersionedView, changes: pa.RecordBatch, horizon_ms: int) -> pa.RecordBatch:
    """Return *changes* with their ends, and those of the versions in *view* whose ends they change.

    *changes* are in key and time order, and there is one at least. The store is read once for all
    latest rows, and with a seek for each change that comes before the latest one of its key.
    """
    keys, starts = changes.column("key"), changes.column("valid_from").to_numpy()
    next_differs = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    lasts = np.flatnonzero(np.append(next_differs.to_numpy(zero_copy_only=False), values=True))
    stored = StoredLatest.of(view, keys.take(pa.array(lasts)))
    number_of = np.repeat(np.arange(len(lasts)), np.diff(lasts, prepend=-1))
    before, after = stored.neighbours(view.reader, starts, number_of)
    latest = stored.versions.filter(pa.array(stored.are_there & (starts[lasts] >= stored.starts)))
    parts = {_NEXT_START: after, _HISTORY: before, _LATEST: latest, _CHANGES: changes}
    everything = concat(list(parts.values()), VERSION_STARTS)
    order, ends = chained(everything)
    rows = everything.take(pa.array(order))
    origins = np.repeat(list(parts), [part.num_rows for part in parts.values()])[order]
    # A latest version need not come into the history when it has expired there. The marker of a
    # deletion is there already, and is written over.
    expired = pc.fill_null(pc.less_equal(ends, horizon_ms), False)  # noqa: FBT003  # the value
    dropped = pc.and_(expired, pc.is_valid(rows.column("value"))).to_numpy(zero_copy_only=False)
    written = (origins != _NEXT_START) & ~((origins == _LATEST) & dropped)
    ended = pa.RecordBatch.from_arrays([*rows.columns, ends], schema=VERSIONS)
    put = pc.is_valid(changes.column("value").take(pa.array(lasts)))
    put_there = (starts[lasts] == stored.starts) & put.to_numpy(zero_copy_only=False)
    markers = stored.versions.filter(pa.array(stored.are_deleted & put_there))
    gone = pa.array(np.full(markers.num_rows, GONE), pa.int64())
    unmarked = pa.RecordBatch.from_arrays([*markers.columns, gone], schema=VERSIONS)
    return concat([ended.filter(pa.array(written)), unmarked], VERSIONS)


class StoredLatest(NamedTuple):
    """The latest version that a store has of each of some keys."""

    versions: pa.RecordBatch
    """The versions, one for each key."""

    starts: Numbers
    """When each of them starts; before every time where there is none."""

    are_there: Flags
    """Whether there is one."""

    are_deleted: Flags
    """Whether there is one, and it is a deletion."""

    @classmethod
    def of(cls, view: VersionedView, keys: pa.Array) -> Self:
        """Return those of *keys* in *view*."""
        rows = pa.array(view.latest_rows(keys.to_pylist()), LARGE)
        are_there = rows.is_valid().to_numpy(zero_copy_only=False)
        headers, values = split_headers(rows.drop_null())
        starts = np.full(len(rows), NO_STREAM_TIME, np.int64)
        starts[are_there] = (headers & np.uint64(DELETED - 1)).astype(np.int64)
        are_deleted = np.zeros(len(rows), np.bool_)
        are_deleted[are_there] = headers >= np.uint64(DELETED)
        places = pa.array(np.cumsum(are_there) - 1, mask=~are_there | are_deleted)
        columns = [keys, values.take(places), pa.array(starts)]
        versions = pa.RecordBatch.from_arrays(columns, schema=VERSION_STARTS)
        return cls(versions, starts, are_there, are_deleted)

    def neighbours(
        self, reader: EngineReader, starts: Numbers, number_of: Numbers
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return what lies beside those of *starts* that come before the latest version.

        *number_of* says for each of them which key it is of. First come the versions that are
        valid there, and then the starts of those that follow, without their values.
        """
        late = np.flatnonzero(starts < self.starts[number_of])
        late = late[np.lexsort((-starts[late], number_of[late]))]  # as the history lies
        numbers = number_of[late]
        keys = self.versions.column("key").take(pa.array(numbers)).to_pylist()
        before: tuple[list[bytes], list[bytes | None], list[int]] = ([], [], [])
        following: list[int] = []
        seek = AscendingSeeks(reader, END).first
        asked = zip(keys, starts[late].tolist(), self.starts[numbers].tolist(), strict=True)
        for key, start, newest in asked:
            found = seek(*history_from(key, start))
            version = None if found is None else read_history(*found)
            end = None if version is None else version.valid_to_ms
            if version is not None and end is not None and end > start:
                before[0].append(key)
                before[1].append(version.value)
                before[2].append(version.valid_from_ms)
                following.append(end)
            else:
                following.append(stored_start_after(reader, key, start, newest))
        return _batch(*before), _batch(keys, [None] * len(keys), following)


def _batch(keys: list[bytes], values: Sequence[bytes | None], starts: list[int]) -> pa.RecordBatch:
    """Return lists as columns of versions without their ends."""
    columns = [pa.array(keys, LARGE), pa.array(values, LARGE), pa.array(starts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=VERSION_STARTS)


def split_headers(rows: pa.Array) -> tuple[npt.NDArray[np.uint64], pa.Array]:
    """Return the headers of *rows* of large binary, without nulls, and what follows them."""
    if not len(rows):
        return np.empty(0, np.uint64), rows
    offsets = np.frombuffer(rows.buffers()[1], np.int64, len(rows) + 1)
    data = np.frombuffer(rows.buffers()[2], np.uint8)
    headers = np.zeros(len(rows), np.uint64)
    for place in range(HEADER_BYTES):
        headers = headers << np.uint64(8) | data[offsets[:-1] + place]
    # Without a stop, pyarrow 26 fails.
    longest = int(np.diff(offsets).max())
    return headers, pc.binary_slice(rows, HEADER_BYTES, longest)
