"""The serdes that Kafka's clients have, bit for bit; see fixtures/README.md."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import statestores as ss
from statestores.errors import SerializationError
from statestores.serdes import list_of, serde_by_name, specification_from_description, uuid
from statestores.spi.serde import Serde
from statestores_conformance.many_cases import for_each

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "fixtures" / "kafka-serdes.jsonl").read_text().splitlines()
]


INNER: list[Serde[Any]] = [ss.utf8, ss.int64, list_of(ss.int64)]


def value_of(serde: str, value: Any) -> Any:
    """Return what the JSON of a vector stands for."""
    if value is None:
        return None
    if serde.startswith("list:"):
        return [value_of(serde.removeprefix("list:"), each) for each in value]
    return {"uuid": UUID, "float64": float}.get(serde, lambda it: it)(value)


@pytest.mark.spec("SRD-11", "SRD-12", "SRD-14", "SRD-30", "SRD-31")
@for_each("vector", VECTORS)
def test_bytes_are_those_of_kafkas_classes(vector: dict[str, Any]) -> None:
    """And they are read back, alone and as a column."""
    serde, data = serde_by_name(vector["serde"]), bytes.fromhex(vector["bytes"])
    value = value_of(vector["serde"], vector["value"])

    assert serde.encode(value) == data
    assert repr(serde.decode(data)) == repr(value)
    column = serde.decode_array(pa.array([data, None]))
    assert column.type == serde.arrow_type()
    column.validate(full=True)
    assert serde.encode_array(column).to_pylist() == [data, None]
    assert serde.encode_array(column.slice(1)).to_pylist() == [None]


@pytest.mark.spec("SRD-1", "SRD-3", "SRD-31")
@given(
    st.sampled_from(INNER).flatmap(
        lambda inner: st.tuples(
            st.just(list_of(inner)),
            st.lists(
                st.none()
                | {
                    "utf8": st.text(max_size=3),
                    "int64": st.integers(-5, 5),
                    "list:int64": st.lists(st.integers(-5, 5) | st.none(), max_size=2),
                }[inner.name]
            ),
        )
    ),
    st.data(),
)
def test_a_list_is_read_whole_or_refused(case: tuple[Serde[Any], Any], data: st.DataObject) -> None:
    """One that was cut, or has something behind it, is no shorter or other list."""
    serde, value = case
    encoded = serde.encode(value)

    assert serde.decode(encoded) == value
    for damaged in (encoded[: data.draw(st.integers(0, len(encoded) - 1))], encoded + b"\0"):
        with pytest.raises(SerializationError, match="list:"):
            serde.decode(damaged)


@pytest.mark.spec("SRD-3", "SRD-30", "SRD-31")
@for_each(
    ("serde", "data"),
    [
        ("uuid", b"F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"),  # another form would be another key
        ("uuid", b"f81d4fae7dec11d0a76500a0c91e6bf6"),
        ("uuid", b"\xff" * 36),
        ("list:int64", bytes.fromhex("0100000000")),
        ("list:utf8", bytes.fromhex("0000000000")),
        ("list:utf8", bytes.fromhex("017fffffff")),
        ("list:utf8", bytes.fromhex("0100000001fffffffe")),
        ("list:int64", bytes.fromhex("00000000020000000100000000000000020000")),
        ("list:int64", bytes.fromhex("00ffffffff00000000")),
        ("list:utf8", bytes.fromhex("010000000100000001ff")),
    ],
)
def test_what_kafka_does_not_write_is_refused(serde: str, data: bytes) -> None:
    """Alone and in a column."""
    with pytest.raises(SerializationError, match="cannot read"):
        serde_by_name(serde).decode(data)
    with pytest.raises(SerializationError, match="cannot read"):
        serde_by_name(serde).decode_array(pa.array([data]))


@pytest.mark.spec("SRD-2", "SRD-30", "SRD-31")
def test_other_values_are_refused() -> None:
    """A text is no UUID, a tuple no list; columns of other types are refused."""
    mistakes: tuple[tuple[Serde[Any], Any], ...] = (
        (uuid, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        (list_of(ss.utf8), ("a",)),
        (list_of(ss.utf8), [1]),
    )
    for serde, value in mistakes:
        with pytest.raises(SerializationError):
            serde.encode(value)
        with pytest.raises(SerializationError, match="cast it first"):
            serde.encode_array(pa.array([1.5]))


@pytest.mark.spec("SRD-7", "SRD-30")
@given(st.uuids(), st.uuids())
def test_uuids_sort_as_their_bytes(first: UUID, second: UUID) -> None:
    """So ranges of keys are ranges of UUIDs."""
    assert (first < second) == (uuid.encode(first) < uuid.encode(second))


@pytest.mark.spec("SRD-22", "SRD-23")
def test_a_store_remembers_lists_by_name(tmp_path: Path) -> None:
    """Whoever opens it by what it says of itself finds the serdes."""
    tags = ss.KeyValue("tags", key=uuid, value=list_of(ss.utf8))
    key = UUID(int=7)
    with ss.open_store(tmp_path / "tags", tags, backend="sqlite") as store:
        store.put(key, ["a", None])
        store.commit({})

    assert specification_from_description(tags.describe()) == tags
    with ss.open_store(tmp_path / "tags", tags) as store:
        assert store.get(key) == ["a", None]
