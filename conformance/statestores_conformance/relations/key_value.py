"""A key-value store, as the relations see it."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, KeyValue
from statestores_conformance.relations.kinds import KEYS, VALUES, Form, Kind, Read, Split, Write

_keys = st.sampled_from(KEYS)
_values = st.sampled_from(VALUES)
_BOUNDS = [(None, None), (b"a", b"b"), (b"a\x00", None), (None, b"a\xff"), (b"b", b"a")]


class KeyValueKind(Kind):
    """The latest value of each key."""

    def probe(self) -> KeyValue[bytes, bytes]:
        return KeyValue("store")

    def specifications(self) -> SearchStrategy[KeyValue[bytes, bytes]]:
        return st.just(self.probe())

    def writes(self) -> SearchStrategy[Write]:
        return st.one_of(
            st.builds(Write, st.just("put"), st.tuples(_keys, st.none() | _values)),
            st.builds(Write, st.just("delete"), st.tuples(_keys)),
            st.builds(Write, st.just("put_if_absent"), st.tuples(_keys, _values)),
        )

    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        found: list[Write] = []
        for write in writes:
            if write.method == "put_if_absent":
                found.append(write)
                continue
            key, value = (*write.arguments, None)[:2]
            if found and found[-1].method == "put_many":
                keys, values = found[-1].arguments
                found[-1] = Write("put_many", ([*keys, key], [*values, value]))
            else:
                found.append(Write("put_many", ([key], [value])))
        return found

    def reads(self) -> Iterator[Read]:
        yield from self.iterations()
        yield Read("get_many", (KEYS,))
        for key in KEYS:
            yield Read("get", (key,))

    def iterations(self) -> Iterator[Read]:
        for bounds in _BOUNDS:
            yield Read("range", bounds, Form.ITERATOR)
        for prefix in (b"", b"a", b"a\x00", b"\xff"):
            yield Read("prefix_scan", (prefix,), Form.ITERATOR)

    def splits(self) -> Iterator[Split]:
        for first, last in _BOUNDS:
            for middle in KEYS:
                parts = ((first, middle), (middle + b"\x00", last))
                inside = (first is None or first <= middle) and (last is None or middle <= last)
                if inside:
                    yield Split(_range(first, last), tuple(_range(*part) for part in parts))

    def columns(self) -> Iterator[Split]:
        keys = [*KEYS, *KEYS[::-2], b"missing"]
        yield Split(Read("get_many", (keys,)), tuple(Read("get", (key,)) for key in keys))

    def same_now(self, stream_time_ms: int | None) -> Iterator[tuple[Read, Read]]:
        yield _range(None, None), Read("prefix_scan", (b"",), Form.ITERATOR)
        yield _range(b"", b"\xff" * 9), _range(None, None)

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows = [row for part in log for row in zip(part.keys, part.values, strict=True)]
        last = {key: place for place, (key, _) in enumerate(rows)}
        kept = [row for place, row in enumerate(rows) if last[row[0]] == place]
        return Changes([key for key, _ in kept], [value for _, value in kept])


def _range(first: bytes | None, last: bytes | None) -> Read:
    return Read("range", (first, last), Form.ITERATOR)
