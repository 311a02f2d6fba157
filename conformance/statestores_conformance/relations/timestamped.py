"""A timestamped key-value store whose values may expire, as the relations see it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, TimestampedKeyValue
from statestores_conformance.relations.key_value import (
    KEY_BOUNDS,
    KeyValueKind,
    columns_of_rows,
    keys,
    values,
)
from statestores_conformance.relations.kinds import Alike, Form, Read, TimedKind, Write

_TTL_MS = 20
_LONG_MS = 10**6

_times = st.integers(0, 60)


class TimestampedKind(KeyValueKind, TimedKind):
    """The latest value of each key, some of them older than a time to live of 20 ms."""

    def probe(self) -> TimestampedKeyValue[bytes, bytes]:
        return TimestampedKeyValue("store", ttl_ms=_TTL_MS)

    def specifications(self) -> SearchStrategy[TimestampedKeyValue[bytes, bytes]]:
        return st.sampled_from([self.probe(), self.probe(), self.lasting(self.probe())])

    def writes(self) -> SearchStrategy[Write]:
        put = st.builds(Write, st.just("put"), st.tuples(keys, values, _times))
        return st.one_of(
            put,
            put,
            st.builds(Write, st.just("delete"), st.tuples(keys)),
            st.builds(Write, st.just("put_if_absent"), st.tuples(keys, values, _times)),
        )

    def merges(self) -> SearchStrategy[list[list[Any]]]:
        return columns_of_rows(st.lists(st.tuples(keys, st.none() | values, _times), max_size=8), 3)

    def _columns_of(self, write: Write) -> tuple[Any, ...]:
        return (*write.arguments, None, None)[:3]

    def reads(self) -> Iterator[Read]:
        yield Read("stream_time_ms", form=Form.ATTRIBUTE)
        yield from super().reads()

    def void(self, write: Write, specification: Any) -> Write | None:
        # A put before a deletion would move stream time, which the deletion does not.
        return super().void(write, specification) if write.method == "put" else None

    def lasting(self, specification: Any) -> TimestampedKeyValue[bytes, bytes]:
        changed: TimestampedKeyValue[bytes, bytes] = replace(specification, ttl_ms=_LONG_MS)
        return changed

    def retention_ms(self, specification: Any) -> int:
        ttl_ms: int = specification.ttl_ms
        return ttl_ms

    def recent(self, horizon_ms: int) -> Iterator[Alike]:
        for bounds in KEY_BOUNDS:
            read = Read("range", bounds, Form.ITERATOR)
            yield Alike(read, read, "since", (horizon_ms,))

    def judged(self, write: Write) -> Write | None:
        return None if write.method == "put_if_absent" else write

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows = [
            row
            for part in log
            for row in zip(part.keys, part.values, part.timestamps_ms or (), strict=True)
        ]
        last = {key: place for place, (key, _, _) in enumerate(rows)}
        # Stream time is the highest timestamp, including those of overwritten values.
        highest = max((row[2] or 0 for row in rows), default=0)
        kept = [row for place, row in enumerate(rows) if last[row[0]] == place or row[2] == highest]
        return Changes(
            [row[0] for row in kept],
            [row[1] for row in kept],
            timestamps_ms=[row[2] for row in kept],
        )
