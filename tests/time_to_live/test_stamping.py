"""A key-value store without timestamps that becomes one with them."""

from dataclasses import replace
from itertools import count
from time import time_ns
from typing import Any

import pytest

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    StorageError,
    StoreMismatchError,
)
from statestores.semantics import open_on_engine
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.semantics.timestamped import opening as timestamped_opening
from statestores.spi import (
    Capabilities,
    Durability,
    KeyValue,
    TimestampedKeyValue,
    TimestampedValue,
    TopicPartition,
)
from statestores_conformance.subjects.faulty_engine import Fault, KeptOpen
from statestores_memory import MemoryEngine

LOG = TopicPartition("log", 0)
STAMPED = TimestampedKeyValue("store", ttl_ms=10)
ROWS = 25


@pytest.fixture
def engine() -> MemoryEngine:
    """An engine with a plain store of 25 keys, one of them with a value that looks stamped."""
    engine = MemoryEngine.open("unused")
    with open_on_engine(KeptOpen(engine), KeyValue("store")) as store:
        for number in range(ROWS):
            store.put(b"%02d" % number, b"\x00" * 7 + b"\x05old" if number == 3 else b"")
        store.commit({LOG: 7})
    return engine


@pytest.mark.spec("TTL-13", "TTL-9", "TKV-6")
def test_old_values_do_not_expire_until_they_are_put_again(engine: MemoryEngine) -> None:
    """Offsets stay, what is put from now on expires, and there is no way back."""
    with open_on_engine(KeptOpen(engine), STAMPED) as store:
        before = dict(store.range())
        store.put(b"00", b"new", 0)
        store.put(b"now", b"v", 1_000)
        for number in range(100):
            store.put(b"%d" % (1_000 + number), b"v", 1_000)
            store.commit({LOG: 8})
        living = dict(store.range())

        assert len(before) == ROWS
        assert before[b"03"] == TimestampedValue(b"\x00" * 7 + b"\x05old", None)
        assert before[b"00"] == TimestampedValue(b"", None)
        assert b"00" not in living
        assert [living[key] for key in before if key != b"00"] == list(before.values())[1:]
        assert store.committed_offset(LOG) == 8
    with pytest.raises(StoreMismatchError, match="timestamped-key-value"):
        open_on_engine(KeptOpen(engine), KeyValue("store"))


@pytest.mark.spec("TTL-13", "COM-27")
def test_an_interrupted_opening_is_gone_on_with(
    engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever batch fails, no row gets a second header, and none is forgotten."""
    monkeypatch.setattr(timestamped_opening, "_STAMPED_ROWS", 4)
    expected = dict(open_on_engine(KeptOpen(engine), KeyValue("store")).range())
    original = dict(engine.scan(b"\x00"))
    for failing in count(1):
        copy = MemoryEngine.open("unused")
        copy.apply(dict(original), Durability.PROCESS_CRASH)
        faulty = KeptOpen(copy)
        faulty.plan(Fault(call="apply", at=failing))
        try:
            open_on_engine(faulty, STAMPED).close()
            finished = True
        except StorageError:
            finished = False
        with open_on_engine(copy, STAMPED, durability=Durability.PROCESS_CRASH) as store:
            assert {key: stamped.value for key, stamped in store.range()} == expected
            assert {stamped.timestamp_ms for _, stamped in store.range()} == {None}
        if finished:
            break

    assert failing > ROWS // 4


@pytest.mark.spec("TTL-13", "COM-13", "COM-27")
def test_what_else_differs_is_refused_and_nothing_changes(engine: MemoryEngine) -> None:
    """Another name is another store."""
    before = list(engine.scan(b"\x00"))
    with pytest.raises(StoreMismatchError, match="other"):
        open_on_engine(KeptOpen(engine), TimestampedKeyValue("other", ttl_ms=10))

    assert list(engine.scan(b"\x00")) == before


class NotDurable(KeptOpen):
    """An engine that keeps its files, and does not wait for the disk."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # as the engine that it wraps
        """Declare no durable commits."""
        return replace(super().capabilities, persistent=True, durable_commit=False)


@pytest.mark.spec("COM-12", "TTL-13")
@pytest.mark.parametrize("durability", [Durability.POWER_LOSS, "power-loss", "surely"])
def test_an_opening_that_is_refused_has_stamped_nothing(
    engine: MemoryEngine, durability: Any
) -> None:
    """The engine cannot keep the durability, or there is none of that name: the rows were stamped.

    So an opening that raised had made the store another one, and refused its own specification.
    """
    before = dict(engine.scan(b""))
    with pytest.raises((CapabilityNotSupportedError, InvalidArgumentError)):
        open_on_engine(NotDurable(engine), STAMPED, durability=durability)

    assert dict(engine.scan(b"")) == before
    with open_on_engine(KeptOpen(engine), KeyValue("store")) as store:
        assert store.get(b"00") == b""


@pytest.mark.spec("COM-12")
def test_a_durability_may_be_named(engine: MemoryEngine) -> None:
    """As a configuration file does: it is the same one, and refused like it."""
    named: Any = "power-loss"
    with pytest.raises(CapabilityNotSupportedError, match="does not declare durable commits"):
        open_on_engine(NotDurable(engine), KeyValue("store"), durability=named)


@pytest.mark.spec("TTL-4")
def test_the_clock_counts_milliseconds_since_the_epoch() -> None:
    """As whole ones, rounded down."""
    before = time_ns()
    found = wall_clock_ms()
    after = time_ns()

    assert before // 10**6 <= found <= after // 10**6
