"""Rows in Arrow and Parquet files, and back."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from statestores.arrow import (
    VERSIONED_ROWS,
    Progress,
    export_file,
    export_table,
    import_file,
    read_snapshot,
    write_snapshot,
)
from statestores.arrow.files import importing as file_import
from statestores.arrow.restore_mark import restore_mark
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
    StorageError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.serdes import int64, json, typed, utf8
from statestores.spi import KeyValue, KeyValueStore, TopicPartition, Versioned, VersionedStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]
BytesVersions = VersionedStore[bytes, bytes]

COUNTS = KeyValue("counts")
RATES = Versioned("rates", history_retention_ms=1_000)
TYPED = Versioned("typed", history_retention_ms=1_000, key=utf8, value=int64)

_FORMATS = pytest.mark.parametrize("name", ["rows.arrow", "rows.parquet"])


def _read(path: Path) -> pa.Table:
    if path.suffix != ".arrow":
        with pq.ParquetFile(path) as parquet:
            return parquet.read()
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all()


@pytest.fixture
def typed_store(open_store: Any) -> Any:
    """Open a store of whole numbers by text, with two versions and a deletion."""
    store = typed(open_store(TYPED), TYPED)
    store.put("ä", 1, 10)
    store.put("ä", 2, 20)
    store.put("b", 3, 10)
    store.put("b", None, 30)
    store.commit({TopicPartition("typed-changelog", 0): 3})
    store.put("pending", 4, 40)
    return store


def _time(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, 0, 0, 0, milliseconds * 1_000, UTC)


_TYPED_ROWS = [
    {"key": "b", "value": 3, "valid_from": _time(10), "valid_to": _time(30)},
    {"key": "b", "value": None, "valid_from": _time(30), "valid_to": None},
    {"key": "ä", "value": 1, "valid_from": _time(10), "valid_to": _time(20)},
    {"key": "ä", "value": 2, "valid_from": _time(20), "valid_to": None},
]


@pytest.mark.spec("SNP-17")
@_FORMATS
def test_an_exported_file_holds_the_committed_rows(
    counts: BytesStore, tmp_path: Path, name: str
) -> None:
    """In bytes, in key order, readable by any tool."""
    rows = export_file(counts, tmp_path / name)
    table = _read(tmp_path / name)

    assert rows == table.num_rows == 1_001
    assert dict(zip(*table.to_pydict().values(), strict=True)) == dict(counts.read_only().range())


@pytest.mark.spec("SNP-17")
@_FORMATS
def test_a_typed_file_has_the_types_of_the_serdes(
    typed_store: Any, tmp_path: Path, name: str
) -> None:
    """Text and numbers, from the store and from its snapshot; times are timestamps.

    They were int64, so that DuckDB or pandas showed 1372896000000 for the 4th of July 2013.
    """
    snapshot = read_snapshot(write_snapshot(typed_store, tmp_path / "s").path)
    for source in (typed_store, snapshot):
        export_file(source, tmp_path / name, typed=True)

        assert _read(tmp_path / name).to_pylist() == _TYPED_ROWS
        assert export_table(source, typed=True).to_pylist() == _TYPED_ROWS
        assert export_table(source).schema.equals(VERSIONED_ROWS)


@pytest.mark.spec("SNP-17")
def test_a_file_says_what_its_rows_are(rates: BytesVersions) -> None:
    """In the metadata of its schema."""
    (said,) = export_table(rates).schema.metadata.items()

    assert said[0] == b"statestores"
    assert b'"name": "rates"' in said[1]
    assert b'"stream_time_ms": %d' % (rates.stream_time_ms or 0) in said[1]


@pytest.mark.spec("SNP-17")
def test_an_empty_store_exports_an_empty_table(open_store: Any, tmp_path: Path) -> None:
    """With columns."""
    store = open_store(COUNTS)

    assert export_table(store).column_names == ["key", "value"]
    assert export_file(store, tmp_path / "rows.parquet") == 0
    assert import_file(store, tmp_path / "rows.parquet") == 0


@pytest.mark.spec("SNP-17")
def test_a_failed_export_leaves_the_old_file(counts: BytesStore, tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "rows.arrow"
    path.write_bytes(b"old")

    def refuse(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_file(counts, path, progress=refuse)

    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [path.name]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.spec("SNP-17")
def test_values_that_are_not_the_serdes_are_not_exported_as_typed(
    open_store: Any, tmp_path: Path
) -> None:
    """Someone wrote bytes past the serde."""
    store = open_store(TYPED)
    store.put(b"key", b"not eight", 1)
    store.commit({})
    with pytest.raises(SerializationError):
        export_file(store, tmp_path / "rows.arrow", typed=True)

    assert not (tmp_path / "rows.arrow").exists()


def test_a_half_restored_store_is_not_exported(counts: BytesStore, tmp_path: Path) -> None:
    """It would look complete in the file."""
    counts.commit({restore_mark(COUNTS): 1})
    with pytest.raises(StoreMismatchError, match="half restored"):
        export_file(counts, tmp_path / "rows.arrow")
    with pytest.raises(StoreMismatchError, match="half restored"):
        export_table(counts)


def test_formats_that_cannot_be_told_are_refused(counts: BytesStore, tmp_path: Path) -> None:
    """By name or by argument."""
    wrong: Any = "csv"
    with pytest.raises(InvalidArgumentError, match="cannot tell the format"):
        export_file(counts, tmp_path / "rows.csv")
    with pytest.raises(InvalidArgumentError, match="'arrow' or 'parquet'"):
        export_file(counts, tmp_path / "rows.csv", file_format=wrong)
    export_file(counts, tmp_path / "rows.csv", file_format="parquet")

    assert _read(tmp_path / "rows.csv").num_rows == 1_001
    with pytest.raises(StorageError, match="cannot write"):
        export_file(counts, tmp_path / "none" / "rows.arrow")


@pytest.mark.spec("SNP-18")
@_FORMATS
@pytest.mark.parametrize("typed_file", [False, True])
def test_what_was_exported_is_imported(
    typed_store: Any, open_store: Any, tmp_path: Path, name: str, typed_file: bool
) -> None:
    """The file says whether it is typed."""
    export_file(typed_store, tmp_path / name, typed=typed_file)
    copy = typed(open_store(TYPED), TYPED)

    accepted = import_file(copy, tmp_path / name)

    assert accepted == 4
    assert export_table(copy, typed=True).to_pylist() == _TYPED_ROWS
    assert copy.stream_time_ms == 30


@pytest.mark.spec("SNP-18")
@pytest.mark.parametrize("sorted_rows", [1, 7, 100, 100_000])
def test_imported_versions_do_not_make_each_other_late(
    rates: BytesVersions,
    open_store: Any,
    answers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sorted_rows: int,
) -> None:
    """Whatever number of them is sorted at once, and in how many passes."""
    monkeypatch.setattr(file_import, "_SORTED_ROWS", sorted_rows)
    export_file(rates, tmp_path / "rows.arrow")
    copy = open_store(RATES)

    accepted = import_file(copy, tmp_path / "rows.arrow")
    again = import_file(copy, tmp_path / "rows.arrow")

    expected, found = answers(rates), answers(copy)
    del expected["offsets"], expected["position"], found["offsets"], found["position"]
    assert accepted == export_table(rates).num_rows
    assert again <= accepted
    assert found == expected


@pytest.mark.spec("SNP-18")
def test_an_import_into_a_key_value_store_leaves_other_keys(
    counts: BytesStore, open_store: Any, tmp_path: Path
) -> None:
    """It is a merge of puts."""
    export_file(counts, tmp_path / "rows.parquet")
    store = open_store(COUNTS)
    store.put(b"other", b"1")
    store.put(b"key-0001", b"old")
    store.commit({})
    told: list[Progress] = []

    import_file(store, tmp_path / "rows.parquet", progress=told.append)

    assert dict(store.range()) == {**dict(counts.read_only().range()), b"other": b"1"}
    assert told[-1].rows == told[-1].total_rows == 1_001


@pytest.mark.spec("SNP-18")
@_FORMATS
def test_a_file_from_elsewhere_is_taken_as_typed(
    open_store: Any, tmp_path: Path, name: str
) -> None:
    """In any order of rows and columns, with timestamps, without metadata."""
    table = pa.table(
        {
            "valid_from": pa.array([30, 10], pa.timestamp("ms")),
            "value": pa.array([2, 1], pa.int32()),
            "key": ["a", "a"],
        }
    )
    if name.endswith("parquet"):
        pq.write_table(table, tmp_path / name)
    else:
        with (
            pa.OSFile(str(tmp_path / name), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
    store = typed(open_store(TYPED), TYPED)

    assert import_file(store, tmp_path / name) == 2
    assert [(r.value, r.valid_from_ms) for r in store.history("a")] == [(1, 10), (2, 30)]


@pytest.mark.spec("SNP-18")
def test_a_file_of_other_bytes_is_refused(
    typed_store: Any, counts: BytesStore, open_store: Any, tmp_path: Path
) -> None:
    """Bytes of one serde mean nothing to another; typed values may."""
    path = tmp_path / "rows.arrow"
    export_file(typed_store, path)
    other = Versioned("o", history_retention_ms=9, key=utf8, value=json)
    with pytest.raises(StoreMismatchError, match="value is 'int64', expected 'json'"):
        import_file(typed(open_store(other), other), path)
    with pytest.raises(StoreMismatchError, match="kind is 'versioned', expected 'key-value'"):
        import_file(open_store(COUNTS), path)

    export_file(typed_store, path, typed=True)
    copy: Any = typed(open_store(other), other)
    import_file(copy, path)

    assert copy.get("ä").value == 2


def test_what_cannot_be_imported_is_refused(
    counts: BytesStore, open_store: Any, tmp_path: Path
) -> None:
    """No file, no known format, a damaged one, other columns, pending writes."""
    store = open_store(COUNTS)
    path = tmp_path / "rows.arrow"
    with pytest.raises(StoreNotFoundError):
        import_file(store, path)
    path.write_bytes(b"key,value\n")
    with pytest.raises(InvalidArgumentError, match="neither an Arrow IPC file nor a Parquet"):
        import_file(store, path)
    for magic in (b"ARROW1\0\0", b"PAR1"):
        path.write_bytes(magic + b"\0" * 100)
        with pytest.raises(InvalidArgumentError, match="cannot be read as what it seems"):
            import_file(store, path)
    pq.write_table(pa.table({"key": [b"a"]}), path)
    with pytest.raises(InvalidArgumentError, match="expected key, value"):
        import_file(store, path)
    pq.write_table(pa.table({"key": [b"a"], "value": [b"1"]}), path)
    counts.put(b"pending", b"1")
    with pytest.raises(InvalidArgumentError, match="pending"):
        import_file(counts, path)

    assert list(store.range()) == []
