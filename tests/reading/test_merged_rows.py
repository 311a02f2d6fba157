"""The vectorised merge of a snapshot and a changelog's tail shows what the stores show."""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.row_batches import even_batches
from statestores.arrow.rows.key_value import KeyValueTail
from statestores.arrow.rows.versioned import VersionedTail
from statestores.arrow.schemas import KEY_VALUE_ROWS, VERSIONED_ROWS, rows_from_changes, valid_at
from statestores.spi.stores.store import CommittedContent
from statestores_conformance.many_cases import for_each

# Few keys and times, close to each other and to the horizon: the cases are in the collisions.
KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"\xff"])
VALUES = st.none() | st.binary(max_size=3)
TIMES = st.integers(0, 30)

KeyValueChange = tuple[bytes, bytes | None]
VersionedChange = tuple[bytes, bytes | None, int]

KEY_VALUE_CHANGES = st.lists(st.tuples(KEYS, VALUES), max_size=25)
VERSIONED_CHANGES = st.lists(st.tuples(KEYS, VALUES, TIMES), max_size=25)
CUTS = st.lists(st.integers(0, 25), max_size=4)


def cut(changes: list[tuple[object, ...]], cuts: list[int]) -> Iterator[list[tuple[object, ...]]]:
    """Yield *changes* in consecutive parts, cut at the places *cuts*."""
    borders = [0, *sorted(min(place, len(changes)) for place in cuts), len(changes)]
    for start, stop in pairwise(borders):
        yield changes[start:stop]


def change_batch(changes: list[tuple[object, ...]], *, versioned: bool) -> pa.RecordBatch:
    """Return *changes* as the columns that a tail takes."""
    columns = [
        pa.array([change[0] for change in changes], pa.binary()),
        pa.array([change[1] for change in changes], pa.binary()),
    ]
    names = ["key", "value"]
    if versioned:
        columns.append(pa.array([change[2] for change in changes], pa.int64()))
        names.append("timestamp")
    return pa.RecordBatch.from_arrays(columns, names=names)


def snapshot_rows(kind: str, content: CommittedContent, batch_rows: int) -> list[pa.RecordBatch]:
    """Return *content* as a snapshot would hold it, in batches of *batch_rows*."""
    rows = [rows_from_changes(kind, chunk) for chunk in content.changes]
    return list(even_batches(rows, batch_rows=batch_rows))


@given(before=KEY_VALUE_CHANGES, after=KEY_VALUE_CHANGES, cuts=CUTS, batch_rows=st.integers(1, 4))
def test_key_value_rows_are_those_of_the_store(
    before: list[KeyValueChange], after: list[KeyValueChange], cuts: list[int], batch_rows: int
) -> None:
    """Whatever the snapshot holds and however the tail is cut, the rows are the store's."""
    specification = ss.KeyValue("kv")
    with ss.open_store("unused", specification, backend="memory") as store:
        store.put_all(before)
        store.commit({})
        snapshot = snapshot_rows(specification.kind, store.committed_content(), batch_rows)
        tail = KeyValueTail()
        for part in cut(list(after), cuts):
            tail.add(change_batch(part, versioned=False))
            tail._fold()
        store.put_all(after)
        expected = list(store.range())

    merged = list(tail.merge(snapshot))

    assert rows_as_pairs(merged) == expected
    assert all(batch.schema == KEY_VALUE_ROWS for batch in merged)


def rows_as_pairs(batches: list[pa.RecordBatch]) -> list[tuple[bytes, bytes]]:
    """Return the rows of a key-value store as its ``range`` gives them."""
    return [(row["key"], row["value"]) for batch in batches for row in batch.to_pylist()]


@given(
    before=VERSIONED_CHANGES,
    after=VERSIONED_CHANGES,
    cuts=CUTS,
    batch_rows=st.integers(1, 4),
    retention_ms=st.integers(0, 20),
)
def test_versions_are_those_of_the_store(
    before: list[VersionedChange],
    after: list[VersionedChange],
    cuts: list[int],
    batch_rows: int,
    retention_ms: int,
) -> None:
    """As of every time, and in the history, the rows are those that the store returns."""
    specification = ss.Versioned("v", history_retention_ms=retention_ms)
    with ss.open_store("unused", specification, backend="memory") as store:
        for key, value, timestamp_ms in before:
            store.put(key, value, timestamp_ms)
        store.commit({})
        content = store.committed_content()
        snapshot = snapshot_rows(specification.kind, content, batch_rows)
        tail = VersionedTail(retention_ms, stream_time_ms=content.stream_time_ms)
        for part in cut(list(after), cuts):
            tail.add(change_batch(part, versioned=True))
            tail._fold()
        for key, value, timestamp_ms in after:
            store.put(key, value, timestamp_ms)

        merged = list(tail.merge(snapshot))

        assert tail.stream_time_ms == store.stream_time_ms
        assert all(batch.schema == VERSIONED_ROWS for batch in merged)
        for as_of_ms in (None, *range(32)):
            shown = [valid_at(batch, as_of_ms, tail.horizon_ms) for batch in merged]
            assert rows_as_versions(shown) == [
                (key, *record) for key, record in store.scan_as_of(as_of_ms)
            ]
        keys = sorted({key for key, *_ in before + after})
        assert [row for row in rows_as_versions(merged) if row[1] is not None] == [
            (key, *record) for key in keys for record in store.history(key)
        ]


def rows_as_versions(
    batches: list[pa.RecordBatch],
) -> list[tuple[bytes, bytes | None, int, int | None]]:
    """Return the rows of a versioned store as key and record."""
    return [
        (row["key"], row["value"], row["valid_from"], row["valid_to"])
        for batch in batches
        for row in batch.to_pylist()
    ]


@given(changes=VERSIONED_CHANGES, first=KEYS, last=KEYS)
def test_a_selection_of_keys_changes_no_other_rule(
    changes: list[VersionedChange], first: bytes, last: bytes
) -> None:
    """Puts of keys that are not asked for still move stream time, and so the horizon."""
    whole, part = VersionedTail(5), VersionedTail(5, keys=KeySelection(first=first, last=last))
    batch = change_batch(list(changes), versioned=True)
    whole.add(batch)
    part.add(batch)

    expected = [row for row in rows_as_versions(list(whole.merge(()))) if first <= row[0] <= last]
    assert rows_as_versions(list(part.merge(()))) == expected


@given(before=VERSIONED_CHANGES, after=VERSIONED_CHANGES)
def test_a_clear_forgets_what_came_before(
    before: list[VersionedChange], after: list[VersionedChange]
) -> None:
    """After it the store is a new one: rows, versions and stream time are gone."""
    tail, fresh = VersionedTail(5, stream_time_ms=1_000), VersionedTail(5)
    tail.add(change_batch(list(before), versioned=True))
    tail.clear()
    for each in (tail, fresh):
        each.add(change_batch(list(after), versioned=True))
    snapshot = pa.RecordBatch.from_pylist(
        [{"key": b"a", "value": b"old", "valid_from": 900}], schema=VERSIONED_ROWS
    )

    assert rows_as_versions(list(tail.merge([snapshot]))) == rows_as_versions(list(fresh.merge(())))
    assert tail.stream_time_ms == fresh.stream_time_ms


def test_rows_of_other_keys_stream_through() -> None:
    """A batch of the snapshot without a changed key is given before the next one is read."""
    taken = []

    def snapshot() -> Iterator[pa.RecordBatch]:
        for number in range(1_000):
            taken.append(number)
            yield pa.RecordBatch.from_pylist(
                [{"key": b"%04d" % number, "value": b"v"}], schema=KEY_VALUE_ROWS
            )

    tail = KeyValueTail()
    tail.add(change_batch([(b"0500x", b"new")], versioned=False))
    rows = tail.merge(snapshot())
    next(rows)
    next(rows)

    assert len(taken) == 2
    assert sum(batch.num_rows for batch in rows) == 999


def test_the_tail_is_folded_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long changelog with few keys takes the memory of the keys, not of the changes."""
    monkeypatch.setattr("statestores.arrow.rows.tail._FOLD_ROWS", 100)
    tail = KeyValueTail()
    for number in range(1_000):
        tail.add(change_batch([(b"%d" % (number % 7), b"%d" % number)], versioned=False))

        # Counted here: a mutant of the count kept all changes, and said that there were none.
        waiting = sum(batch.num_rows for batch in tail._pending)
        assert waiting + tail._folded.num_rows <= 108
    assert len(rows_as_pairs(list(tail.merge(())))) == 7


@for_each(
    ("selection", "selected"),
    [
        (KeySelection(), [b"", b"a", b"a\xff", b"b", b"\xff\xff"]),
        (KeySelection.prefix(b"a"), [b"a", b"a\xff"]),
        (KeySelection.prefix(b"\xff"), [b"\xff\xff"]),
        (KeySelection(first=b"a", last=b"a"), [b"a"]),
        (KeySelection(first=b"b", last=b"a"), []),
        (KeySelection.prefix(b"a").both(KeySelection(first=b"a\x00")), [b"a\xff"]),
    ],
)
def test_a_selection_is_inclusive_and_a_prefix_ends_before_its_successor(
    selection: KeySelection, selected: list[bytes]
) -> None:
    """Bytes compare without sign, and a prefix of ``ff`` has no end."""
    keys = [b"", b"a", b"a\xff", b"b", b"\xff\xff"]
    batch = change_batch([(key, None) for key in keys], versioned=False)

    assert selection.filter(batch).column("key").to_pylist() == selected


def test_no_changes_and_no_snapshot_give_no_rows() -> None:
    """An empty store is one."""
    tail = VersionedTail(10)
    tail.add(change_batch([], versioned=True))

    assert list(tail.merge(())) == []
