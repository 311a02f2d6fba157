"""Columns of stores of every kind: what is put, what becomes a change, and what is refused."""

from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import Progress, bulk_load, get_many, put_many, schemas
from statestores.arrow.columns import put_encoded, update_many
from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.arrow.file_access import checksums_of
from statestores.arrow.progress import Meter
from statestores.arrow.restore_mark import has_rows, restore_mark
from statestores.arrow.schemas import first_disorder, rows_from_changes
from statestores.arrow.time_travel import check_has_history
from statestores.arrow.typed_columns import encode_rows
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
)
from statestores.serdes.rows import row
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import Changes, TopicPartition
from statestores.spi.kinds import KINDS
from statestores_conformance.many_cases import for_each

PLAIN = ss.KeyValue("s")
STAMPED = ss.TimestampedKeyValue("s")
VERSIONS = ss.Versioned("s", history_retention_ms=1_000)
WINDOWS = ss.Window("s", retention_ms=1_000, window_size_ms=10)
DUPLICATES = ss.Window("s", retention_ms=1_000, window_size_ms=10, retain_duplicates=True)
SESSIONS = ss.Session("s", retention_ms=1_000)

KEYS = {"key": [b"a", b"b"], "value": [b"1", None]}


@pytest.mark.parametrize(
    ("specification", "times", "accepted"),
    [
        (PLAIN, {}, 2),
        (STAMPED, {"timestamp": [5, 6]}, 2),
        (VERSIONS, {"valid_from": [5, 6]}, 2),
        (WINDOWS, {"window_start": [5, 6]}, 2),
        (SESSIONS, {"session_start": [5, 6], "session_end": [7, 8]}, 2),
    ],
)
def test_columns_are_put_into_stores_of_each_kind(
    open_store: Any, specification: Any, times: dict[str, list[int]], accepted: int
) -> None:
    """As a table or as a batch; the same as the changes would, and it is said how many were."""
    found = []
    for make in (pa.table, pa.record_batch):
        store = open_store(specification)
        assert put_many(store, make(KEYS | times)) == accepted
        store.commit({})
        kind = specification.kind.name
        chunks = store.committed_content().changes
        found.append([rows_from_changes(kind, chunk).to_pylist() for chunk in chunks])
        store.truncate()
        store.commit({})
        store.close()

    assert found[0] == found[1]
    assert (found[0][0][0]["key"], found[0][0][0]["value"]) == (b"a", b"1")


@for_each(
    ("specification", "times", "changed"),
    [
        (PLAIN, {}, {}),
        (STAMPED, {"timestamp": [5, 6]}, {"timestamp": [5, None]}),
        (VERSIONS, {"valid_from": [5, 6]}, {"timestamp": [5, 6]}),
        (WINDOWS, {"window_start": [5, 6]}, {"window_start": [5, 6], "sequence": [None, None]}),
        (
            SESSIONS,
            {"session_start": [5, 6], "session_end": [7, 8]},
            {"session_end": [7, 8], "session_start": [5, 6]},
        ),
    ],
)
def test_rows_become_changes_of_each_kind(
    specification: Any, times: dict[str, list[int]], changed: dict[str, list[int | None]]
) -> None:
    """A deletion loses its timestamp, and nobody knows the numbers of duplicates yet."""
    rows = encode_rows(pa.record_batch(KEYS | times), specification, typed=False)

    assert changes_from_encoded(rows, specification).to_pydict() == KEYS | changed


@pytest.mark.spec("WIN-6")
def test_no_duplicate_is_deleted_by_a_column() -> None:
    """Of which, nobody could say; where none are retained a null deletes."""
    times = {"window_start": [5, 6]}
    rows = encode_rows(pa.record_batch(KEYS | times), DUPLICATES, typed=False)
    with pytest.raises(InvalidArgumentError, match="'s' retains duplicates"):
        changes_from_encoded(rows, DUPLICATES)

    whole = rows.slice(0, 1)
    assert changes_from_encoded(whole, DUPLICATES).column("value").to_pylist() == [b"1"]


def test_what_has_no_columns_is_refused(open_store: Any) -> None:
    """By what it is asked for, and not by an error of Python's."""
    windows, sessions = open_store(WINDOWS), open_store(ss.Session("t", retention_ms=1_000))
    keys = pa.array([b"k"])
    for store in (windows, sessions):
        with pytest.raises(InvalidTypeError, match="expected a key-value or a versioned store"):
            get_many(store, keys)
        with pytest.raises(InvalidTypeError, match="expected a key-value or a versioned store"):
            update_many(store, keys, lambda distinct, present: present)
    rows: Any = pa.record_batch({"key": [b"k"], "value": [b"v"]})
    nothing: Any = object()
    with pytest.raises(InvalidTypeError, match="expected a store of a known kind"):
        put_encoded(nothing, rows)
    with pytest.raises(InvalidTypeError, match="expected an open store"):
        bulk_load(nothing, rows)


def test_a_load_has_batches_of_one_row_or_more(open_store: Any) -> None:
    """Of none it would never end; a batch of Arrow is loaded like a table."""
    store = open_store(PLAIN)
    rows = pa.record_batch({"key": [b"b", b"a"], "value": [b"1", b"2"]})
    with pytest.raises(InvalidArgumentError, match="batch_rows must be from 1, got 0"):
        bulk_load(store, rows, batch_rows=0)
    told: list[Progress] = []

    assert bulk_load(store, rows, batch_rows=1, progress=told.append) == 2
    assert [each.rows for each in told] == [1, 2]
    assert list(store.read_only().range()) == [(b"a", b"2"), (b"b", b"1")]


def test_progress_is_counted_from_nothing() -> None:
    """Rows and bytes."""
    told: list[Progress] = []
    meter = Meter(told.append, 7)
    meter.add(2, 30)
    meter.add(1, 5, offset=9)

    assert [(each.rows, each.bytes, each.total_rows, each.offset) for each in told] == [
        (2, 30, 7, None),
        (3, 35, 7, 9),
    ]


def test_a_processors_store_is_not_committed_by_a_load(open_store: Any) -> None:
    """It is its task that commits, with the offsets; whoever commits himself says so."""
    store: Any = for_processors(open_store(PLAIN), "the test commits")
    rows = pa.record_batch({"key": [b"k"], "value": [b"v"]})
    with pytest.raises(CapabilityNotSupportedError):
        bulk_load(store, rows)


@pytest.mark.spec("COM-17")
def test_the_mark_of_a_restore_keeps_its_name(open_store: Any) -> None:
    """A store that was left half restored by an earlier release is found by it."""
    assert restore_mark(PLAIN) == TopicPartition("s#restoring", 0)
    store = open_store(PLAIN)
    before = has_rows(store)
    store.put(b"k", b"v")
    store.commit({})

    assert (before, has_rows(store)) == (False, True)


def test_only_stores_with_a_history_are_read_as_of_a_time() -> None:
    """The error says of which kind the others are."""
    check_has_history(VERSIONS)
    for specification in (PLAIN, STAMPED, WINDOWS, SESSIONS):
        with pytest.raises(InvalidArgumentError, match="knows no time to be read as of"):
            check_has_history(specification)


ROWS_OF_KINDS = {
    "key-value": "key: binary not null, value: binary not null",
    "timestamped-key-value": "key: binary not null, value: binary not null, timestamp: int64",
    "versioned": "key: binary not null, value: binary, valid_from: int64 not null, valid_to: int64",
    "window": (
        "key: binary not null, value: binary not null, window_start: int64 not null, "
        "sequence: int64"
    ),
    "session": (
        "key: binary not null, value: binary not null, session_start: int64 not null, "
        "session_end: int64 not null"
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_of_a_kind_stay_as_they_are(kind: str) -> None:
    """Snapshots have them, and so has what users read from them."""
    made = schemas._rows(KINDS[kind])  # the module makes them once, when it is imported

    words = (f"{each.name}: {each.type}{'' if each.nullable else ' not null'}" for each in made)
    assert ", ".join(words) == ROWS_OF_KINDS[kind]
    assert made.equals(schemas.row_schema(kind))


@for_each("times", [["soon"], [1.5], [b"5"], [1 << 64]])
def test_a_time_that_is_none_is_no_content(times: list[Any]) -> None:
    """The error is ours, and says which column it is about."""
    with pytest.raises(InvalidArgumentError, match="a column of changes is no"):
        rows_from_changes("versioned", Changes([b"a"], [b"1"], times))


def test_more_than_an_array_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow makes two arrays of more than 2 GiB; a record batch takes one."""
    with monkeypatch.context() as patched:
        patched.setattr(pa, "array", lambda values, kind: pa.chunked_array([[]], kind))
        with pytest.raises(InvalidArgumentError, match="pass them in smaller chunks"):
            rows_from_changes("key-value", Changes([b"a"], [b"1"]))


@for_each(
    ("rows", "expected"),
    [
        ([(b"b", 5, 0), (b"a", 5, 0)], 1),
        ([(b"a", 5, 1), (b"a", 5, 1)], 1),
        ([(b"a", 5, 1), (b"a", 5, 2), (b"a", 6, 0)], None),
        ([(b"a", 6, 1), (b"a", 5, 2)], 1),
        ([(b"a", 5, 1), (b"b", 4, 0), (b"b", 3, 9)], 2),
    ],
)
def test_rows_of_windows_are_in_the_order_of_three_columns(
    rows: list[tuple[bytes, int, int]], expected: int | None
) -> None:
    """A later column counts among rows that those before say to be the same."""
    keys, starts, sequences = (list(column) for column in zip(*rows, strict=True))
    changes = Changes(keys, [b"v"] * len(rows), starts, sequences=sequences)

    assert first_disorder(rows_from_changes("window", changes), None) == expected


@for_each(
    "column",
    [pa.array([5, 6], pa.int32()), pa.array([5, 6], pa.uint8()), pa.array([5, 6], pa.int64())],
)
def test_times_are_whole_numbers_of_any_width(column: pa.Array) -> None:
    """They are milliseconds."""
    rows = pa.record_batch(KEYS | {"valid_from": column})

    encoded = encode_rows(rows, VERSIONS, typed=False)
    assert encoded.column("valid_from").to_pylist() == [5, 6]


def test_a_column_of_nothing_is_one_of_nulls() -> None:
    """Where a time may be missing it is, and elsewhere the error says that it is missing."""
    nothing = pa.nulls(2)
    stamped = encode_rows(pa.record_batch(KEYS | {"timestamp": nothing}), STAMPED, typed=False)
    assert stamped.column("timestamp").to_pylist() == [None, None]

    with pytest.raises(InvalidArgumentError, match="'valid_from' has nulls"):
        encode_rows(pa.record_batch(KEYS | {"valid_from": nothing}), VERSIONS, typed=False)


def test_a_column_of_another_type_is_refused_by_what_is_expected() -> None:
    """A list is no bytes, and Arrow's error says nothing of the store."""
    rows = pa.record_batch({"key": [[1], [2]], "value": [b"1", b"2"]})
    with pytest.raises(InvalidArgumentError, match="expected key binary, value binary"):
        encode_rows(rows, PLAIN, typed=False)


def test_a_value_that_deletes_may_be_null() -> None:
    """So says the schema as well: whoever is given the rows goes by it."""
    assert encode_rows(pa.record_batch(KEYS), PLAIN, typed=False).schema.field("value").nullable


def test_fields_that_may_be_null_may_be_missing() -> None:
    """Rows that were written before a field was there are put as they are."""
    serde = row("city: string, people: int64")
    specification = ss.KeyValue("s", value=serde)
    values = pa.array([{"city": "Ulm"}, {"city": "Rome"}])
    rows = pa.record_batch([pa.array([b"a", b"b"]), values], ["key", "value"])

    encoded = encode_rows(rows, specification, typed=True)
    assert [serde.decode(each) for each in encoded.column("value").to_pylist()] == [
        {"city": "Ulm", "people": None},
        {"city": "Rome", "people": None},
    ]


def test_a_file_that_is_shorter_than_its_parts_has_the_sums_of_what_is_there(
    tmp_path: Path,
) -> None:
    """It is damaged, which is told by comparing them; an error of Python's would not tell it."""
    (tmp_path / "file").write_bytes(b"abc")

    whole, sums = checksums_of(tmp_path / "file", [(0, 2), (2, 9), (9, 12)])
    assert whole == google_crc32c.value(b"abc")
    assert sums == [google_crc32c.value(b"ab"), google_crc32c.value(b"c"), 0]
