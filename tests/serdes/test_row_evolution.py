"""Schemas of rows that change: which of them read what is there, and what stores do with them."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_schemas import schemas, values_of

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.errors import SerializationError, StoreMismatchError
from statestores.serdes import list_of
from statestores.serdes.rows import RowSerde, row, row_sorted
from statestores.serdes.rows.merging import merged
from statestores.serdes.rows.schema import Field, StructType

OLD = row("id: int32 not null, ratio: float, tags: list<struct<a: int8>>")
NEW = row(
    "id: int64 not null, ratio: double, tags: list<struct<a: int16, b: string>>, "
    "price: decimal128(9, 2)"
)
VALUE = {"id": 1, "ratio": 0.5, "tags": [{"a": 7}, None]}
SAME = {"id": 1, "ratio": 0.5, "tags": [{"a": 7, "b": None}, None], "price": None}


@pytest.mark.spec("SRD-40", "SRD-6")
def test_a_later_schema_reads_the_rows_of_an_earlier_one() -> None:
    """With nulls for what is new, and one by one as in a column, where both are mixed."""
    later = {"id": 1 << 40, "ratio": 0.1, "tags": [{"a": 1, "b": "x"}], "price": None}
    newer = NEW.encode(later)
    written = [OLD.encode(VALUE), newer, None, OLD.encode(VALUE)]

    assert NEW.why_unreadable(OLD.name) is None
    assert [each and NEW.decode(each) for each in written] == [SAME, later, None, SAME]
    assert NEW.decode_array(pa.array(written)).to_pylist() == [SAME, later, None, SAME]
    with pytest.raises(SerializationError, match="has 4 fields, and 3 in the schema"):
        OLD.decode(newer)


@pytest.mark.spec("SRD-40")
@given(st.data())
def test_what_evolves_reads_every_row(data: st.DataObject) -> None:
    """Grown by what another schema has, at any depth: rows that were there read as the same."""
    old, other = data.draw(schemas()), data.draw(schemas())
    names = {field.name.lower() for field in old.fields}
    news = [field for field in other.fields if field.name.lower() not in names]
    grown, _ = merged(old, StructType((*old.fields, *news)))
    rows = data.draw(st.lists(values_of(old), max_size=3))

    column = RowSerde(grown).decode_array(
        RowSerde(old).encode_array(pa.array(rows, RowSerde(old).arrow_type()))
    )

    added = {field.name: None for field in grown.fields[len(old.fields) :]}
    assert RowSerde(grown).why_unreadable(RowSerde(old).name) is None
    assert [RowSerde(grown).decode(RowSerde(old).encode(each)) for each in rows] == [
        {**each, **added} for each in rows
    ]
    assert column.equals(pa.array([{**each, **added} for each in rows], column.type))


@pytest.mark.spec("SRD-40")
def test_what_has_not_evolved_is_refused_by_its_field(subtests: pytest.Subtests) -> None:
    """The other way round would be wrong values, or rows that nobody can read."""
    for old, new, words in (
        ("a: int64, b: int8", "a: int64", "the stored one has the field 'b', which is missing"),
        ("a: int64", "b: int64", "the stored one has the field 'a', which is missing"),
        ("a: int64", "a: int64, b: int8 not null", "the new field 'b' has to be nullable"),
        ("a: int64", "b: int8, a: int64", "'b' comes where 'a' was"),
        ("a: int64", "a: int32", "'a' is int64 there and int32 here"),
        ("a: int64", "a: double", "'a' is int64 there and double here"),
        ("a: double", "a: float", "'a' is double there and float here"),
        ("a: decimal128(9, 2)", "a: decimal128(9, 3)", "'a' is decimal128(9, 2) there"),
        ("a: int64", "a: int64 not null", "'a' may be null there and not here"),
        ("s: struct<a: int8>", "s: struct<b: int8>", "the field 's.a', which is missing"),
        ("l: list<struct<a: int8>>", "l: list<struct<a: string>>", "'l.element.a' is int8 there"),
        ("m: map<string, int8>", "m: map<string, int8 not null>", "'m' of maps may be null there"),
        ("m: map<int8, int8>", "m: map<string, int8>", "'m.key' is int8 there and string here"),
        ("t: timestamp[us]", "t: timestamp[us, tz=UTC]", "'t' is timestamp[us] there"),
    ):
        with subtests.test(words):
            why = row(new).why_unreadable(row(old).name)

            assert why is not None
            assert words in why


@pytest.mark.spec("SRD-39", "COM-13")
def test_a_store_goes_on_with_a_later_schema(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """It remembers the later one, and refuses the earlier from then on, and any other serde."""
    for backend in ("rocksdb", "sqlite"):
        with subtests.test(backend):
            check_a_later_schema(tmp_path / backend, backend)


def check_a_later_schema(path: Path, backend: str) -> None:
    """Accept a store that goes on with one."""

    def opened(value: Any) -> Any:
        specification = ss.KeyValue("s", key=ss.utf8, value=value)
        return ss.open_store(path, specification, backend=backend)

    with opened(OLD) as store:
        store.put("a", VALUE)
        store.commit({})
    with opened(NEW) as store:
        assert store.get("a") == SAME
        store.put("b", SAME)
        store.commit({})

    with pytest.raises(StoreMismatchError, match="has the field 'price', which is missing"):
        opened(OLD)
    with pytest.raises(StoreMismatchError, match="value is 'row<"):
        opened(ss.json)
    with opened(NEW) as store:
        assert dict(store.range()) == {"a": SAME, "b": SAME}


@pytest.mark.spec("SRD-39")
def test_a_logged_store_goes_on_with_a_later_schema(tmp_path: Path) -> None:
    """The root knows it first; snapshots and frames of before restore, verify and are read."""
    root = ss.StateRoot.create(tmp_path / "root")
    old = ss.TimestampedKeyValue("s", key=row_sorted("k: string"), value=OLD)
    new = ss.TimestampedKeyValue("s", key=row_sorted("k: string"), value=NEW)
    root.add_store(old, partitions=1)
    with ss.open_logged_store(root, old) as logged:
        logged.store.put({"k": "a"}, VALUE, 5)
        logged.commit({})
        logged.snapshot()
        logged.store.put({"k": "b"}, VALUE, 6)
        logged.commit({})
    for lost in ("engine", "engine.json"):  # the disk is gone, and all of it is restored
        shutil.rmtree(tmp_path / "root" / "s" / "0" / lost, ignore_errors=True)
        (tmp_path / "root" / "s" / "0" / lost).unlink(missing_ok=True)

    with ss.open_logged_store(tmp_path / "root", new) as logged:
        assert [value.value for _, value in logged.store.range()] == [SAME, SAME]
        assert logged.snapshot() is not None
    described = ss.StateRoot.open(tmp_path / "root").store("s").specification.describe()

    assert described["value"] == NEW.name
    with pytest.raises(StoreMismatchError, match="which is missing"):
        ss.open_logged_store(tmp_path / "root", old)
    with pytest.raises(StoreMismatchError, match="key is 'row_sorted<"):
        ss.open_logged_store(
            tmp_path / "root",
            ss.TimestampedKeyValue("s", key=row_sorted("k: string, l: string"), value=NEW),
        )


@pytest.mark.spec("SRD-39")
def test_one_content_is_one_snapshot_whatever_the_schema(tmp_path: Path) -> None:
    """A snapshot at the offset of one with the earlier schema was called other content."""
    partition = ss.TopicPartition("t", 0)
    for value in (OLD, NEW):
        specification = ss.KeyValue("s", key=ss.utf8, value=value)
        with ss.open_store(tmp_path / "s", specification, backend="rocksdb") as store:
            store.commit({partition: 4})
            info = write_snapshot(store, tmp_path / "snapshots", partition=partition)
        assert info.offset == 4

    assert len(list((tmp_path / "snapshots").iterdir())) == 1


@pytest.mark.spec("SRD-39")
def test_lists_of_rows_evolve_with_them() -> None:
    """The name of a list of rows has the schema, too."""
    assert list_of(NEW).why_unreadable(list_of(OLD).name) is None
    assert "which is missing" in str(list_of(OLD).why_unreadable(list_of(NEW).name))
    assert list_of(ss.utf8).why_unreadable("list:int64") == "is 'list:int64', expected 'list:utf8'"


def test_a_field_keeps_its_place_when_a_schema_is_merged() -> None:
    """New fields come last, whatever their place in the column; narrower types are taken."""
    found, news = merged(
        row("a: int64 not null, s: struct<x: int8>").schema,
        row("n: string not null, a: int16, s: struct<y: bool, x: int32>").schema,
    )

    assert found == StructType(
        (
            *row("a: int64 not null, s: struct<x: int32, y: bool>").schema.fields,
            Field("n", row("n: string").schema.fields[0].type, nullable=True),
        )
    )
    assert len(news) == 3
