"""What is special about the memory backend: nothing is shared, and views cost only when written."""

import random
import threading
from pathlib import Path

import pytest

from statestores.errors import InvalidOptionError, InvalidTypeError, StoreClosedError
from statestores.spi import Durability
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine
from statestores_memory.content import Content

PROCESS_CRASH = Durability.PROCESS_CRASH
SEED = 20130704


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine.open("unused")


def test_each_opening_is_a_store_of_its_own(tmp_path: Path) -> None:
    """Two openings of one path share nothing, take no lock and write nothing."""
    one = MemoryEngine.open(tmp_path)
    other = MemoryEngine.open(tmp_path)
    one.apply({b"k": b"one"}, PROCESS_CRASH)

    assert other.get(b"k") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("ENG-13")
def test_every_option_is_unknown() -> None:
    """There is nothing to set, and the message says so."""
    with pytest.raises(InvalidOptionError, match="unknown option 'path'; known: none"):
        MemoryEngine.open("unused", {"path": "x"})


def test_a_commit_is_as_durable_as_the_process(engine: MemoryEngine) -> None:
    """An engine that is not persistent takes either durability."""
    engine.apply({b"k": b"v"}, Durability.POWER_LOSS)

    assert engine.get(b"k") == b"v"


def test_content_is_changed_in_place_while_nobody_shares_it(engine: MemoryEngine) -> None:
    """Without views a batch copies nothing."""
    content = engine._content
    engine.apply({b"k": b"v"}, PROCESS_CRASH)

    assert engine._content is content


def test_content_is_copied_once_for_a_view(engine: MemoryEngine) -> None:
    """The first batch after a snapshot copies, the next one finds the copy unshared."""
    engine.apply({b"k": b"1"}, PROCESS_CRASH)
    snapshot = engine.snapshot()
    shared = engine._content
    engine.apply({b"k": b"2"}, PROCESS_CRASH)
    copy = engine._content
    engine.apply({b"k": b"3"}, PROCESS_CRASH)

    assert copy is not shared
    assert engine._content is copy
    assert (snapshot.get(b"k"), engine.get(b"k")) == (b"1", b"3")


def test_a_dropped_iterator_costs_no_copy(engine: MemoryEngine) -> None:
    """Nobody has to close an iterator."""
    content = engine._content
    iterator = engine.scan(b"")
    del iterator
    engine.apply({b"k": b"v"}, PROCESS_CRASH)

    assert engine._content is content


@pytest.mark.parametrize("batch", [{b"a": b"1", "b": b"2"}, {b"a": b"1", b"b": "2"}])
def test_a_batch_of_other_types_changes_nothing(
    engine: MemoryEngine, batch: dict[bytes, bytes]
) -> None:
    """Text among the bytes is refused before the first change."""
    with pytest.raises(InvalidTypeError, match="must be bytes"):
        engine.apply(batch, PROCESS_CRASH)

    assert list(engine.scan(b"")) == []


def test_an_iterator_that_has_run_out_tells_of_the_closed_engine(engine: MemoryEngine) -> None:
    """Also an iterator over nothing does not end as if all were well."""
    iterator = engine.scan(b"")
    engine.close()

    with pytest.raises(StoreClosedError):
        next(iterator)


@for_each("size", [3, 40, 400])
def test_content_keeps_its_keys_sorted(size: int) -> None:
    """Few insertions and many take different ways to the same order."""
    chance = random.Random(SEED)
    content = Content([], {})
    model: dict[bytes, bytes] = {}
    for _ in range(200):
        batch = {
            chance.randbytes(chance.randrange(1, 3)): chance.choice([None, b"v", b"w"])
            for _ in range(chance.randrange(size))
        }
        content.update(batch)
        for key, value in batch.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value

        assert content.values == model
        assert content.keys == sorted(model)


@pytest.mark.spec("ENG-11")
def test_readers_never_see_half_a_batch(engine: MemoryEngine) -> None:
    """Four threads read while one applies batches that write one value to every key."""
    keys = [b"%03d" % number for number in range(200)]
    engine.apply(dict.fromkeys(keys, b"0"), PROCESS_CRASH)
    done = threading.Event()
    mixtures: list[object] = []

    def read() -> None:
        while not done.is_set():
            with engine.snapshot() as snapshot:
                seen = (
                    {value for _, value in engine.scan(b"", reverse=True)},
                    set(engine.get_many(keys)),
                    {snapshot.get(keys[0]), *(value for _, value in snapshot.scan(b""))},
                )
                mixtures.extend(values for values in seen if len(values) != 1)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(100):
        engine.apply(dict.fromkeys(keys, b"%d" % number), PROCESS_CRASH)
    done.set()
    for reader in readers:
        reader.join()

    assert mixtures == []
