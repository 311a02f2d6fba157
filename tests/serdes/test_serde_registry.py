"""Serdes by name, specifications from their stored form, and what can be pickled."""

import json as standard_json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes import (
    Utf8Serde,
    float64,
    int64,
    int64_sorted,
    json,
    msgpack,
    raw,
    register_serde,
    serde_by_name,
    serde_registry,
    specification_from_description,
    utf8,
)
from statestores.spi import KeyValue, Serde, Session, StoreSpecification, Versioned, Window
from statestores_conformance.many_cases import for_each

BUILT_IN: list[Serde[Any]] = [raw, utf8, int64, int64_sorted, float64, json, msgpack]


@dataclass(frozen=True, slots=True)
class UpperCaseSerde(Utf8Serde):
    """What somebody else may write: text that shouts."""

    name: str = "shout"

    def encode(self, value: str) -> bytes:
        """Return the upper case of *value*."""
        return value.upper().encode()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what a test registers."""
    monkeypatch.setattr(serde_registry, "_registered", dict(serde_registry._registered))
    return iter(())


@pytest.mark.spec("SRD-8", "SRD-22")
@for_each("serde", BUILT_IN)
def test_built_in_serdes_are_found_by_name(serde: Serde[Any]) -> None:
    """Their names are written into stores, and do not change."""
    assert serde_by_name(serde.name) is serde
    assert [each.name for each in BUILT_IN] == [
        "bytes",
        "utf8",
        "int64",
        "int64_sorted",
        "float64",
        "json",
        "msgpack",
    ]


@pytest.mark.spec("SRD-22")
def test_an_unknown_name_lists_the_known_ones() -> None:
    """The message says what could have been meant, and has those that others have registered.

    It failed behind the documentation's own serde of dates, in one process.
    """
    with pytest.raises(
        InvalidArgumentError, match=r"'avro'; known: bytes, (.+, )?float64, int64, "
    ):
        serde_by_name("avro")


@pytest.mark.spec("SRD-22")
def test_a_serde_of_ones_own_is_found_by_name() -> None:
    """Registering an equal one again is not an error."""
    serde = UpperCaseSerde("shout")
    register_serde(serde)
    register_serde(UpperCaseSerde("shout"))

    assert serde_by_name("shout") is serde
    described = KeyValue("words", key=serde).describe()
    assert specification_from_description(described) == KeyValue("words", key=serde)


@pytest.mark.spec("SRD-8", "SRD-22")
def test_a_name_is_given_once() -> None:
    """Another serde under a known name would read stored bytes as something else."""
    with pytest.raises(InvalidArgumentError, match="another serde is registered as 'utf8'"):
        register_serde(UpperCaseSerde("utf8"))

    assert serde_by_name("utf8") is utf8


@pytest.mark.spec("SRD-22")
@for_each("name", ["", None, 5])
def test_a_serde_needs_a_name(name: Any) -> None:
    """It is what a store writes down."""
    with pytest.raises(InvalidTypeError, match="name"):
        register_serde(UpperCaseSerde(name))


@pytest.mark.spec("SRD-23")
@for_each(
    "specification",
    [
        KeyValue("counts"),
        KeyValue("counts", key=utf8),
        KeyValue("counts", value=json, partitioner="mine"),
        KeyValue("counts", key=int64_sorted, value=float64),
        Versioned("rates", history_retention_ms=0),
        Versioned("rates", history_retention_ms=7, key=int64, value=msgpack),
        Window("hits", retention_ms=7, window_size_ms=5),
        Window("hits", retention_ms=7, window_size_ms=7, retain_duplicates=True, key=utf8),
        Session("visits", retention_ms=7, value=json),
    ],
)
def test_descriptions_lead_back(specification: StoreSpecification[Any, Any]) -> None:
    """Through JSON too, which is how they are stored."""
    described = standard_json.loads(standard_json.dumps(specification.describe()))

    assert specification_from_description(described) == specification
    assert specification_from_description(described).describe() == specification.describe()


@pytest.mark.spec("SRD-10", "SRD-23")
def test_the_serde_of_bytes_is_none() -> None:
    """A specification that names it describes itself as one without a serde does."""
    described = KeyValue("counts", key=raw, value=raw).describe()

    assert described == KeyValue("counts").describe()
    assert specification_from_description(described) == KeyValue("counts")


KEY_VALUE = KeyValue("counts").describe()
VERSIONED = Versioned("rates", history_retention_ms=5).describe()


@pytest.mark.spec("SRD-23")
@for_each(
    ("description", "words"),
    [
        ({}, "None; known: key-value, "),
        (KEY_VALUE | {"kind": "table"}, "'table'; known: key-value, "),
        (KEY_VALUE | {"kind": "window"}, "missing: retain_duplicates, retention_ms, window"),
        (KEY_VALUE | {"kind": "session"}, "missing: retention_ms"),
        (KEY_VALUE | {"kind": 5}, "5; known"),
        (KEY_VALUE | {"ttl_ms": 5}, "missing: none; unknown: 'ttl_ms'"),
        (KEY_VALUE | {5: "x"}, "unknown: 5"),
        (KEY_VALUE | {"history_retention_ms": 5}, "unknown: 'history_retention_ms'"),
        (VERSIONED | {"kind": "key-value"}, "unknown: 'history_retention_ms'"),
        (KEY_VALUE | {"kind": "versioned"}, "missing: history_retention_ms"),
        ({"kind": "key-value", "name": "x"}, "missing: key, partitioner, value"),
        (KEY_VALUE | {"key": "avro"}, "'avro'"),
        (KEY_VALUE | {"key": None}, "'key'"),
        (KEY_VALUE | {"name": "a/b"}, "a/b"),
        (VERSIONED | {"history_retention_ms": "5"}, "of type int, got '5'"),
        (VERSIONED | {"history_retention_ms": True}, "of type int, got True"),
        (VERSIONED | {"history_retention_ms": -1}, "-1"),
    ],
)
def test_other_descriptions_are_refused(description: Mapping[str, object], words: str) -> None:
    """Nothing is guessed, and the message says what is wrong."""
    with pytest.raises(InvalidArgumentError) as caught:
        specification_from_description(description)

    assert words in str(caught.value)


@pytest.mark.spec("SRD-23")
def test_specifications_can_be_sent_to_another_process() -> None:
    """Spark does it; what arrives is equal and works."""
    for serde in BUILT_IN:
        specification = KeyValue("counts", key=serde)

        arrived = pickle.loads(pickle.dumps(specification))  # noqa: S301  # made one line above
        assert arrived == specification
        assert hash(arrived) == hash(specification)
