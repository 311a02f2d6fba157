"""What a store writes down about itself when it is new, and how durably."""

from types import SimpleNamespace
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StoreMismatchError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.self_description import claim, read_description
from statestores.semantics.rows.layout import SPECIFICATION_ROW
from statestores.spi import Capabilities, Durability, StoreSpecification, WriteBatch
from statestores_conformance.many_cases import for_each
from statestores_memory.engine import MemoryEngine

CRASH, LOSS = Durability.PROCESS_CRASH, Durability.POWER_LOSS


class _Engine(MemoryEngine):
    """An engine that promises durable commits or does not, and remembers what it was asked for."""

    asked: list[Durability]

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self.asked.append(durability)
        super().apply(batch, CRASH)


class _DurableEngine(_Engine):
    capabilities = Capabilities(durable_commit=True)


@pytest.mark.spec("LAY-23")
@for_each(("engine_class", "asked"), [(_Engine, CRASH), (_DurableEngine, LOSS)])
def test_a_new_store_waits_for_the_disk_where_that_can_be(
    engine_class: type[_Engine], asked: Durability
) -> None:
    """Whatever is said of its commits: one that is found empty later has lost its files."""
    engine = engine_class.open("")
    engine.asked = []
    claim(engine, ss.KeyValue("s"), CRASH)

    assert engine.asked == [asked]
    engine.close()


@pytest.mark.spec("COM-13")
def test_a_store_that_is_opened_again_writes_nothing() -> None:
    """Each opening would be a write, of which a full disk or a read-only one has none to give."""
    engine = _Engine.open("")
    engine.asked = []
    claim(engine, ss.KeyValue("s"), CRASH)
    claim(engine, ss.KeyValue("s"), CRASH)

    assert engine.asked == [CRASH]
    engine.close()


@pytest.mark.spec("COM-13")
def test_the_description_is_compact_and_in_order() -> None:
    """The same store has the same bytes, whoever wrote it and wherever."""
    engine = _Engine.open("")
    engine.asked = []
    claim(engine, ss.TimestampedKeyValue("s", key=ss.utf8, value=_named("Zähler")), CRASH)

    assert (
        engine.get(SPECIFICATION_ROW)
        == (
            '{"key":"utf8","kind":"timestamped-key-value","name":"s","partitioner":"murmur2",'
            '"ttl_clock":"event","ttl_ms":0,"value":"Zähler"}'
        ).encode()
    )
    engine.close()


def _named(name: str) -> Any:
    """Return a serde of that name."""
    return SimpleNamespace(name=name, sorted=False, encode=bytes, decode=bytes)


@pytest.mark.spec("COM-14")
@for_each(
    ("other", "difference"),
    [
        (ss.KeyValue("t"), "name is 's', expected 't'"),
        (ss.KeyValue("s", value=ss.int64), "value is 'bytes', expected 'int64'"),
        (ss.KeyValue("s", key=ss.utf8), "key is 'bytes', expected 'utf8'"),
        (ss.Versioned("s", history_retention_ms=1), "kind is 'key-value', expected 'versioned'"),
    ],
)
def test_a_store_is_opened_as_what_it_is(
    other: StoreSpecification[Any, Any], difference: str
) -> None:
    """The error says in what it differs, and what is there stays."""
    engine = MemoryEngine.open("")
    claim(engine, ss.KeyValue("s"), CRASH)
    before = read_description(engine)
    with pytest.raises(StoreMismatchError, match=difference):
        claim(engine, other, CRASH)

    assert read_description(engine) == before == ss.KeyValue("s").describe()
    engine.close()


@pytest.mark.spec("COM-13")
@for_each("key", [b"\x00", b"\x00a", b"a"])
def test_an_engine_with_any_row_of_somebody_else_is_no_new_store(key: bytes) -> None:
    """It would be written into."""
    engine = MemoryEngine.open("")
    engine.apply({key: b""}, CRASH)
    with pytest.raises(StoreMismatchError, match="holds data, but no statestores store"):
        open_on_engine(engine, ss.KeyValue("s"))
    engine.close()
