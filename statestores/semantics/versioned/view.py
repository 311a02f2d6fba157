"""Reads of a versioned store at one instant: stored rows, with pending versions over them.

The store reads through a view of its engine and its own pending versions, a committed facade
through a view of a snapshot. A pending version replaces a stored one with the same start.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.write_buffer import merge
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    SUFFIX_BYTES,
    Latest,
    Version,
    Waiting,
    data_key,
    history_bounds,
    history_from,
    history_key,
    latest_of,
    latest_row,
    read_history,
    read_latest,
    start_of,
    unpack_header,
    versions_of,
)
from statestores.spi.engine import EngineReader
from statestores.spi.records import VersionedRecord, new_tuple

Pending = Mapping[bytes, Waiting]
"""Uncommitted versions, by key."""

from_bytes = int.from_bytes

IN_ORDER_FROM = 256
"""So many keys of one read are sought in their order, whatever theirs is: a seek then passes what
the one before has brought into the processor's cache. Fewer lie too far apart for that."""

_NOTHING: dict[int, bytes | None] = {}

_NONE_CACHED: dict[bytes, Latest | None] = {}


class VersionedView:
    """A versioned store at one stream time."""

    __slots__ = ("_cached", "_pending", "_reader", "below_horizon", "horizon_ms")

    def __init__(
        self,
        reader: EngineReader,
        pending: Pending,
        stream_time_ms: int,
        retention_ms: int,
        cached: Mapping[bytes, Latest | None] = _NONE_CACHED,
    ) -> None:
        """Look through *reader*, some of whose latest versions are *cached* by their keys."""
        self._cached = cached
        self._reader = reader
        self._pending = pending
        self.horizon_ms = stream_time_ms - retention_ms
        """Before it, only a version that is the latest of its key is found."""
        self.below_horizon = 0
        """How often something before it was asked for, and for that reason not found."""

    @property
    def reader(self) -> EngineReader:
        """The rows of the same instant, for whoever reads them as columns."""
        return self._reader

    @property
    def pending(self) -> Pending:
        """The versions that these rows lack."""
        return self._pending

    # One key.

    def _stored_latest(self, key: bytes) -> Latest | None:
        """Return the latest version of *key* that is stored."""
        if key in self._cached:
            return self._cached[key]
        return latest_of(self._reader.get(data_key(key)))

    def _versions(self, key: bytes) -> dict[int, bytes | None]:
        """Return the pending versions of *key*, if there are any."""
        waiting = self._pending.get(key)
        return _NOTHING if waiting is None else versions_of(waiting)

    def latest(self, key: bytes) -> Version | None:
        """Return the latest version of *key*, which may be a deletion."""
        stored = self._stored_latest(key)
        versions = self._versions(key)
        if versions:
            start = max(versions)
            if stored is None or start >= stored[0]:
                return Version(start, versions[start], None)
        return None if stored is None else Version(*stored, None)

    def get(self, key: bytes, as_of_ms: int | None) -> VersionedRecord[bytes] | None:
        """Return the version of *key* valid at *as_of_ms*; without a time, the latest."""
        latest = self.latest(key)
        if latest is None:
            return None
        if as_of_ms is None or latest.valid_from_ms <= as_of_ms:
            return _record(latest)
        return self.get_superseded(key, as_of_ms)

    def get_many(
        self, keys: Sequence[bytes], times_ms: Sequence[int | None]
    ) -> list[VersionedRecord[bytes] | None]:
        """Return `get` of each key at its time; all latest rows come from one read."""
        found = self._stored_latest_of(keys)
        pending, reader, horizon_ms = self._pending, self._reader, self.horizon_ms
        records: list[VersionedRecord[bytes] | None] = []
        record: VersionedRecord[bytes] | None
        sought: list[tuple[bytes, int, int]] = []
        in_order = len(keys) >= IN_ORDER_FROM
        for key, as_of_ms, latest in zip(keys, times_ms, found, strict=True):
            if key in pending:
                record = self.get(key, as_of_ms)
            elif latest is None:
                record = None
            else:
                # `_record` and `get_superseded`, written out: each makes a tuple.
                start, value = latest
                if as_of_ms is None or start <= as_of_ms:
                    if value is None:
                        record = None
                    else:
                        record = new_tuple(VersionedRecord, (value, start, None))
                elif as_of_ms < horizon_ms:
                    self.below_horizon += 1
                    record = None
                elif in_order:
                    sought.append((key, as_of_ms, len(records)))
                    record = None
                else:
                    record = stored_superseded(reader, key, as_of_ms)
            records.append(record)
        sought.sort()
        for key, as_of_ms, place in sought:
            records[place] = stored_superseded(reader, key, as_of_ms)
        return records

    def latest_rows(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored row of the latest version of each of *keys*, ``None`` for none."""
        if not self._cached:
            return self._reader.get_many([DATA + key for key in keys])
        found = self._stored_latest_of(keys)
        return [None if latest is None else latest_row(*latest) for latest in found]

    def _stored_latest_of(self, keys: Sequence[bytes]) -> list[Latest | None]:
        """Return the latest version of each of *keys* that is stored."""
        cached = self._cached
        if not cached:
            return list(map(latest_of, self._reader.get_many([DATA + key for key in keys])))
        found = list(map(cached.get, keys))
        if None in found:  # of those that are known not to be there it is asked again
            places = [place for place, latest in enumerate(found) if latest is None]
            stored = self._reader.get_many([DATA + keys[place] for place in places])
            for place, row in zip(places, stored, strict=True):
                found[place] = latest_of(row)
        return found

    def get_superseded(self, key: bytes, as_of_ms: int) -> VersionedRecord[bytes] | None:
        """Return the version valid at *as_of_ms*. Requires: the latest one starts later."""
        if as_of_ms < self.horizon_ms:
            self.below_horizon += 1
            return None
        if key not in self._pending:
            return stored_superseded(self._reader, key, as_of_ms)
        return _record(self._superseded(key, as_of_ms))

    def _superseded(self, key: bytes, as_of_ms: int) -> Version | None:
        """Return the same for a key with pending versions."""
        stored = self._stored_at(key, as_of_ms)
        versions = self._versions(key)
        starts = sorted(versions)
        index = bisect_right(starts, as_of_ms)
        following = starts[index] if index < len(starts) else None
        start = starts[index - 1] if index else None
        if stored is not None and (start is None or stored.valid_from_ms > start):
            ended = _earlier(stored.valid_to_ms, following)
            valid = Version(stored.valid_from_ms, stored.value, ended)
            return valid if _ends_after(valid, as_of_ms) else None
        if start is None:
            return None
        return Version(start, versions[start], _earlier(self._stored_after(key, start), following))

    def _stored_at(self, key: bytes, as_of_ms: int) -> Version | None:
        """Return the stored version of *key* with the highest start up to *as_of_ms*."""
        latest = self._stored_latest(key)
        if latest is not None and latest[0] <= as_of_ms:
            return Version(*latest, None)
        found = self._reader.first(*history_from(key, as_of_ms))
        return None if found is None else read_history(*found)

    def _stored_after(self, key: bytes, start_ms: int) -> int | None:
        """Return the lowest start of a stored version of *key* above *start_ms*."""
        latest = self._stored_latest(key)
        if latest is None or latest[0] <= start_ms:
            return None
        return stored_start_after(self._reader, key, start_ms, latest[0])

    def start_after(self, key: bytes, start_ms: int) -> int | None:
        """Return the lowest start of a version of *key* above *start_ms*, stored or pending."""
        pending = [start for start in self._versions(key) if start > start_ms]
        return _earlier(self._stored_after(key, start_ms), min(pending, default=None))

    # The history of one key.

    def history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[VersionedRecord[bytes]]:
        """Return the versions of *key* valid within the range, both ends inclusive."""
        low = max(first_ms or 0, self.horizon_ms)
        if last_ms is not None and last_ms < self.horizon_ms:
            self.below_horizon += 1
            latest = self.latest(key)
            known = latest is not None and latest.valid_from_ms <= last_ms
            versions = iter([latest] if latest and known else [])
        elif key in self._pending:
            merged = list(self._merged_history(key, low, last_ms))
            versions = iter(merged if reverse else merged[::-1])
        elif reverse:
            versions = self._newest_first(key, low, last_ms)
        else:
            versions = self._oldest_first(key, low, last_ms)
        return (
            new_tuple(VersionedRecord, (version.value, version.valid_from_ms, version.valid_to_ms))
            for version in versions
            if version.value is not None
        )

    def _newest_first(self, key: bytes, low_ms: int, last_ms: int | None) -> Iterator[Version]:
        """Return the stored versions that end after *low_ms* and start up to *last_ms*."""
        start, stop = history_bounds(key)
        if last_ms is not None:
            start = history_key(key, last_ms)
        rows = self._reader.scan(start, stop)
        return _until(low_ms, self._with_latest(self._stored_latest(key), rows, last_ms))

    @staticmethod
    def _with_latest(
        latest: Latest | None, rows: Iterator[tuple[bytes, bytes]], last_ms: int | None
    ) -> Iterator[Version]:
        if latest is not None and (last_ms is None or latest[0] <= last_ms):
            yield Version(*latest, None)
        for row_key, value in rows:
            version = read_history(row_key, value)
            if version.valid_to_ms != version.valid_from_ms:  # not a marker
                yield version

    def _oldest_first(self, key: bytes, low_ms: int, last_ms: int | None) -> Iterator[Version]:
        """Return the same as `_newest_first`, backwards."""
        start, stop = history_bounds(key)
        if last_ms is not None:
            start = history_key(key, last_ms)
        oldest = self._reader.first(history_key(key, low_ms), stop)
        stop = history_key(key, low_ms) if oldest is None else oldest[0] + b"\x00"
        rows = self._reader.scan(start, stop, reverse=True)
        return self._then_latest(rows, self._stored_latest(key), low_ms, last_ms)

    @staticmethod
    def _then_latest(
        rows: Iterator[tuple[bytes, bytes]],
        latest: Latest | None,
        low_ms: int,
        last_ms: int | None,
    ) -> Iterator[Version]:
        for row_key, value in rows:
            version = read_history(row_key, value)
            if version.valid_to_ms != version.valid_from_ms and _ends_after(version, low_ms):
                yield version
        if latest is not None and (last_ms is None or latest[0] <= last_ms):
            yield Version(*latest, None)

    def _merged_history(self, key: bytes, low_ms: int, last_ms: int | None) -> Iterator[Version]:
        """Return stored and pending versions, newest first, with the validity of both."""
        pending = self._versions(key)
        starts = [start for start in pending if last_ms is None or start <= last_ms]
        stored = {
            version.valid_from_ms: version.value
            for version in self._newest_first(key, low_ms, last_ms)
        }
        following = None if last_ms is None else self.start_after(key, last_ms)
        for start in sorted({*starts, *stored}, reverse=True):
            value = pending[start] if start in pending else stored[start]
            version = Version(start, value, following)
            following = start
            if _ends_after(version, low_ms):
                yield version

    # Many keys.

    def scan(
        self, start: bytes, stop: bytes, as_of_ms: int | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        """Return the keys of the latest rows from *start* to *stop* with `get` of each.

        The reader must be frozen: this reads it more than once for each key.
        """
        return self._as_of(self._rows(start, stop, reverse=reverse), as_of_ms)

    def range_history(
        self,
        start: bytes,
        stop: bytes,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        """Yield `history` of each key whose latest row is from *start* to *stop*, with the key.

        The reader must be frozen, as for `scan`.
        """
        for row_key, _ in self._rows(start, stop, reverse=reverse):
            key = row_key[len(DATA) :]
            for version in self.history(key, first_ms, last_ms, reverse=reverse):
                yield key, version

    def _rows(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Return the latest row of each key, an empty one for a key with pending versions."""
        chosen = [row for key in self._pending if start <= (row := data_key(key)) < stop]
        chosen.sort(reverse=reverse)
        return merge(
            self._reader.scan(start, stop, reverse=reverse),
            [(row, b"") for row in chosen],
            reverse=reverse,
        )

    def _as_of(
        self, rows: Iterator[tuple[bytes, bytes]], as_of_ms: int | None
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        for row_key, row in rows:
            key = row_key[len(DATA) :]
            if not row:  # a key with pending versions; a stored row has a header at least
                record = self.get(key, as_of_ms)
            else:
                latest = read_latest(row)
                if as_of_ms is None or latest.valid_from_ms <= as_of_ms:
                    record = _record(latest)
                else:
                    record = self.get_superseded(key, as_of_ms)
            if record is not None:
                yield key, record


def stored_superseded(
    reader: EngineReader, key: bytes, as_of_ms: int
) -> VersionedRecord[bytes] | None:
    """Return the superseded version of *key* valid at *as_of_ms*, all in one seek."""
    # `history_from`, `escape` and `start_of`, written out: this is the path of most as-of reads.
    prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
    found = reader.first(
        prefix + (MAX_TIME_MS - as_of_ms).to_bytes(SUFFIX_BYTES), prefix + b"\x00\x01"
    )
    if found is None:
        return None
    row_key, row = found
    valid_to: int = unpack_header(row)[0]
    if not as_of_ms < valid_to < DELETED:  # it has ended, or is a deletion
        return None
    valid_from = MAX_TIME_MS - from_bytes(row_key[-8:], "big")
    return new_tuple(VersionedRecord, (row[HEADER_BYTES:], valid_from, valid_to))


def stored_start_after(reader: EngineReader, key: bytes, start_ms: int, newest_ms: int) -> int:
    """Return the lowest start above *start_ms* of a superseded version of *key*.

    *newest_ms* if there is none: when the latest starts, or whatever else follows.
    """
    # A version that is valid then ends where the next one starts. Only before the oldest one, and
    # after versions that are gone, must the next one be sought separately: with an iterator in the
    # other direction, which most commits then never make.
    row_key, stop = history_from(key, start_ms)
    valid = reader.first(row_key, stop)
    if valid is not None:
        end: int = unpack_header(valid[1])[0] & ~DELETED
        if end > start_ms:
            return end
    return stored_start_before_row(reader, key, row_key, newest_ms)


def stored_start_before_row(
    reader: EngineReader, key: bytes, row_key: bytes, newest_ms: int
) -> int:
    """Return what `stored_start_after` does where no version of *key* is valid then.

    *row_key* is that of a version which starts at that time: newer ones lie before it.
    """
    found = reader.last(history_bounds(key)[0], row_key)
    return newest_ms if found is None else start_of(found[0])


def _record(version: Version | None) -> VersionedRecord[bytes] | None:
    """Return what a read gives for *version*: nothing for a deletion."""
    if version is None or version.value is None:
        return None
    return new_tuple(VersionedRecord, (version.value, version.valid_from_ms, version.valid_to_ms))


def _until(low_ms: int, versions: Iterator[Version]) -> Iterator[Version]:
    """Yield *versions*, newest first, as long as they end after *low_ms*."""
    for version in versions:
        if not _ends_after(version, low_ms):
            return
        yield version


def _ends_after(version: Version, time_ms: int) -> bool:
    return version.valid_to_ms is None or version.valid_to_ms > time_ms


def _earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two ends, ``None`` being the end of time."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
