"""A window store, with retained duplicates or without, as the relations see it."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, StoreSpecification, Window
from statestores_conformance.relations.key_value import KEY_BOUNDS, keys, values
from statestores_conformance.relations.kinds import KEYS, Alike, Form, Read, Split, Write
from statestores_conformance.relations.retained import (
    HIGHEST_MS,
    RETENTION_MS,
    RetainedKind,
    columns_of,
    cut,
    surviving,
    times,
)

WINDOW_SIZE_MS = 5

_STARTS = [0, 9, 10, 41, 60]
_TIME_BOUNDS = [(None, None), (10, 40), (41, None), (None, 30), (25, 25)]


class WindowKind(RetainedKind):
    """The values of each key and window."""

    def probe(self) -> Window[bytes, bytes]:
        return Window("store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)

    def duplicating(self) -> Window[bytes, bytes]:
        """Return the specification of a store that keeps every value of a window."""
        return Window(
            "store",
            retention_ms=RETENTION_MS,
            window_size_ms=WINDOW_SIZE_MS,
            retain_duplicates=True,
        )

    def specifications(self) -> SearchStrategy[StoreSpecification[Any, Any]]:
        return self.short_and_long(self.probe(), self.duplicating())

    def writes(self) -> SearchStrategy[Write]:
        value = st.one_of(values, values, st.none())
        return st.builds(Write, st.just("put"), st.tuples(keys, value, times))

    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        return [Write("put_many", columns_of([write.arguments for write in writes], 3))]

    def reads(self) -> Iterator[Read]:
        yield Read("stream_time_ms", form=Form.ATTRIBUTE)
        yield from self.iterations()
        for key in (b"a", b"a\x00", b""):
            for start_ms in _STARTS:
                yield Read("fetch", (key, start_ms))

    def iterations(self) -> Iterator[Read]:
        yield from (_all(*bounds) for bounds in _TIME_BOUNDS)
        yield from (_all(15, 50, *bounds) for bounds in KEY_BOUNDS)
        yield from (_range(key, None, None) for key in KEYS)
        yield from (_range(b"a", *bounds) for bounds in _TIME_BOUNDS)

    def splits(self) -> Iterator[Split]:
        for first_ms, last_ms in _TIME_BOUNDS:
            whole = _all(first_ms, last_ms)
            yield cut(whole, *((first_ms, last_ms, key, key) for key in KEYS))
            for first, last in KEY_BOUNDS[:-1]:
                ends = (first, b"a\x00\xff"), (b"a\x00\xff\x00", last)
                whole = _all(first_ms, last_ms, first, last)
                yield cut(whole, *((first_ms, last_ms, *end) for end in ends))
            if (first_ms or 0) <= 30 < (HIGHEST_MS if last_ms is None else last_ms):
                halves = (first_ms, 30), (31, last_ms)
                yield cut(_all(first_ms, last_ms), *halves)
                yield from (
                    cut(_range(key, first_ms, last_ms), *((key, *half) for half in halves))
                    for key in KEYS
                )

    def columns(self) -> Iterator[Split]:
        asked = [(key, start_ms) for start_ms in _STARTS for key in (*KEYS, b"missing")]
        asked += asked[::-3]
        singles = tuple(Read("fetch", pair) for pair in asked)
        yield Split(Read("fetch_many", columns_of(asked, 2)), singles)
        for start_ms in _STARTS:
            at_once = tuple(Read("fetch", (key, start_ms)) for key in KEYS)
            yield Split(Read("fetch_many", (KEYS, start_ms)), at_once)

    def same_now(self, stream_time_ms: int | None) -> Iterator[Alike]:
        yield Alike(_all(0, HIGHEST_MS), _all(None, None))
        yield Alike(_all(None, None, b"", b"\xff" * 9), _all(None, None))
        yield Alike(_all(None, stream_time_ms), _all(None, None))
        for key in KEYS:
            yield Alike(_all(10, 40, key, key), _range(key, 10, 40))

    def points(self) -> Iterator[Alike]:
        for key in KEYS:
            for start_ms in _STARTS:
                point = Read("fetch", (key, start_ms))
                yield Alike(point, _range(key, start_ms, start_ms), "value_at")
                yield Alike(point, _range(key, None, None), "value_at", (start_ms,))

    def void(self, write: Write, specification: Any) -> Write | None:
        key, _, start_ms = write.arguments
        if specification.retain_duplicates:
            return None
        return Write("put", (key, b"void", start_ms))

    def recent(self, horizon_ms: int) -> Iterator[Alike]:
        for read in self.iterations():
            yield Alike(read, read, "since", (horizon_ms,))
        whole = _all(max(0, horizon_ms + 1), None)
        yield Alike(_all(None, None), whole)

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows = [row for part in log for row in _rows_of(part)]
        kept = surviving(rows, 2, specification.retention_ms)
        key_list, value_list, starts, sequences = columns_of(kept, 4)
        return Changes(
            key_list,
            value_list,
            starts,
            sequences=sequences if specification.retain_duplicates else None,
        )


def _all(*bounds: Any) -> Read:
    return Read("fetch_all", bounds, Form.ITERATOR)


def _range(key: bytes, first_ms: int | None, last_ms: int | None) -> Read:
    return Read("fetch_range", (key, first_ms, last_ms), Form.ITERATOR)


def _rows_of(changes: Changes) -> Iterator[tuple[Any, ...]]:
    numbers = changes.sequences or [0] * len(changes)
    return zip(changes.keys, changes.values, changes.times_ms or (), numbers, strict=True)
