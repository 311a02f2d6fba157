"""Serdes that a topology writes by itself, found by whoever opens its state."""

import pyarrow as pa
import pytest

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    SerializationError,
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
    with pytest.raises(CapabilityNotSupportedError, match="encode value by value"):
        serde.encode_array(pa.array([]))


def test_what_is_stamped_has_a_serde_that_is_known() -> None:
    """The name inside is the one that is missed."""
    with pytest.raises(InvalidArgumentError, match="registered as 'unknown'"):
        serde_by_name("stamped-unknown")
    assert serde_by_name("stamped-int64") == serde_by_name("stamped-int64")
    assert ss.utf8 == serde_by_name("utf8")
