"""A versioned store, as the relations see it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, Versioned
from statestores_conformance.relations.key_value import KEY_BOUNDS, keys, values
from statestores_conformance.relations.kinds import (
    KEYS,
    Alike,
    Form,
    Read,
    Split,
    TimedKind,
    Write,
)

_HIGHEST_MS = 2**63 - 1
_RETENTIONS_MS = [20, 0, 10**6]
_TIMES = [None, 0, 9, 10, 30, 45, 60, _HIGHEST_MS]
_TIME_BOUNDS = [(None, None), (10, 40), (30, None), (None, 30), (25, 25)]

_Row: TypeAlias = tuple[bytes, bytes | None, int]

_times = st.integers(0, 60)


class VersionedKind(TimedKind):
    """Every value of each key within a retention that the times cross again and again."""

    without_keys: ClassVar[frozenset[str]] = frozenset({"history"})

    def probe(self) -> Versioned[bytes, bytes]:
        return Versioned("store", history_retention_ms=0)

    def specifications(self) -> SearchStrategy[Versioned[bytes, bytes]]:
        return st.sampled_from(
            [Versioned("store", history_retention_ms=ms) for ms in _RETENTIONS_MS]
        )

    def writes(self) -> SearchStrategy[Write]:
        put = st.builds(Write, st.just("put"), st.tuples(keys, st.none() | values, _times))
        return put | put | st.builds(Write, st.just("delete"), st.tuples(keys, _times))

    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        rows = [
            write.arguments
            if write.method == "put"
            else (write.arguments[0], None, write.arguments[1])
            for write in writes
        ]
        return [Write("put_many", tuple([row[place] for row in rows] for place in range(3)))]

    def reads(self) -> Iterator[Read]:
        yield Read("stream_time_ms", form=Form.ATTRIBUTE)
        yield from self.iterations()
        for time in _TIMES:
            yield Read("get_many", (KEYS, time))

    def iterations(self) -> Iterator[Read]:
        for time in _TIMES:
            yield Read("scan_as_of", (time,), Form.ITERATOR)
        for bounds in KEY_BOUNDS:
            yield Read("scan_as_of", (35, *bounds), Form.ITERATOR)
        for key in KEYS:
            yield Read("history", (key,), Form.ITERATOR)
        for times in _TIME_BOUNDS:
            yield Read("history", (b"a", *times), Form.ITERATOR)

    def splits(self) -> Iterator[Split]:
        for time in (None, 35):
            for first, last in KEY_BOUNDS[:-1]:
                parts = ((first, b"a\x00\xff"), (b"a\x00\xff\x00", last))
                whole = Read("scan_as_of", (time, first, last), Form.ITERATOR)
                yield Split(
                    whole,
                    tuple(Read("scan_as_of", (time, *part), Form.ITERATOR) for part in parts),
                )
        # A version that is valid on both sides of a cut is in both parts.
        for key in KEYS:
            for first_ms, last_ms in _TIME_BOUNDS[:-1]:
                parts_ms = ((first_ms, 30), (31, last_ms))
                if last_ms != 30:
                    yield Split(
                        Read("history", (key, first_ms, last_ms), Form.ITERATOR),
                        tuple(Read("history", (key, *part), Form.ITERATOR) for part in parts_ms),
                        union="joined",
                    )

    def columns(self) -> Iterator[Split]:
        keys = [*KEYS, *KEYS[::-2], b"missing"]
        for time in _TIMES:
            singles = tuple(Read("get", (key, time)) for key in keys)
            yield Split(Read("get_many", (keys, time)), singles)
        times = [place * 7 % 62 for place in range(len(keys))]
        pairs = zip(keys, times, strict=True)
        yield Split(Read("get_many", (keys, times)), tuple(Read("get", pair) for pair in pairs))

    def same_now(self, stream_time_ms: int | None) -> Iterator[Alike]:
        for time in {stream_time_ms or 0, _HIGHEST_MS}:
            for key in KEYS:
                yield Alike(Read("get", (key, time)), Read("get", (key,)))
            yield Alike(
                Read("scan_as_of", (time,), Form.ITERATOR),
                Read("scan_as_of", (), Form.ITERATOR),
            )

    def points(self) -> Iterator[Alike]:
        for key in KEYS:
            for time in (0, 10, 45, 60):
                point = Read("get", (key, time))
                yield Alike(point, Read("scan_as_of", (time, key, key), Form.ITERATOR), "value_at")
                yield Alike(point, Read("history", (key, time, time), Form.ITERATOR), "first_of")

    def void(self, write: Write, specification: Any) -> Write | None:
        return Write("put", (write.arguments[0], b"void", write.arguments[-1]))

    def lasting(self, specification: Any) -> Versioned[bytes, bytes]:
        changed: Versioned[bytes, bytes] = replace(
            specification, history_retention_ms=_RETENTIONS_MS[-1]
        )
        return changed

    def retention_ms(self, specification: Any) -> int:
        retention_ms: int = specification.history_retention_ms
        return retention_ms

    def recent(self, horizon_ms: int) -> Iterator[Alike]:
        first_ms = max(0, horizon_ms)
        reads = [Read("get_many", (KEYS, time)) for time in (first_ms, first_ms + 1, None)]
        reads += [Read("scan_as_of", (first_ms,), Form.ITERATOR)]
        reads += [Read("history", (key, first_ms, None), Form.ITERATOR) for key in KEYS]
        yield from (Alike(read, read) for read in reads)

    def judged(self, write: Write) -> Write | None:
        if write.method == "put":
            return write
        return Write("put", (write.arguments[0], None, write.arguments[1]))

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows: list[_Row] = [
            row
            for part in log
            for row in zip(part.keys, part.values, part.times_ms or (), strict=True)
        ]
        last = {(key, time): place for place, (key, _, time) in enumerate(rows)}
        kept = [row for place, row in enumerate(rows) if last[row[0], row[2]] == place]
        horizon = max((row[2] for row in rows), default=0) - specification.history_retention_ms
        live = [row for row in kept if row[1] is None or _end_of(row, kept) > horizon]
        return Changes([row[0] for row in live], [row[1] for row in live], [row[2] for row in live])


def _end_of(row: _Row, rows: Sequence[_Row]) -> int:
    """Return when the version *row* ends; the latest never does."""
    later = [time for key, _, time in rows if key == row[0] and time > row[2]]
    return min(later, default=_HIGHEST_MS + 1)
