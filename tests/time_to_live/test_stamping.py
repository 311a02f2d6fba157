"""A key-value store without timestamps that becomes one with them."""

from itertools import count

import pytest

from statestores.errors import StorageError, StoreMismatchError
from statestores.semantics import open_on_engine
from statestores.semantics.timestamped import opening as timestamped_opening
from statestores.spi import (
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
