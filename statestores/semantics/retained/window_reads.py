"""The reads of a window store, once for its owner and for facades."""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, ClassVar, cast

from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_key,
    check_key_range,
    check_keys,
    check_time,
    check_time_range,
    check_times,
)
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.retained.reads import (
    CommittedRetained,
    RetainedReads,
    Uncommitted,
    UncommittedRetained,
)
from statestores.semantics.retained.rows import RetainedRows, Row, unnumbered_key, unpack_time_from
from statestores.spi.engine import Engine
from statestores.spi.records import WindowRecord, new_tuple
from statestores.spi.stores.store import Values
from statestores.spi.stores.window import ReadOnlyWindowStore
from statestores.spi.values import as_list, one_for_each
from statestores.spi.window_specification import Window


class WindowReads(RetainedReads, ReadOnlyWindowStore[bytes, bytes]):
    """The reads of a window store, for the owner and for facades alike."""

    _window_size_ms: int
    _few_fetched: ClassVar[int] = 0
    """Up to so many windows of one call are fetched one by one. A facade finds those of one commit,
    and has a snapshot for all of them."""

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        if type(key) is not bytes:
            check_key(key)
        if type(start_ms) is not int or not 0 <= start_ms <= MAX_TIME_MS:
            check_time("start_ms", start_ms)
        if not self._rows.has_number:
            return self._visible_value(unnumbered_key(key, start_ms), start_ms)
        rows = self._visible_rows(key, key, start_ms, start_ms, reverse=True)
        return next((value for _, value in rows), None)

    def fetch_many(self, keys: Values[bytes], starts_ms: int | Values[int]) -> list[bytes | None]:
        key_list = as_list("keys", keys)
        check_keys(key_list)
        if isinstance(starts_ms, int):
            check_time("starts_ms", starts_ms)
        starts = one_for_each("starts_ms", starts_ms, len(key_list))
        check_times("starts_ms", starts)
        if self._rows.has_number or len(key_list) <= self._few_fetched:
            return self._fetch_each(key_list, starts)
        return self._visible_values(key_list, self._rows.data_keys(key_list, starts), starts)

    def _fetch_each(self, keys: list[bytes], starts_ms: list[int]) -> list[bytes | None]:
        """Return `fetch` of each: of few, or of retained duplicates, whose last one is found."""
        self._owner.check_open()
        return list(map(self.fetch, keys, starts_ms))

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        if type(key) is not bytes:
            check_key(key)
        if (
            type(first_ms) is not int
            or type(last_ms) is not int
            or not 0 <= first_ms <= last_ms <= MAX_TIME_MS
        ):
            check_time_range(first_ms, last_ms)
        return self.count_iterator(self._records_of(key, first_ms, last_ms, reverse=reverse))

    def _records_of(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        """Return what `fetch_range` yields; the arguments but *reverse* were checked."""
        rows = self._visible_rows_of(key, first_ms, last_ms, reverse=reverse)
        return self._records(rows, key)

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        check_time_range(first_ms, last_ms)
        check_key_range(first_key, last_key)
        rows = self._visible_rows(first_key, last_key, first_ms, last_ms, reverse=reverse)
        return self.count_iterator(self._records(rows))

    def _records(
        self, rows: Iterable[Row], key: bytes | None = None
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        """Yield *rows*, which are of *key* if it is given, as long as the store is open."""
        owner, of, size_ms = self._owner, self._rows, self._window_size_ms
        key_of, time_at, time_of = of.key_of, -of.time_from_end, unpack_time_from
        new, at_most = new_tuple, MAX_TIME_MS
        record = cast("type[WindowRecord[bytes, bytes]]", WindowRecord)
        for data_key, value in rows:
            if not owner._open:  # noqa: SLF001  # `is_open` is a call, for each row
                owner.check_open()
            (start_ms,) = time_of(data_key, time_at)
            end_ms = start_ms + size_ms
            if end_ms > at_most:  # noqa: PLR1730  # a call costs a tenth
                end_ms = at_most
            yield new(record, (key or key_of(data_key), start_ms, end_ms, value))
        owner.check_open()


class CommittedWindows(CommittedRetained, WindowReads):
    """A window store as its last commit left it."""

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        rows: RetainedRows,
        specification: Window[Any, Any],
    ) -> None:
        super().__init__(store, engine, rows, specification.retention_ms)
        self._window_size_ms = specification.window_size_ms

    def _fetch_each(self, keys: list[bytes], starts_ms: list[int]) -> list[bytes | None]:
        frozen, snapshot = self.at_one_commit()
        with snapshot:
            return list(map(frozen.fetch, keys, starts_ms))


class UncommittedWindows(UncommittedRetained, WindowReads):
    """A window store with the writer's pending windows."""

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        rows: RetainedRows,
        specification: Window[Any, Any],
        uncommitted: Uncommitted,
    ) -> None:
        super().__init__(store, engine, rows, specification.retention_ms, uncommitted)
        self._window_size_ms = specification.window_size_ms
