"""Pending versions are a pair where a key has one and a dictionary where it has several."""

import random
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA, END
from statestores.semantics.versioned.rows import versions_of, with_version
from statestores_conformance.many_cases import for_each

KEYS = [b"", b"\x00", b"a", b"a\x00", b"a\x00b", b"b"]
FOREVER_MS = 1 << 50
STEPS = 300

Model = dict[bytes, dict[int, bytes | None]]


def test_a_second_version_makes_a_dictionary_of_the_pair() -> None:
    """Another value of the same start takes the place of the first, and is a pair still."""
    one = (5, b"a")

    again = with_version(one, 5, None)
    both = with_version(one, 3, b"b")

    assert again == (5, None)
    assert both == {5: b"a", 3: b"b"}
    assert with_version(both, 5, b"c") == {5: b"c", 3: b"b"}
    assert [versions_of(each) for each in (again, both)] == [{5: None}, {5: b"c", 3: b"b"}]


class Steps:
    """A store and a model of it; the history is kept for ever, so that nothing is too late."""

    def __init__(self, seed: int, cache_bytes: int) -> None:
        self.chance = random.Random(seed)
        specification = ss.Versioned("s", history_retention_ms=FOREVER_MS)
        engine = load_backend("memory").open("unused")
        self.store: Any = open_on_engine(engine, specification, read_cache_bytes=cache_bytes)
        self.model: Model = {}
        self.committed: Model = {}

    def put(self) -> None:
        """Put or delete versions of one key, or of several at once; many are late."""
        chance = self.chance
        count = chance.choice([1, 1, 1, 4])
        keys = chance.choices(KEYS, k=count)
        values = [chance.choice([None, b"", b"%d" % chance.randint(0, 99)]) for _ in keys]
        times = [chance.randint(0, 12) for _ in keys]
        if count == 1:
            result = self.store.put(keys[0], values[0], times[0])
            later = [at for at in self.model.get(keys[0], {}) if at > times[0]]
            assert result.valid_to_ms == min(later, default=None)
        else:
            self.store.put_many(keys, values, times)
        for key, value, time_ms in zip(keys, values, times, strict=True):
            self.model.setdefault(key, {})[time_ms] = value

    def end(self) -> None:
        """Commit or roll back."""
        if self.chance.random() < 0.7:
            self.store.commit({})
            self.committed = {key: dict(versions) for key, versions in self.model.items()}
        else:
            self.store.rollback()
            self.model = {key: dict(versions) for key, versions in self.committed.items()}

    def check(self) -> None:
        """Ask the store and both facades for everything that the models know."""
        pending: Any = self.store.read_only("read_uncommitted")
        for reader, model in (
            (self.store, self.model),
            (pending, self.model),
            (self.store.read_only(), self.committed),
        ):
            as_of = self.chance.randint(0, 13)
            for key in KEYS:
                versions = model.get(key, {})
                assert reader.get(key) == valid_at(versions, max(versions, default=0))
                assert reader.get(key, as_of) == valid_at(versions, as_of)
                assert list(reader.history(key)) == [
                    found
                    for start in sorted(versions)
                    if (found := valid_at(versions, start)) is not None
                ]
            wanted = [valid_at(model.get(key, {}), as_of) for key in KEYS]
            assert reader.get_many(KEYS, as_of) == wanted
        changes = self.store.pending_changes()
        replayed = {key: dict(versions) for key, versions in self.committed.items()}
        for key, value, time_ms in zip(changes.keys, changes.values, changes.times_ms, strict=True):
            replayed.setdefault(key, {})[time_ms] = value
        assert replayed == self.model


def valid_at(versions: dict[int, bytes | None], time_ms: int) -> ss.VersionedRecord[bytes] | None:
    """Return what a model finds."""
    start = max((each for each in versions if each <= time_ms), default=None)
    if start is None or (value := versions[start]) is None:
        return None
    end = min((each for each in versions if each > start), default=None)
    return ss.VersionedRecord(value, start, end)


@pytest.mark.spec("VRS-2", "VRS-4", "VRS-9", "ROF-1")
@for_each("cache_bytes", [0, 1_000, 1 << 20])
def test_versions_are_found_however_many_of_a_key_wait(cache_bytes: int) -> None:
    """One or several of a key, late ones, deletions, commits and rollbacks, beside a model."""
    for seed in range(4):
        steps = Steps(seed, cache_bytes)
        for _ in range(STEPS):
            chance = steps.chance.random()
            if chance < 0.6:
                steps.put()
            elif chance < 0.8:
                steps.end()
            else:
                steps.check()


def test_rows_of_a_commit_come_in_the_order_of_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines take them in two thirds of the time; RocksDB had sorted large commits once more."""
    engine = load_backend("memory").open("unused")
    apply, batches = engine.apply, list[list[bytes]]()

    def noting(batch: Any, durability: ss.Durability) -> None:
        batches.append(list(batch))
        apply(batch, durability)

    monkeypatch.setattr(engine, "apply", noting)
    store = open_on_engine(engine, ss.Versioned("s", history_retention_ms=FOREVER_MS))
    keys = [b"%04d" % number for number in range(300)]
    for time_ms in (1, 2):
        random.Random(time_ms).shuffle(keys)
        for key in keys:
            store.put(key, b"v", time_ms)
        store.commit({})

        rows = [row for row in batches[-1] if DATA <= row < END]
        assert len(rows) == time_ms * len(keys)
        assert rows == sorted(rows)


@pytest.mark.spec("VRS-1")
def test_a_late_put_at_the_time_of_the_latest_is_the_latest() -> None:
    """Its result says until when it is valid: for ever, whatever else has moved stream time.

    A mutant said that it ended where it began.
    """
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, ss.Versioned("s", history_retention_ms=1_000)) as store:
        store.put(b"k", b"first", 100)
        store.put(b"clock", b"", 200)
        store.commit({})
        again = store.put(b"k", b"again", 100)
        earlier = store.put(b"k", b"earlier", 50)

        assert (again.accepted, again.valid_to_ms) == (True, None)
        assert (earlier.accepted, earlier.valid_to_ms) == (True, 100)


@pytest.mark.spec("VRS-9", "COM-19")
def test_a_range_of_histories_is_of_the_keys_and_times_that_were_asked_for() -> None:
    """Both ends of either are within; what can be no time is called by its name."""
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, ss.Versioned("s", history_retention_ms=FOREVER_MS)) as store:
        for key in (b"a", b"b", b"c", b"d"):
            for time_ms in (1, 3, 5):
                store.put(key, b"%d" % time_ms, time_ms)
        store.commit({})
        reader: Any
        for reader in (store, store.read_only()):
            found = [
                (key, each.valid_from_ms) for key, each in reader.range_history(b"b", b"c", 2, 4)
            ]
            assert found == [(b"b", 1), (b"b", 3), (b"c", 1), (b"c", 3)]
            scanned = [(key, each.valid_from_ms) for key, each in reader.scan_as_of(4, b"b", b"c")]
            assert scanned == [(b"b", 3), (b"c", 3)]
            with pytest.raises(InvalidArgumentError, match="first_ms"):
                reader.range_history(first_ms=-1)
            with pytest.raises(InvalidArgumentError, match="last_ms"):
                reader.range_history(last_ms=-1)
    for read in (reader.scan_as_of, reader.range_history):
        with pytest.raises(StoreClosedError, match="the store 's' is closed"):
            read()
