"""A session store, as the relations see it."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, Session, StoreSpecification
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

_SESSIONS = [(0, 0), (10, 15), (30, 30), (20, 60), (41, 46)]
_END_BOUNDS = [(None, None), (10, 40), (41, None), (None, 30), (25, 25)]
_OVERLAPS = [(None, None), (10, 40), (40, 10), (41, None), (None, 30), (25, 25)]
"""Earliest end and latest start: the third finds the sessions that contain the time between."""


@st.composite
def sessions(draw: st.DrawFn) -> tuple[int, int]:
    """Draw a start and an end, few enough to meet; one session in five is long."""
    start_ms = draw(times)
    return start_ms, start_ms + draw(st.sampled_from([0, 0, 5, 5, 40]))


class SessionKind(RetainedKind):
    """The value of each key, start and end."""

    def probe(self) -> Session[bytes, bytes]:
        return Session("store", retention_ms=RETENTION_MS)

    def specifications(self) -> SearchStrategy[StoreSpecification[Any, Any]]:
        return self.short_and_long(self.probe())

    def writes(self) -> SearchStrategy[Write]:
        return st.builds(_write, keys, sessions(), st.one_of(values, values, st.none()))

    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        rows = [(*write.arguments, None)[:4] for write in writes]
        return [Write("put_many", columns_of(rows, 4))]

    def reads(self) -> Iterator[Read]:
        yield Read("stream_time_ms", form=Form.ATTRIBUTE)
        yield from self.iterations()
        for key in (b"a", b"a\x00", b""):
            for session in _SESSIONS:
                yield Read("fetch_session", (key, *session))

    def iterations(self) -> Iterator[Read]:
        yield from (_overlapping(*bounds) for bounds in _OVERLAPS)
        yield from (_overlapping(15, 50, *bounds) for bounds in KEY_BOUNDS)
        yield from (_ending(*bounds) for bounds in _END_BOUNDS)
        yield from (_ending(15, 50, *bounds) for bounds in KEY_BOUNDS)
        yield from (_of(key, None, None) for key in KEYS)
        yield from (_of(b"a", *bounds) for bounds in _OVERLAPS)

    def splits(self) -> Iterator[Split]:
        for earliest_ms, latest_ms in _OVERLAPS:
            whole = _overlapping(earliest_ms, latest_ms)
            yield cut(whole, *((earliest_ms, latest_ms, key, key) for key in KEYS))
        for first_ms, last_ms in _END_BOUNDS:
            for first, last in KEY_BOUNDS[:-1]:
                ends = (first, b"a\x00\xff"), (b"a\x00\xff\x00", last)
                whole = _ending(first_ms, last_ms, first, last)
                yield cut(whole, *((first_ms, last_ms, *end) for end in ends))
                if (first_ms or 0) <= 30 < (HIGHEST_MS if last_ms is None else last_ms):
                    halves = (first_ms, 30, first, last), (31, last_ms, first, last)
                    yield cut(whole, *halves)

    def columns(self) -> Iterator[Split]:
        asked = [(key, *session) for session in _SESSIONS for key in (*KEYS, b"missing")]
        asked += asked[::-3]
        singles = tuple(Read("fetch_session", each) for each in asked)
        yield Split(Read("fetch_many", columns_of(asked, 3)), singles)

    def same_now(self, stream_time_ms: int | None) -> Iterator[Alike]:
        yield Alike(_ending(0, HIGHEST_MS), _ending(None, None))
        yield Alike(_overlapping(0, HIGHEST_MS), _ending(None, None))
        yield Alike(_ending(None, stream_time_ms), _ending(None, None))
        for key in KEYS:
            yield Alike(_of(key, 25, None), _ending(25, None, key, key))
        for bounds in _OVERLAPS:
            yield Alike(_overlapping(*bounds), _ending(None, None), "overlapping", bounds)
            yield Alike(_of(b"a", *bounds), _of(b"a", None, None), "overlapping", bounds)

    def points(self) -> Iterator[Alike]:
        for key in KEYS:
            for start_ms, end_ms in _SESSIONS:
                point = Read("fetch_session", (key, start_ms, end_ms))
                yield Alike(point, _ending(end_ms, end_ms, key, key), "value_at", (start_ms,))

    def void(self, write: Write, specification: Any) -> Write | None:
        return Write("put", (*write.arguments[:3], b"void"))

    def recent(self, horizon_ms: int) -> Iterator[Alike]:
        for read in self.iterations():
            yield Alike(read, read, "since", (horizon_ms,))
        whole = _ending(max(0, horizon_ms + 1), None)
        yield Alike(_ending(None, None), whole)

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows = [row for part in log for row in _rows_of(part)]
        kept = surviving(rows, 3, specification.retention_ms)
        key_list, value_list, starts, ends = columns_of(kept, 4)
        return Changes(key_list, value_list, starts, end_times_ms=ends)


def _write(key: bytes, session: tuple[int, int], value: bytes | None) -> Write:
    if value is None:
        return Write("remove", (key, *session))
    return Write("put", (key, *session, value))


def _overlapping(*bounds: Any) -> Read:
    return Read("find_all_sessions", bounds, Form.ITERATOR)


def _ending(*bounds: Any) -> Read:
    return Read("find_sessions_by_end", bounds, Form.ITERATOR)


def _of(key: bytes, earliest_ms: int | None, latest_ms: int | None) -> Read:
    return Read("find_sessions", (key, earliest_ms, latest_ms), Form.ITERATOR)


def _rows_of(changes: Changes) -> Iterator[tuple[Any, ...]]:
    times_ms = changes.times_ms or (), changes.end_times_ms or ()
    return zip(changes.keys, changes.values, *times_ms, strict=True)
