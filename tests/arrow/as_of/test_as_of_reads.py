"""Every question about a small world, of times on each edge, answered as `get` answers it."""

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from statestores.arrow.as_of import reads
from statestores.arrow.as_of.reads import _by_key_and_time, find_as_of
from statestores.arrow.keys.ascending_seeks import AscendingSeeks
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.spi import Durability, Versioned
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores_memory import MemoryEngine

WORLDS = 60
LAST_MS = 7
KEYS = [b"", b"a", b"a\x00", b"b"]
SMALL = Versioned("small", history_retention_ms=4)
LONG = Versioned("long", history_retention_ms=1_000)


def _put(store: Any, dice: random.Random) -> None:
    """Put versions and deletions, late ones among them, at times from the first one."""
    for _ in range(dice.randrange(9)):
        value = None if dice.random() < 0.3 else dice.randbytes(dice.randrange(3))
        store.put(dice.choice(KEYS), value, dice.randrange(LAST_MS))


def _ask_everything(store: ReadOnlyVersionedStore[bytes, bytes], dice: random.Random) -> None:
    """Ask for each key at each time, in any order, with nulls between them."""
    asked = [(key, time_ms) for key in [*KEYS, b"missing"] for time_ms in range(LAST_MS + 1)]
    absent: list[tuple[Any, Any]] = [(None, 0), (b"a", None)]
    questions = dice.sample([*asked, *absent], len(asked) + len(absent))
    keys, times = zip(*questions, strict=True)

    found = find_as_of(store, pa.array(keys, pa.binary()), pa.array(times, pa.int64()))

    records = [
        None if key is None or time_ms is None else store.get(key, time_ms)
        for key, time_ms in questions
    ]
    assert found.values.to_pylist() == [record and record.value for record in records]
    assert found.valid_from.to_pylist() == [record and record.valid_from_ms for record in records]
    assert found.valid_to.to_pylist() == [record and record.valid_to_ms for record in records]


@pytest.mark.spec("VRS-3", "VRS-9")
def test_each_key_at_each_time_is_what_get_finds(subtests: pytest.Subtests) -> None:
    """Starts, ends, deletions, the first moment and the horizon; committed, pending, and both."""
    for seed in range(WORLDS):
        with subtests.test(seed=seed):
            dice = random.Random(seed)
            engine = MemoryEngine.open("unused")
            with open_on_engine(engine, SMALL, durability=Durability.PROCESS_CRASH) as store:
                _put(store, dice)
                store.commit({})
                _ask_everything(store, dice)
                _put(store, dice)
                _ask_everything(store, dice)
                _ask_everything(store.read_only(), dice)
                _ask_everything(store.read_only("read_uncommitted"), dice)


@pytest.mark.spec("VRS-3")
def test_a_store_of_another_author_is_asked_by_keys_and_times() -> None:
    """Nobody here knows its rows, so `get_many` gives the records."""
    engine = MemoryEngine.open("unused")
    with open_on_engine(engine, SMALL, durability=Durability.PROCESS_CRASH) as store:
        store.put_many([b"a", b"a", b"b"], [b"1", b"2", b"3"], [1, 4, 2])

        class Another:
            specification = SMALL

            def get_many(self, keys: Any, times: Any) -> Any:
                return store.get_many(keys, times)

        another: Any = Another()
        found = find_as_of(
            another, pa.array([b"b", b"x", None, b"a", b"a"]), pa.array([9, 9, 9, 3, 4])
        )

    assert found.values.to_pylist() == [b"3", None, None, b"1", b"2"]
    assert found.valid_from.to_pylist() == [2, None, None, 1, 4]
    assert found.valid_to.to_pylist() == [None, None, None, 4, None]


def test_a_version_answers_all_questions_about_it_by_one_seek(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To its first moment; and before the first version of a key nothing is asked twice."""
    seeks: list[bytes] = []

    class Counting(AscendingSeeks):
        def first(self, start: bytes, stop: bytes) -> Any:
            seeks.append(start)
            return super().first(start, stop)

    monkeypatch.setattr(reads, "AscendingSeeks", Counting)
    engine = MemoryEngine.open("unused")
    with open_on_engine(engine, LONG, durability=Durability.PROCESS_CRASH) as store:
        for key in (b"a", b"b"):
            store.put_many([key] * 3, [b"1", b"2", b"3"], [2, 4, 6])
        store.commit({})
        asked = [(key, time_ms) for key in (b"a", b"b") for time_ms in (2, 3, 3, 4, 5, 5)]
        early = [(b"b", time_ms) for time_ms in (0, 1)]
        keys, times = zip(*asked, *early, strict=True)

        found = find_as_of(store, pa.array(keys), pa.array(times))

    expected = [b"1", b"1", b"1", b"2", b"2", b"2"] * 2
    assert found.values.to_pylist() == [*expected, None, None]
    assert len(seeks) == 5


def test_questions_are_in_the_order_of_rows_of_histories(subtests: pytest.Subtests) -> None:
    """Keys ascend and times descend, whether one number can say both or not."""
    for highest, lowest in product(
        (4, MAX_TIME_MS // 3 - 1, MAX_TIME_MS // 3, MAX_TIME_MS), (0, 1)
    ):
        with subtests.test(highest=highest, lowest=lowest):
            rows = [(code, time) for code in range(3) for time in (lowest, 2, 3, highest)]
            random.Random(1).shuffle(rows)
            codes, times = (np.array(column, np.int64) for column in zip(*rows, strict=True))

            order = _by_key_and_time(codes, times)

            assert [rows[place] for place in order.tolist()] == sorted(
                rows, key=lambda row: (row[0], -row[1])
            )


def test_questions_about_one_key_are_in_order_too() -> None:
    """At the same time, and at several."""
    for times in ([5, 5], [0, MAX_TIME_MS, 1]):
        order = _by_key_and_time(np.zeros(len(times), np.int64), np.array(times, np.int64))

        assert [times[place] for place in order.tolist()] == sorted(times, reverse=True)
