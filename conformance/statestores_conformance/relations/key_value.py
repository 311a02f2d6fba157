"""A key-value store, as the relations see it."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, KeyValue, StoreSpecification
from statestores_conformance.relations.kinds import (
    KEYS,
    VALUES,
    Alike,
    Form,
    Kind,
    Read,
    Split,
    Write,
)

KEY_BOUNDS = [(None, None), (b"a", b"b"), (b"a\x00", None), (None, b"a\xff"), (b"b", b"a")]
"""Ranges of keys, open and closed; the last is inverted."""

keys = st.sampled_from(KEYS)
values = st.sampled_from(VALUES)


class KeyValueKind(Kind):
    """The latest value of each key."""

    def probe(self) -> StoreSpecification[Any, Any]:
        return KeyValue("store")

    def specifications(self) -> SearchStrategy[StoreSpecification[Any, Any]]:
        return st.just(self.probe())

    def writes(self) -> SearchStrategy[Write]:
        return st.one_of(
            st.builds(Write, st.just("put"), st.tuples(keys, st.none() | values)),
            st.builds(Write, st.just("delete"), st.tuples(keys)),
            st.builds(Write, st.just("put_if_absent"), st.tuples(keys, values)),
        )

    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        found: list[Write] = []
        for write in writes:
            if write.method == "put_if_absent":
                found.append(write)
                continue
            row = self._columns_of(write)
            if not found or found[-1].method != "put_many":
                found.append(Write("put_many", tuple([] for _ in row)))
            for column, cell in zip(found[-1].arguments, row, strict=True):
                column.append(cell)
        return found

    def _columns_of(self, write: Write) -> tuple[Any, ...]:
        """Return the ``put_many`` row of a put or a deletion."""
        return (*write.arguments, None)[:2]

    def merges(self) -> SearchStrategy[list[list[Any]]]:
        """Draw the columns of `min_many` and `max_many`."""
        return columns_of_rows(st.lists(st.tuples(keys, st.none() | values), max_size=8), 2)

    def reads(self) -> Iterator[Read]:
        yield from self.iterations()
        yield Read("get_many", (KEYS,))
        for key in KEYS:
            yield Read("get", (key,))

    def iterations(self) -> Iterator[Read]:
        for bounds in KEY_BOUNDS:
            yield Read("range", bounds, Form.ITERATOR)
        for prefix in (b"", b"a", b"a\x00", b"\xff"):
            yield Read("prefix_scan", (prefix,), Form.ITERATOR)

    def splits(self) -> Iterator[Split]:
        for first, last in KEY_BOUNDS:
            for middle in KEYS:
                parts = ((first, middle), (middle + b"\x00", last))
                inside = (first is None or first <= middle) and (last is None or middle <= last)
                if inside:
                    yield Split(_range(first, last), tuple(_range(*part) for part in parts))

    def columns(self) -> Iterator[Split]:
        wanted = [*KEYS, *KEYS[::-2], b"missing"]
        yield Split(Read("get_many", (wanted,)), tuple(Read("get", (key,)) for key in wanted))

    def same_now(self, stream_time_ms: int | None) -> Iterator[Alike]:
        yield Alike(_range(None, None), Read("prefix_scan", (b"",), Form.ITERATOR))
        yield Alike(_range(b"", b"\xff" * 9), _range(None, None))

    def points(self) -> Iterator[Alike]:
        for key in KEYS:
            yield Alike(Read("get", (key,)), _range(key, key), "value_at")

    def void(self, write: Write, specification: Any) -> Write | None:
        if write.method == "put_if_absent":
            return None
        return Write("put", (write.arguments[0], b"void", *write.arguments[2:]))

    def lasting(self, specification: Any) -> StoreSpecification[Any, Any]:
        return specification  # type: ignore[no-any-return]  # it came as one

    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        rows = [row for part in log for row in zip(part.keys, part.values, strict=True)]
        last = {key: place for place, (key, _) in enumerate(rows)}
        kept = [row for place, row in enumerate(rows) if last[row[0]] == place]
        return Changes([key for key, _ in kept], [value for _, value in kept])


def columns_of_rows(rows: SearchStrategy[list[Any]], width: int) -> SearchStrategy[list[list[Any]]]:
    """Draw *rows* as columns."""
    return rows.map(lambda drawn: [[row[place] for row in drawn] for place in range(width)])


def _range(first: bytes | None, last: bytes | None) -> Read:
    return Read("range", (first, last), Form.ITERATOR)
