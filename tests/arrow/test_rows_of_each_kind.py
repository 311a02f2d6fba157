"""Rows that are merged or encoded as columns, beside a store of each kind that takes each of them.

What a restore or a reader makes of a changelog is what the store has; and an engine into which a
whole table is put has the same rows as one that was given each of its changes.
"""

import tracemalloc
from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.rows import tail as tails
from statestores.arrow.rows.encoder import _constant, joined, pairs
from statestores.arrow.rows.kinds import encoder_of, tail_of
from statestores.arrow.schemas import row_schema, rows_from_changes
from statestores.changelog.rows import batch_from_changes, change_schema
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.retained.progress import REMOVALS_PER_WRITE
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.versioned.rows import Version, history_key, read_history
from statestores.spi import Changes, TtlClock
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

KEYS = [b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"\xff"]
SHORT_MS, LONG_MS = 6, 1_000
CASES = 25

KINDS: dict[str, Any] = {
    "key-value": ss.KeyValue("s"),
    "timestamped": ss.TimestampedKeyValue("s"),
    "versioned": ss.Versioned("s", history_retention_ms=LONG_MS),
    "window": ss.Window("s", retention_ms=LONG_MS, window_size_ms=1),
    "duplicates": ss.Window("s", retention_ms=LONG_MS, window_size_ms=1, retain_duplicates=True),
    "session": ss.Session("s", retention_ms=LONG_MS),
}
EXPIRING: dict[str, Any] = {
    "time to live": ss.TimestampedKeyValue("s", ttl_ms=SHORT_MS, ttl_clock=TtlClock.EVENT),
    "short versioned": ss.Versioned("s", history_retention_ms=SHORT_MS),
    "short window": ss.Window("s", retention_ms=SHORT_MS, window_size_ms=1),
    "short duplicates": ss.Window(
        "s", retention_ms=SHORT_MS, window_size_ms=1, retain_duplicates=True
    ),
    "short session": ss.Session("s", retention_ms=SHORT_MS),
}


class Source:
    """Draws changes of a kind, as a changelog has them."""

    def __init__(self, specification: Any, seed: int) -> None:
        self.chance = Random(seed)
        self.specification = specification
        self.numbered = 0

    def changes(self) -> Changes:
        """Return up to twelve changes, some of the same key and time."""
        chance, kind = self.chance, self.specification.kind
        count = chance.choice([0, 1, 4, 12])
        keys = chance.choices(KEYS, k=count)
        values = [chance.choice([None, b"", b"%d" % number]) for number in range(count)]
        latest = chance.choice([3, 20])
        times = [chance.randint(0, latest) for _ in keys]
        if kind == "key-value":
            return Changes(keys, values)
        if kind == ss.TimestampedKeyValue.kind:
            stamps = [None if v is None else t for v, t in zip(values, times, strict=True)]
            return Changes(keys, values, timestamps_ms=stamps)
        if kind == ss.Session.kind:
            ends = [time_ms + chance.randint(0, 3) for time_ms in times]
            return Changes(keys, values, times, ends)
        if getattr(self.specification, "retain_duplicates", False):
            numbers = list(range(self.numbered, self.numbered + count))
            self.numbered += count
            values = [value or b"" for value in values]
            return Changes(keys, values, times, sequences=numbers)
        return Changes(keys, values, times)

    def columns(self, changes: Changes) -> pa.RecordBatch:
        """Return *changes* as a changelog gives them."""
        return batch_from_changes(change_schema(self.specification.kind), changes)


def opened(specification: Any) -> tuple[MemoryEngine, Any]:
    """Return a new store, and its engine."""
    engine = MemoryEngine.open("unused")
    return engine, open_on_engine(engine, specification)


def put(store: Any, changes: Changes) -> None:
    """Have *store* commit *changes*, one after the other."""
    store.replay(changes)
    store.commit({})


def content_of(store: Any) -> tuple[list[pa.RecordBatch], int | None]:
    """Return the rows of *store* in small batches, some of them empty, and its stream time."""
    content = store.committed_content()
    rows = [rows_from_changes(store.specification.kind, changes) for changes in content.changes]
    cut = [each.slice(at, 2) for each in rows for at in range(0, each.num_rows + 1, 2)]
    return cut, content.stream_time_ms


def listed(batches: list[pa.RecordBatch]) -> list[Any]:
    """Return the rows of *batches*."""
    return [row for batch in batches for row in batch.to_pylist()]


def found_in(batches: list[pa.RecordBatch], specification: Any, time_ms: int | None) -> list[Any]:
    """Return the rows that a read at *time_ms* or later tells from nothing.

    A deletion that is the latest of its key may go once it is below the horizon.
    """
    if specification.kind != ss.Versioned.kind or time_ms is None:
        return listed(batches)
    horizon = time_ms - specification.history_retention_ms
    return [
        row for row in listed(batches) if row["value"] is not None or row["valid_from"] >= horizon
    ]


@pytest.mark.parametrize("name", KINDS | EXPIRING)
@pytest.mark.parametrize("fold_rows", [1, 1 << 20])
def test_a_tail_leaves_what_the_store_has(
    name: str, fold_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a snapshot, or after a clear that the log has: rows, their types, and stream time.

    However often it is folded meanwhile. The time of a timestamped tail was read by no test, nor
    was it known that a clear takes it back: what is put afterwards had expired.
    """
    monkeypatch.setattr(tails, "_FOLD_ROWS", fold_rows)
    specification = (KINDS | EXPIRING)[name]
    schema = row_schema(specification.kind)
    for seed in range(CASES):
        source = Source(specification, seed)
        _, store = opened(specification)
        put(store, source.changes())
        snapshot, stream_time = content_of(store)
        tail = tail_of(specification, stream_time_ms=stream_time)
        alone = tail_of(specification)
        put_alone = opened(specification)[1]
        for _ in range(source.chance.choice([0, 1, 3])):
            if source.chance.random() < 0.2:
                tail.clear()
                alone.clear()
                store, put_alone = opened(specification)[1], opened(specification)[1]
            changes = source.changes()
            tail.add(source.columns(changes))
            alone.add(source.columns(changes))
            put(store, changes)
            put(put_alone, changes)
        merged = list(tail.merge(snapshot))
        wanted, stream_time = content_of(store)

        assert found_in(merged, specification, stream_time) == found_in(
            wanted, specification, stream_time
        )
        assert all(batch.schema == schema and batch.num_rows for batch in merged)
        wanted, time_ms = content_of(put_alone)
        assert found_in([alone.content()], specification, time_ms) == found_in(
            wanted, specification, time_ms
        )
        assert getattr(tail, "stream_time_ms", None) == stream_time


def check_bounds(specification: Any, encoded: SortedRows, *, is_empty: bool) -> None:
    """Compare what *encoded* says of its rows with the rows."""
    rows = list(encoded.rows)
    keys = [key for key, _ in rows]
    assert keys == sorted(set(keys))
    assert encoded.has_deletions == (None in [value for _, value in rows])
    assert not (is_empty and encoded.has_deletions)
    if is_empty:
        assert encoded.removals == 0
    elif specification.kind in (ss.Window.kind, ss.Session.kind):
        named = [key for key in keys if key < HISTORY]
        assert encoded.removals == REMOVALS_PER_WRITE * len(named)
    if specification.kind in (ss.Window.kind, ss.Session.kind):
        at = -8 if specification.kind == ss.Window.kind else -16
        at = -16 if getattr(specification, "retain_duplicates", False) else at
        times = [int.from_bytes((key + b"|")[at - 1 :][:8]) for key in keys if key < HISTORY]
        assert encoded.lowest_ms == min(times, default=MAX_TIME_MS)
    elif specification.kind == ss.Versioned.kind and not is_empty:
        ends = [read_history(key, value) for key, value in rows if key >= HISTORY and value]
        markers = [each for each in ends if each.valid_from_ms == each.valid_to_ms]
        assert encoded.removals == len(rows) - len(markers)
    if specification.kind == ss.Versioned.kind:
        ends = [read_history(key, value) for key, value in rows if key >= HISTORY and value]
        lowest = min((each.valid_to_ms or 0 for each in ends), default=MAX_TIME_MS)
        assert encoded.lowest_ms == lowest


@for_each("name", KINDS | EXPIRING)
@pytest.mark.spec("COM-1", "COM-40")
def test_encoded_changes_are_the_rows_of_changes_that_are_put(name: str) -> None:
    """Over whatever the store has, deletions and late versions among them; and what they say.

    Row by row where nothing expires; where something does, what a read finds.
    """
    specification = (KINDS | EXPIRING)[name]
    for seed in range(CASES):
        source = Source(specification, seed)
        (put_into, one), (encoded_into, other) = opened(specification), opened(specification)
        for is_empty in (True, False, False):
            changes = source.changes()
            columns = source.columns(changes)
            encoder = encoder_of(other)
            assert encoder is not None
            encoded = encoder.changes(columns, is_empty=is_empty)
            encoded = replace(encoded, rows=list(encoded.rows))
            check_bounds(specification, encoded, is_empty=is_empty)
            times = [*(changes.end_times_ms or changes.times_ms or changes.timestamps_ms or ())]
            reached = max([t for t in times if t is not None], default=NO_STREAM_TIME)
            before = other.stream_time_ms if specification.kind != ss.KeyValue.kind else None
            known = NO_STREAM_TIME if before is None else before
            is_stamped = specification.kind in (ss.KeyValue.kind, ss.TimestampedKeyValue.kind)
            assert encoded.highest_ms == (reached if is_stamped else max(known, reached))
            numbers = changes.sequences or [-1]
            assert encoded.next_number == max(numbers) + 1
            folded, highest = encoder.fold(columns, is_empty=is_empty)
            again = encoder.changes(folded, is_empty=is_empty)
            assert list(again.rows) == encoded.rows
            assert highest == (reached if encoder.folds else NO_STREAM_TIME)
            put(one, changes)
            other.commit_rows(encoded, {})

            wanted, time_ms = content_of(one)
            found, found_ms = content_of(other)
            assert found_ms == time_ms
            assert found_in(found, specification, time_ms) == found_in(
                wanted, specification, time_ms
            )
            if name in KINDS:
                rows = [dict(each.scan(DATA, END)) for each in (put_into, encoded_into)]
                assert rows[0] == rows[1]


@pytest.mark.parametrize("name", KINDS)
def test_encoded_content_is_the_rows_of_the_store_that_it_is_of(name: str) -> None:
    """Each run in the order of its keys, in pieces of any size; with the lowest time of all."""
    specification = KINDS[name]
    for seed in range(CASES):
        source = Source(specification, seed)
        engine, store = opened(specification)
        put(store, source.changes())
        put(store, source.changes())
        pieces = [each for each in content_of(store)[0] if each.num_rows]
        encoder = encoder_of(opened(specification)[1])
        assert encoder is not None
        if not pieces:
            continue
        runs = [
            [replace(part, rows=list(part.rows)) for part in run]
            for run in encoder.content(iter(pieces))
        ]
        rows = [[pair for part in run for pair in part.rows] for run in runs]

        assert len(runs) == encoder.runs
        assert [pair for run in rows for pair in run] == list(engine.scan(DATA, END))
        assert not any(part.has_deletions for run in runs for part in run)
        sequences = (
            pa.Table.from_batches(pieces).select(["sequence"]) if name == "duplicates" else []
        )
        wanted = max((each for column in sequences for each in column.to_pylist()), default=-1) + 1
        assert max(part.next_number for run in runs for part in run) == wanted


@pytest.mark.parametrize("kind", ["key-value", "timestamped"])
def test_the_last_change_of_each_key_counts_in_whatever_order_they_come(
    kind: str, subtests: pytest.Subtests
) -> None:
    """Ascending with a key twice, descending: an engine takes rows in the order of keys alone."""
    for keys in product([b"a", b"b", b"c"], repeat=3):
        with subtests.test(keys=keys):
            values = [b"0", None, b"2"]
            changes = Changes(list(keys), values)
            if kind == "timestamped":
                changes = Changes(list(keys), values, timestamps_ms=[0, None, 2])
            encoder = encoder_of(opened(KINDS[kind])[1])
            assert encoder is not None
            columns = batch_from_changes(change_schema(KINDS[kind].kind), changes)
            rows = list(encoder.changes(columns, is_empty=False).rows)

            last = dict(zip(keys, values, strict=True))
            assert [key for key, _ in rows] == [DATA + key for key in sorted(last)]
            assert [value is None for _, value in rows] == [
                last[key] is None for key in sorted(last)
            ]
            assert all(value[-1:] == last[row[1:]] for row, value in rows if value is not None)


def test_nobody_encodes_rows_for_a_store_of_another_author() -> None:
    """What such a store has in its engine, if it has one, is not known."""
    other: Any = SimpleNamespace(specification=ss.KeyValue("s"))
    assert encoder_of(other) is None


@for_each("data", [b"", b"\x00\x00", b"ab"])
def test_what_is_joined_to_keys_is_the_bytes_that_were_given(data: bytes) -> None:
    """Made of buffers, since pyarrow's own way imports pandas."""
    constant = _constant(data)

    assert constant == pa.scalar(data, pa.large_binary())
    assert joined(b"<", pa.array([b"k", b""], pa.large_binary()), constant).to_pylist() == [
        b"<k" + data,
        b"<" + data,
    ]


def test_few_rows_of_a_column_are_objects_at_a_time() -> None:
    """65,536 were: more than a processor's cache holds, and of large values much memory."""
    size, count = 2_000, 20_000
    column = pa.array([b"v" * size] * count, pa.binary())
    keys = pa.array([b"%06d" % number for number in range(count)], pa.binary())
    tracemalloc.start()
    try:
        rows = pairs(keys, column, namespace=DATA)
        first = next(rows)
        rest = sum(1 for _ in rows)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (first, rest) == ((DATA + b"000000", b"v" * size), count - 1)
    assert most < size * count / 5


def test_rows_of_more_than_two_gibibytes_are_copied_before_they_get_small_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slice keeps the offsets of the whole, which 32 bits do not hold."""
    rows = pa.record_batch(
        [pa.array([b"%02d" % number * 50 for number in range(20)], pa.large_binary())] * 2,
        ["key", "value"],
    )
    monkeypatch.setattr(tails, "BATCH_ROWS", 2)
    for limit, most in ((rows.nbytes + 1, None), (rows.nbytes, 2 * 100 + 32)):
        monkeypatch.setattr(tails, "_OFFSET_LIMIT", limit)
        pieces = list(tails._pieces(rows, row_schema(ss.KeyValue.kind)))
        sizes = [each.column("value").get_total_buffer_size() for each in pieces]

        assert listed(pieces) == rows.to_pylist()
        assert [each.num_rows for each in pieces] == [2] * 10
        assert (max(sizes) <= most) if most else (min(sizes) >= 20 * 100)


@pytest.mark.parametrize(
    ("most_bytes", "rows_of_each"), [(100, 1), (2_500, 2), (1 << 20, 20)], ids=["1", "2", "all"]
)
def test_pieces_have_as_many_rows_as_fit(
    most_bytes: int, rows_of_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at least, of values that are larger than a batch should be."""
    monkeypatch.setattr(tails, "BATCH_BYTES", most_bytes)
    keys = pa.array([b"%02d" % number for number in range(20)], pa.large_binary())
    rows = pa.record_batch(
        [keys, pa.array([b"v" * 1_000] * 20, pa.large_binary())], ["key", "value"]
    )
    pieces = list(tails._pieces(rows, row_schema(ss.KeyValue.kind)))

    assert {each.num_rows for each in pieces} == {rows_of_each}
    assert listed(pieces) == rows.to_pylist()


@pytest.mark.spec("VRS-14")
def test_a_stored_version_that_has_expired_comes_not_into_the_history() -> None:
    """The version before the latest put of a clock, and of a key that was put long ago."""
    specification = EXPIRING["short versioned"]
    engine, store = opened(specification)
    put(store, Changes([b"k", b"l"], [b"old", b"old"], [0, 0]))
    source = Source(specification, 0)
    encoder = encoder_of(store)
    assert encoder is not None
    changes = Changes([b"k", b"clock", b"clock"], [b"new", b"1", b"2"], [90, 98, 100])
    encoded = encoder.changes(source.columns(changes), is_empty=False)
    rows = dict(encoded.rows)

    assert [key for key in rows if key < HISTORY] == [DATA + b"clock", DATA + b"k"]
    versions = [read_history(key, row or b"") for key, row in rows.items() if key >= HISTORY]
    assert versions == [Version(98, b"1", 100)]
    assert engine.get(DATA + b"l") is not None


def test_late_versions_of_one_key_find_their_neighbours_in_a_long_history() -> None:
    """They are sought in the order in which the history lies, newest first."""
    specification = ss.Versioned("s", history_retention_ms=1 << 40)
    (put_into, one), (encoded_into, other) = opened(specification), opened(specification)
    for store in (one, other):
        for time_ms in range(0, 2_000, 2):
            store.put(b"k", b"%d" % time_ms, time_ms)
        store.commit({})
    times = [5, 101, 301, 303, 901, 1_501, 1_503]
    changes = Changes([b"k"] * len(times), [b"late"] * len(times), times)
    put(one, changes)
    encoder = encoder_of(other)
    assert encoder is not None
    columns = Source(specification, 0).columns(changes)
    other.commit_rows(encoder.changes(columns, is_empty=False), {})

    assert list(encoded_into.scan(DATA, END)) == list(put_into.scan(DATA, END))


@pytest.mark.spec("VRS-8", "VRS-14")
def test_the_marker_of_a_deletion_that_is_replaced_is_deleted() -> None:
    """A value is put at the time of the deletion: the vacuum would remove it by the marker."""
    specification = KINDS["versioned"]
    engine, store = opened(specification)
    put(store, Changes([b"k", b"l"], [None, b"v"], [5, 5]))
    encoder = encoder_of(store)
    assert encoder is not None
    changes = Changes([b"k", b"l"], [b"back", b"again"], [5, 5])
    columns = Source(specification, 0).columns(changes)
    encoded = encoder.changes(columns, is_empty=False)
    rows = dict(encoded.rows)

    assert [row for row in rows if rows[row] is None] == [history_key(b"k", 5)]
    assert encoded.has_deletions
    assert engine.get(history_key(b"k", 5)) is not None
    assert len(rows) == 3
