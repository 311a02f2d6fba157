"""Serdes that a topology writes by itself, found by whoever opens its state."""

from pathlib import Path

import pyarrow as pa
import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
)
from statestores.processing import (
    LocalTopics,
    Record,
    Topic,
    Topology,
    Windowed,
    run,
    tumbling,
    windowed,
)
from statestores.serdes import serde_by_name
from statestores.serdes.mean_serde import Mean
from statestores.spi import TimestampedValue
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("PRC-91")
@for_each(
    ("name", "values", "rows"),
    [
        (
            "stamped-float64",
            [TimestampedValue(1.5, 7), TimestampedValue(-2.0, 0)],
            [{"value": 1.5, "timestamp_ms": 7}, {"value": -2.0, "timestamp_ms": 0}],
        ),
        (
            "stamped-stamped-utf8",
            [TimestampedValue(TimestampedValue("ü", 2), 1)],
            [{"value": {"value": "ü", "timestamp_ms": 2}, "timestamp_ms": 1}],
        ),
        ("mean", [Mean(1.5, 3)], [{"total": 1.5, "values": 3}]),
        (
            "stamped-mean",
            [TimestampedValue(Mean(0.5, 1), 9)],
            [{"value": {"total": 0.5, "values": 1}, "timestamp_ms": 9}],
        ),
        (
            "windowed-utf8",
            [Windowed("ü", 10, 20), Windowed("", 0, 1)],
            [
                {"key": "ü", "start_ms": 10, "end_ms": 20},
                {"key": "", "start_ms": 0, "end_ms": 1},
            ],
        ),
        (
            "windowed-windowed-int64",
            [Windowed(Windowed(7, 1, 2), 3, 4)],
            [{"key": {"key": 7, "start_ms": 1, "end_ms": 2}, "start_ms": 3, "end_ms": 4}],
        ),
    ],
)
def test_serdes_of_a_topology_are_found_by_name(
    name: str, values: list[object], rows: list[object]
) -> None:
    """Without the topology.

    A state of windows could be opened by the process alone that had run it, or had its modules.
    """
    serde = serde_by_name(name)
    data = [serde.encode(value) for value in values]
    column = pa.chunked_array([pa.array([*data, None], pa.binary()), pa.array([], pa.binary())])
    decoded = serde.decode_array(column)

    assert serde.name == name
    assert [serde.decode(each) for each in data] == values
    assert decoded.to_pylist() == [*rows, None]
    assert decoded.type == serde.arrow_type()
    with pytest.raises(SerializationError):
        serde.decode(b"short")
    with pytest.raises(SerializationError):
        serde.decode_array(pa.array([b"short"], pa.binary()))
    assert serde.encode_array(decoded) == column


@for_each(
    ("name", "column"),
    [
        ("windowed-utf8", pa.array([{"key": None, "start_ms": 1, "end_ms": 2}])),
        ("windowed-utf8", pa.array([{"key": "a", "start_ms": None, "end_ms": 2}])),
        ("windowed-utf8", pa.array([{"key": "a", "start_ms": 1}])),
        ("windowed-utf8", pa.array([{"key": "a", "start_ms": "x", "end_ms": 2}])),
        ("windowed-utf8", pa.array(["a"])),
        ("stamped-utf8", pa.array([{"value": None, "timestamp_ms": 1}])),
        ("stamped-utf8", pa.array([{"value": "a", "timestamp_ms": None}])),
        ("stamped-utf8", pa.array([{"timestamp_ms": 1, "value": "a"}])),
        ("mean", pa.array([{"total": 1.5, "values": None}])),
        ("mean", pa.array([1.5])),
    ],
)
def test_what_is_no_column_of_structs_is_refused(name: str, column: pa.Array) -> None:
    """A part that is missing would make the bytes of another key, or value."""
    with pytest.raises(SerializationError, match=f"the serde '{name}' takes|the serde 'int64'"):
        serde_by_name(name).encode_array(column)


def test_a_part_of_a_column_of_windowed_keys_is_encoded_alone() -> None:
    """A slice has its own rows, and its nulls."""
    serde = windowed(ss.int64)
    keys = [Windowed(1, 2, 3), None, Windowed(-4, 0, 9)]
    rows = [None if each is None else each._asdict() for each in keys]
    column = pa.array([{"key": 7, "start_ms": 8, "end_ms": 9}, *rows], serde.arrow_type())[1:]

    assert serde.encode_array(column).to_pylist() == [
        None if each is None else serde.encode(each) for each in keys
    ]
    assert serde.encode_array(pa.nulls(2)).to_pylist() == [None, None]


def test_what_is_stamped_has_a_serde_that_is_known() -> None:
    """The name inside is the one that is missed."""
    with pytest.raises(InvalidArgumentError, match="registered as 'unknown'"):
        serde_by_name("stamped-unknown")
    assert serde_by_name("stamped-int64") == serde_by_name("stamped-int64")
    assert ss.utf8 == serde_by_name("utf8")


@pytest.mark.spec("PRC-91")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_state_with_rows_by_window_can_be_opened(tmp_path: Path) -> None:
    """A run left a state that nobody could open, itself included: a damaged `statestores.json`.

    Nothing found the serde of windowed keys by its name; a mapping of windows that is kept, a join
    of them by a foreign key, or one with itself has it as the serde of its keys.
    """
    lines = Topic("lines", key=ss.utf8, value=ss.int64)
    kept = ss.KeyValue("kept", key=windowed(ss.utf8), value=ss.int64)
    minutes = ss.Window("minutes", retention_ms=100, window_size_ms=10, key=ss.utf8, value=ss.int64)
    made = Topology("t")
    counts = made.stream(lines).group_by_key().window(tumbling(10)).count(minutes)
    counts.map_values(lambda value: value + 1, kept)
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(lines).append([Record("a", 1, 1), Record("a", 1, 2), Record("b", 1, 15)])
    for _ in range(2):
        run(
            made,
            state=tmp_path / "state",
            topics=tmp_path / "topics",
            until="idle",
            backend="sqlite",
        )
    root = ss.StateRoot.open(tmp_path / "state")
    with ss.open_logged_store(root, "kept", 0) as logged:
        rows = [(key, row.value) for key, row in logged.store.range()]

    assert rows == [(Windowed("a", 0, 10), 3), (Windowed("b", 10, 20), 2)]
