"""The versioned store over an engine (KIP-889).

Puts are blind: a timestamp at or above stream time is certainly the newest of its key, so nothing
is read. Pending versions meet the stored ones in `vacuumed_commits`. Latest rows that
were committed or read recently are cached, so that many commits read nothing either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, compress, repeat
from operator import ge, itemgetter, sub

from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_changes,
    check_key,
    check_keys,
    check_lengths,
    check_reverse,
    check_time,
    check_time_range,
    check_values,
    highest_time,
    isolation_of,
    keys_and_times,
    refuse_put,
)
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.rows.content_chunks import frozen_content
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import read_progress
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES, KEEP_ONE_IN
from statestores.semantics.rows.write_buffer import total_bytes
from statestores.semantics.versioned.content import version_chunks
from statestores.semantics.versioned.facades import CommittedVersions, UncommittedVersions
from statestores.semantics.versioned.latest_cache import LatestCache
from statestores.semantics.versioned.reads import VersionedReads
from statestores.semantics.versioned.remembered_seeks import RememberedSeeks
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    Waiting,
    latest_of,
    unpack_header,
    versions_of,
    with_version,
)
from statestores.semantics.versioned.vacuum import Vacuum
from statestores.semantics.versioned.vacuumed_commits import VacuumedCommits
from statestores.semantics.versioned.view import (
    VersionedView,
    stored_start_after,
    stored_superseded,
)
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineSnapshot
from statestores.spi.records import Changes, PutResult, VersionedRecord, new_tuple
from statestores.spi.specification import Versioned
from statestores.spi.stores.store import CommittedContent, Isolation, Values
from statestores.spi.stores.versioned import ReadOnlyVersionedStore, VersionedStore
from statestores.spi.values import as_list

_NEWEST = PutResult(accepted=True, valid_to_ms=None)
_TOO_LATE = PutResult(accepted=False, valid_to_ms=None)


class EngineVersionedStore(VersionedReads, VacuumedCommits, VersionedStore[bytes, bytes]):
    """A versioned store of bytes over any engine."""

    def __init__(
        self,
        engine: Engine,
        specification: Versioned[bytes, bytes],
        durability: Durability,
        cache: LatestCache | None = None,
        memory_bytes: int = DEFAULT_READ_CACHE_BYTES // 2,
    ) -> None:
        """Take *engine* over, and keep recently used latest versions in *cache*.

        In *memory_bytes* it remembers when superseded versions expire.
        """
        super().__init__(engine, specification, durability)
        self._retention_ms = specification.history_retention_ms
        self._stream_time = self._progress.stream_time_ms
        self._vacuum = Vacuum(specification.history_retention_ms, memory_bytes)
        self._seeks = RememberedSeeks(engine)
        self._cache = cache or LatestCache(DEFAULT_READ_CACHE_BYTES)
        self._cached = self._cache.rows
        self._committing = {}
        self._left = 0
        self._pending = {}

    @property
    def _owner(self) -> "EngineVersionedStore":
        return self

    # Writes.

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        if (
            type(key) is not bytes
            or type(timestamp_ms) is not int
            or (type(value) is not bytes and value is not None)
            or not 0 <= timestamp_ms <= MAX_TIME_MS
        ):
            refuse_put(key, value, timestamp_ms)
        result = _NEWEST
        if timestamp_ms < self._stream_time:
            self.check_open()
            if timestamp_ms < self._stream_time - self._retention_ms:
                self._dropped += 1  # what is replayed comes by `put_many`
                return _TOO_LATE
            following = self._following(key, timestamp_ms)
            if following is not None:
                result = PutResult(accepted=True, valid_to_ms=following)
        pending = self._pending
        if key in pending:
            pending[key] = with_version(pending[key], timestamp_ms, value)
        else:
            pending[key] = (timestamp_ms, value)
        if timestamp_ms > self._stream_time:  # noqa: PLR1730  # a call costs a tenth of a put
            self._stream_time = timestamp_ms
        self._uncommitted_bytes += len(key) + (8 if value is None else 8 + len(value))
        self._puts += 1
        return result

    def _following(self, key: bytes, timestamp_ms: int) -> int | None:
        """Return when the version after a late one starts, and keep what was found for the commit.

        ``None``: it is the latest of its key after all.
        """
        if key in self._cached:
            latest = self._cached[key]
        else:
            latest = latest_of(self._engine.get(DATA + key))
            self._cache.keep(key, latest)  # the commit looks for it again
        following = None
        if latest is not None and (newest_ms := latest[0]) > timestamp_ms:
            following = stored_start_after(self._seeks, key, timestamp_ms, newest_ms)
        if key in self._pending:
            starts = [start for start in versions_of(self._pending[key]) if start > timestamp_ms]
            if following is not None:
                starts.append(following)
            return min(starts, default=None)
        return following

    def put_many(
        self, keys: Values[bytes], values: Values[bytes | None], timestamps_ms: Values[int]
    ) -> int:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        times = as_list("timestamps_ms", timestamps_ms)
        reached_ms = self._checked_columns(key_list, value_list, times)
        if len(times) <= FEW_ROWS and self._put_step:
            rows = zip(key_list, value_list, times, strict=True)
            return sum([self.put(*row).accepted for row in rows])
        if times and min(times) < max(self._stream_time, reached_ms) - self._retention_ms:
            # Some may be too late: stream time at each put is the highest time before it.
            reached = accumulate(times, max, initial=self._stream_time)
            horizons = map(sub, reached, repeat(self._retention_ms))
            accepted = list(map(ge, times, horizons))
            key_list, value_list, times = (
                list(compress(column, accepted)) for column in (key_list, value_list, times)
            )
            self._dropped += self._put_step * (len(accepted) - len(times))
        # Nobody asks until when late ones are valid. What was too late is below stream time.
        self._take(key_list, value_list, times, reached_ms)
        self._puts += self._put_step * len(times)
        return len(times)

    @staticmethod
    def _checked_columns(
        keys: list[bytes], values: list[bytes | None], timestamps_ms: list[int]
    ) -> int:
        """Accept columns that can be put; return the highest time, `NO_STREAM_TIME` of none.

        Raises:
            InvalidTypeError, InvalidArgumentError: One cannot, or their lengths differ.
        """
        check_lengths(keys=keys, values=values, timestamps_ms=timestamps_ms)
        check_keys(keys)
        check_values(values)
        return highest_time("timestamp_ms", timestamps_ms)

    def _take(
        self,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps_ms: list[int],
        reached_ms: int,
    ) -> None:
        """Have versions up to *reached_ms* pending; their columns are checked."""
        pending = self._pending
        if len(distinct := set(keys)) == len(keys) and pending.keys().isdisjoint(distinct):
            versions: Iterator[Waiting] = zip(timestamps_ms, values, strict=True)
            pending.update(zip(keys, versions, strict=True))
        else:
            for key, value, time_ms in zip(keys, values, timestamps_ms, strict=True):
                if key in pending:
                    pending[key] = with_version(pending[key], time_ms, value)
                else:
                    pending[key] = (time_ms, value)
        self._stream_time = max(self._stream_time, reached_ms)
        self._uncommitted_bytes += sum(map(len, keys)) + total_bytes(values) + 8 * len(keys)

    def delete(self, key: bytes, timestamp_ms: int) -> VersionedRecord[bytes] | None:
        check_key(key)
        check_time("timestamp_ms", timestamp_ms)
        self.check_open()
        if timestamp_ms < self._stream_time - self._retention_ms:
            return None
        valid = self._view().get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return valid

    # Reads.

    def get(  # noqa: C901, PLR0912  # flat: a call costs a tenth of what the store adds to a read
        self, key: bytes, as_of_ms: int | None = None
    ) -> VersionedRecord[bytes] | None:
        if type(key) is not bytes:
            check_key(key)
        if as_of_ms is not None and (type(as_of_ms) is not int or not 0 <= as_of_ms <= MAX_TIME_MS):
            check_time("as_of_ms", as_of_ms)
        if key not in self._pending:
            # The flat path: nothing pending for the key, and the latest is the answer.
            if key in self._cached:
                if (latest := self._cached[key]) is None:
                    return None
                start, value = latest
                if as_of_ms is None or start <= as_of_ms:
                    if value is None:
                        return None
                    return new_tuple(VersionedRecord, (value, start, None))
            else:
                self._engine_gets = count = self._engine_gets + 1
                row = self._engine_get(DATA + key)
                if not count % KEEP_ONE_IN:
                    self._cache.keep_row(key, row)
                if row is None:
                    return None
                header: int = unpack_header(row)[0]
                if as_of_ms is None or header & ~DELETED <= as_of_ms:
                    if header >= DELETED:
                        return None
                    return new_tuple(VersionedRecord, (row[HEADER_BYTES:], header, None))
            if as_of_ms < self._stream_time - self._retention_ms:
                self._below_horizon += 1
                return None
            return stored_superseded(self._engine, key, as_of_ms)
        view = self._view()
        found = view.get(key, as_of_ms)
        self._below_horizon += view.below_horizon
        return found

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        self.check_open()
        key_list, times = keys_and_times(keys, as_of_ms)
        if len(key_list) <= FEW_ROWS:
            return list(map(self.get, key_list, times))
        with self.view() as view:
            return view.get_many(key_list, times)

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[bytes]]:
        check_reverse(reverse)
        check_key(key)
        check_time_range(first_ms, last_ms)
        self.check_open()
        view = self._view()
        versions = view.history(key, first_ms, last_ms, reverse=reverse)
        self._below_horizon += view.below_horizon
        return self.while_open(versions)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedVersions(self, self._engine, self._retention_ms)
        return UncommittedVersions(
            self, self._engine, self._retention_ms, self.uncommitted_versions
        )

    def uncommitted_versions(self) -> tuple[dict[bytes, Waiting], int]:
        """Return the pending versions, live, and their stream time: for facades."""
        return self._pending, self._stream_time

    @contextmanager
    def view(self) -> Iterator[VersionedView]:
        """Give a view for reads of many keys, pending versions included.

        Requires: nothing is written meanwhile, which the one thread that writes ensures.

        Raises:
            StoreClosedError: The store is closed.
        """
        self.check_open()
        view = self._view()
        yield view
        self._below_horizon += view.below_horizon

    def _view(self) -> VersionedView:
        return VersionedView(
            self._engine, self._pending, self._stream_time, self._retention_ms, self._cached
        )

    def _frozen(self) -> tuple[EngineSnapshot, VersionedView]:
        """Return what an iteration over keys reads: nothing that comes later."""
        pending = {
            key: waiting.copy() if isinstance(waiting, dict) else waiting
            for key, waiting in self._pending.items()
        }
        snapshot = self._engine.snapshot()
        return snapshot, VersionedView(snapshot, pending, self._stream_time, self._retention_ms)

    # Changes.

    def pending_changes(self) -> Changes:
        self.check_open()
        versions = [
            (timestamp_ms, key, value)
            for key, waiting in self._pending.items()
            for timestamp_ms, value in (
                waiting.items() if isinstance(waiting, dict) else (waiting,)
            )
        ]
        # In time order none of them is late when it is replayed, whatever comes in between.
        versions.sort(key=itemgetter(0))
        return Changes(
            [key for _, key, _ in versions],
            [value for _, _, value in versions],
            [timestamp_ms for timestamp_ms, _, _ in versions],
        )

    def replay(self, changes: Changes) -> None:
        self.check_open()
        check_changes(changes, self.specification)
        with self.replaying():
            self.put_many(changes.keys, changes.values, self._times_of(changes))

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.check_open()
        check_changes(changes, self.specification)
        keys, values = as_list("keys", changes.keys), as_list("values", changes.values)
        times = as_list("times_ms", self._times_of(changes))
        reached_ms = self._checked_columns(keys, values, times)
        if stream_time_ms is not None:
            check_time("stream_time_ms", stream_time_ms)
            self._stream_time = max(self._stream_time, stream_time_ms)
        self._take(keys, values, times, reached_ms)

    def _times_of(self, changes: Changes) -> Values[int]:
        if changes.times_ms is None:
            raise InvalidArgumentError(
                f"the changes carry no times, and {self.name!r} is a versioned store"
            )
        return changes.times_ms

    def committed_content(self) -> CommittedContent:
        self.check_open()
        snapshot = self._engine.snapshot()
        stream_time = read_progress(snapshot).stream_time_ms
        chunks = version_chunks(snapshot, stream_time - self._retention_ms)
        return frozen_content(snapshot, chunks, stream_time)
