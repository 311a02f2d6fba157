"""Batches: all or nothing, visible immediately, in order."""

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import pytest

from statestores.errors import StateStoreError
from statestores.spi import Durability, Engine
from statestores_conformance.engine.interruption import home_of, interrupt
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    durability_of,
    pairs_of,
)

_MANY = 5_000
_MOST_LINES = 300
"""An engine that takes more of its own lines for a batch of four is interrupted at so many."""


class BrokenBatch(Mapping[bytes, bytes | None]):
    """A batch that fails while it is being read, after *good* of its changes."""

    def __init__(self, changes: Mapping[bytes, bytes | None], good: int) -> None:
        self._changes = changes
        self._good = good

    def __getitem__(self, key: bytes) -> bytes | None:
        return self._changes[key]

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[bytes]:
        for number, key in enumerate(self._changes):
            if number == self._good:
                raise BrokenBatchError(f"the batch breaks at change {number}, as it should")
            yield key


class BrokenBatchError(Exception):
    """What a `BrokenBatch` raises; no engine knows it."""


class EngineBatchTests(EngineFixtures):
    """What a batch does, and when it becomes visible."""

    @pytest.mark.spec("ENG-7")
    def test_a_batch_puts_and_deletes_together(self, engine: Engine) -> None:
        """Puts, overwriting puts and deletions of one batch all take effect.

        Also of many, which an engine may write down in another way.
        """
        engine.apply({b"a": b"1", b"b": b"1"}, Durability.PROCESS_CRASH)
        engine.apply({b"a": None, b"b": b"2", b"c": b"2"}, Durability.PROCESS_CRASH)

        assert pairs_of(engine) == [(b"b", b"2"), (b"c", b"2")]
        many = {b"%04d" % number: b"%d" % (number % 3) for number in range(_MANY)}
        engine.apply(dict(many), Durability.PROCESS_CRASH)
        mixed = {key: value if value != b"1" else None for key, value in reversed(many.items())}
        engine.apply(dict(mixed), Durability.PROCESS_CRASH)
        kept = [(key, value) for key, value in many.items() if value != b"1"]

        assert pairs_of(engine) == [*kept, (b"b", b"2"), (b"c", b"2")]

    @pytest.mark.spec("ENG-7", "ENG-24")
    def test_a_batch_deletes_what_it_names_and_nothing_in_between(self, engine: Engine) -> None:
        """However many, and however close together: they are no range."""
        keys = [b"%04d" % number for number in range(_MANY)]
        engine.apply(dict.fromkeys(keys, b"v"), Durability.PROCESS_CRASH)
        engine.apply(dict.fromkeys(key + b"+" for key in keys), Durability.PROCESS_CRASH)
        engine.apply(dict.fromkeys(keys[::2]), Durability.PROCESS_CRASH)

        assert [key for key, _ in engine.scan(b"")] == keys[1::2]

    @pytest.mark.spec("ENG-8")
    def test_a_batch_is_seen_by_every_read_when_apply_returns(self, engine: Engine) -> None:
        """Point reads, seeks, scans and new snapshots see the batch immediately."""
        for number in range(50):
            value = b"%d" % number
            engine.apply({b"k": value}, Durability.PROCESS_CRASH)
            with engine.snapshot() as snapshot:
                seen = [engine.get(b"k"), *engine.get_many([b"k"]), snapshot.get(b"k")]

            assert seen == [value] * 3
            assert engine.first(b"") == engine.last(b"") == (b"k", value)
            assert pairs_of(engine) == [(b"k", value)]

    @pytest.mark.spec("ENG-23")
    def test_an_empty_batch_is_not_an_error(self, engine: Engine) -> None:
        """Nothing to apply: nothing changes, at every durability that the engine has."""
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        engine.apply({}, Durability.PROCESS_CRASH)
        engine.apply({}, durability_of(engine))

        assert pairs_of(engine) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-24")
    def test_deleting_a_missing_key_is_not_an_error(self, engine: Engine) -> None:
        """The deletion has no effect, but the rest of its batch does."""
        engine.apply({b"missing": None, b"k": b"v"}, Durability.PROCESS_CRASH)
        engine.apply({b"missing": None}, Durability.PROCESS_CRASH)

        assert pairs_of(engine) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-7")
    def test_a_deleted_key_can_be_put_again(self, engine: Engine) -> None:
        """A deletion is not remembered against the key."""
        for value in (b"1", None, b"2", None, b"3"):
            engine.apply({b"k": value}, Durability.PROCESS_CRASH)

            assert engine.get(b"k") == value

    @pytest.mark.spec("ENG-7")
    def test_a_batch_belongs_to_its_caller_again(self, engine: Engine) -> None:
        """Changing the mapping after `apply` changes nothing in the engine."""
        batch: dict[bytes, bytes | None] = {b"a": b"1"}
        engine.apply(batch, Durability.PROCESS_CRASH)
        batch[b"a"] = b"changed"
        batch[b"b"] = b"added"

        assert pairs_of(engine) == [(b"a", b"1")]

    @pytest.mark.spec("ENG-7")
    def test_any_mapping_is_a_batch(self, engine: Engine) -> None:
        """A batch need not be a ``dict``."""
        engine.apply(BrokenBatch({b"a": b"1", b"b": None}, good=2), Durability.PROCESS_CRASH)

        assert pairs_of(engine) == [(b"a", b"1")]

    @pytest.mark.spec("ENG-7")
    def test_a_batch_may_be_large(self, engine: Engine) -> None:
        """Twenty thousand changes are one batch like any other."""
        pairs = [(b"%06d" % number, b"v" * 100) for number in range(20_000)]
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)

        assert pairs_of(engine) == pairs

    @pytest.mark.spec("ENG-7")
    def test_any_split_of_a_batch_gives_the_same_content(self, engines: Engines) -> None:
        """One batch of many keys and as many batches of one key give the same content."""
        changes = {key: key[:3] for key in adversarial_keys.KEYS}
        whole, split = engines.open("whole"), engines.open("split")
        whole.apply(changes, Durability.PROCESS_CRASH)
        for key, value in changes.items():
            split.apply({key: value}, Durability.PROCESS_CRASH)

        assert pairs_of(split) == pairs_of(whole)

    @pytest.mark.spec("ENG-16")
    def test_a_batch_that_fails_leaves_nothing(self, engines: Engines) -> None:
        """When `apply` raises, no read sees any part of the batch, and the engine goes on."""
        for good, name in enumerate(("at-once", "half-way", "late")):
            engine = engines.open(name)
            engine.apply({b"a": b"before", b"b": b"before"}, Durability.PROCESS_CRASH)
            broken = BrokenBatch({b"a": b"after", b"b": None, b"c": b"after"}, good)
            with pytest.raises(BrokenBatchError):
                engine.apply(broken, Durability.PROCESS_CRASH)
            content = pairs_of(engine)
            engine.apply({b"d": b"later"}, Durability.PROCESS_CRASH)

            assert content == [(b"a", b"before"), (b"b", b"before")], name
            assert pairs_of(engine) == [*content, (b"d", b"later")], name

    @pytest.mark.spec("ENG-7", "ENG-8")
    def test_an_interrupt_leaves_a_batch_whole_or_absent(self, engine: Engine) -> None:
        """Ctrl-C in the engine's own code: every read sees all of the batch, or nothing of it.

        And the engine goes on: a service may catch the interrupt, roll back and commit again. One
        had left a closed iterator behind, and ranges found their first row in it ever after.
        """
        before: dict[bytes, bytes | None] = {b"a": b"1", b"b": b"1", b"c": None, b"d": None}
        batch = {b"a": None, b"b": b"2", b"c": b"2", b"d": b"2"}
        states = {1: [(b"a", b"1"), (b"b", b"1")], 2: [(key, b"2") for key in (b"b", b"c", b"d")]}
        home = home_of(engine)
        # Whichever read is the first one after it: another might put right what it left.
        for line, end in product(range(1, _MOST_LINES), (0, -1)):
            engine.apply(before, Durability.PROCESS_CRASH)

            assert [engine.first(b""), engine.last(b"")] == states[1]
            change = partial(engine.apply, batch, Durability.PROCESS_CRASH)
            interrupted = interrupt(change, home, line)
            found = states[2 if engine.get(b"b") == b"2" else 1]
            assert (engine.last if end else engine.first)(b"") == found[end], f"at {line}"
            with engine.snapshot() as snapshot:
                assert pairs_of(engine) == pairs_of(snapshot) == found, f"interrupted at {line}"
            assert [engine.first(b""), engine.last(b"")] == [found[0], found[-1]]
            # The next batch takes nothing along of what the interrupt has left.
            engine.apply({b"not there": None}, Durability.PROCESS_CRASH)
            assert pairs_of(engine) == found, f"interrupted at {line}, after another batch"
            if not interrupted:
                assert found == states[2], f"the interrupt at {line} was swallowed, and the batch"
                return

    @pytest.mark.spec("ENG-16")
    @for_each("wrong", [{"text": b"v"}, {5: b"v"}, {None: b"v"}, {b"c": "text"}, {b"c": 3}])
    def test_a_batch_of_what_is_not_bytes_leaves_nothing(
        self, engine: Engine, wrong: dict[Any, Any]
    ) -> None:
        """Whatever class the error is of: it comes before anything is changed."""
        # In an empty engine, keys of one wrong type would sort among themselves.
        engine.apply({b"a": None}, Durability.PROCESS_CRASH)
        with pytest.raises((TypeError, StateStoreError)):
            engine.apply(wrong, Durability.PROCESS_CRASH)

        assert pairs_of(engine) == []
        engine.apply({b"a": b"before"}, Durability.PROCESS_CRASH)
        for batch in ({b"a": None, b"b": b"after", **wrong}, {**wrong, b"a": b"after"}):
            with pytest.raises((TypeError, StateStoreError)):
                engine.apply(batch, Durability.PROCESS_CRASH)

            assert pairs_of(engine) == [(b"a", b"before")]

    @pytest.mark.spec("ENG-16")
    def test_a_batch_that_fails_leaves_nothing_after_reopening(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """What was refused does not come back from the engine's files."""
        broken = BrokenBatch({b"a": None, b"b": b"after"}, good=1)
        persistent_engine.apply({b"a": b"before"}, Durability.PROCESS_CRASH)
        with pytest.raises(BrokenBatchError):
            persistent_engine.apply(broken, Durability.PROCESS_CRASH)
        persistent_engine.close()

        assert pairs_of(engines.open()) == [(b"a", b"before")]


def _read_all(engine: Engine) -> list[bytes | None]:
    """Return the values of a, b and c, which all ways to read agree on."""
    keys = [b"a", b"b", b"c"]
    found = engine.get_many(keys)
    pairs = [(key, value) for key, value in zip(keys, found, strict=True) if value is not None]

    assert [engine.get(key) for key in keys] == found
    assert pairs_of(engine) == pairs
    assert engine.first(b"") == (pairs[0] if pairs else None)
    assert engine.last(b"") == (pairs[-1] if pairs else None)
    return found


class EngineReopeningTests(EngineFixtures):
    """What a persistent engine still knows after it was closed."""

    @pytest.mark.spec("ENG-18")
    def test_the_content_survives_closing(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """Reopened, the engine holds exactly what it held: overwritten and deleted keys too."""
        keys = adversarial_keys.KEYS
        persistent_engine.apply(dict.fromkeys(keys, b"old"), Durability.PROCESS_CRASH)
        persistent_engine.apply(dict.fromkeys(keys[::3], b"new"), Durability.PROCESS_CRASH)
        persistent_engine.apply(dict.fromkeys(keys[1::3]), Durability.PROCESS_CRASH)
        before = pairs_of(persistent_engine)
        persistent_engine.close()

        assert pairs_of(engines.open()) == before

    @pytest.mark.spec("ENG-18")
    def test_an_empty_engine_stays_empty(self, engines: Engines, persistent_engine: Engine) -> None:
        """Closing and reopening invents nothing."""
        persistent_engine.close()

        assert pairs_of(engines.open()) == []

    @pytest.mark.spec("ENG-18")
    def test_deletions_survive_closing(self, engines: Engines, persistent_engine: Engine) -> None:
        """What was deleted in an earlier life stays deleted in a later one."""
        persistent_engine.apply({b"a": b"1", b"b": b"1"}, Durability.PROCESS_CRASH)
        persistent_engine.close()
        second = engines.open()
        second.apply({b"a": None}, Durability.PROCESS_CRASH)
        second.close()

        assert pairs_of(engines.open()) == [(b"b", b"1")]

    @pytest.mark.spec("ENG-18", "ENG-8")
    def test_many_lives_add_up(self, engines: Engines, persistent_engine: Engine) -> None:
        """Each of twenty lives finds everything that the earlier ones applied."""
        persistent_engine.close()
        for life in range(20):
            with engines.open() as opened:
                expected = [(b"%03d" % earlier, b"v") for earlier in range(life)]

                assert pairs_of(opened) == expected
                opened.apply({b"%03d" % life: b"v"}, durability_of(opened))

    @pytest.mark.spec("ENG-15")
    def test_the_data_moves_with_the_directory(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """A closed engine's directory can be renamed, and the old place is then empty again."""
        persistent_engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        persistent_engine.close()
        engines.path().rename(engines.path("moved"))

        assert pairs_of(engines.open("moved")) == [(b"k", b"v")]
        assert pairs_of(engines.open()) == []

    @pytest.mark.spec("ENG-15")
    def test_another_directory_in_the_same_place_is_another_engine(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """What was read or written there before is not remembered by the path.

        One that was deleted is empty, and one that was put in its place has its own data: so a
        copy is put back while the process that has met the damage lives.
        """
        path = engines.path()
        with engines.open("other") as other:
            other.apply({b"a": b"other", b"c": b"other"}, Durability.PROCESS_CRASH)
        persistent_engine.apply({b"a": b"1", b"b": b"1"}, Durability.PROCESS_CRASH)

        assert _read_all(persistent_engine) == [b"1", b"1", None]
        persistent_engine.close()
        shutil.rmtree(path)
        with engines.open() as opened:
            assert _read_all(opened) == [None, None, None]
        shutil.rmtree(path)
        engines.path("other").rename(path)

        assert _read_all(engines.open()) == [b"other", None, b"other"]

    @pytest.mark.spec("ENG-15")
    def test_nothing_is_written_beside_the_directory(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """Everything that the engine writes is inside the directory that it was given."""
        persistent_engine.apply({b"k": b"v"}, durability_of(persistent_engine))
        persistent_engine.close()

        assert [path.name for path in engines.path().parent.iterdir()] == [engines.path().name]
