"""Commits whose versions all follow what is stored: their rows are columns, and nobody can tell."""

from random import Random
from typing import Any

import pytest
from version_cases import cases

import statestores as ss
from statestores.errors import StorageError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.deferring_engine import DeferringEngine
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned import vacuumed_commits, view
from statestores.semantics.versioned.commit import COLUMNS_FROM, resolve
from statestores.semantics.versioned.following_versions import FollowingVersions
from statestores.semantics.versioned.rows import Latest, Waiting, data_key, history_key
from statestores_conformance.many_cases import for_each

KEYS = [b"", b"\x00", b"a", b"a\x00", b"a\x00b", b"b", b"\x00\x00", b"longer than the others"]
CASES = 1_000
STEPS = 200
NEVER = 1 << 40


def drawn(chance: Random) -> tuple[dict[bytes, Waiting], dict[bytes, Latest | None], int]:
    """Draw single versions that wait, what is stored of their keys, and a horizon."""
    times = range(chance.choice([1, 3, 30]))
    chosen = chance.sample(KEYS, chance.randint(1, len(KEYS)))
    value = [b"", b"value", b"v" * chance.randint(0, 9)] + [None] * chance.choice([0, 0, 0, 1])
    pending: dict[bytes, Waiting] = {
        key: (10 + chance.choice(times), chance.choice(value)) for key in chosen
    }
    stored: dict[bytes, Latest | None] = {
        key: None if chance.random() < 0.3 else (chance.choice(times), chance.choice(value))
        for key in chosen
    }
    if chance.random() < 0.1:
        pending[chance.choice(chosen)] = {10: b"one", 11: b"another"}
    return pending, stored, chance.choice([-5, -5, 9, 10, 11])


@pytest.mark.spec("LAY-7")
def test_columns_are_the_rows_that_are_made_one_by_one() -> None:
    """The same rows, order, floor and latest versions; and columns in many cases, not in all."""
    in_columns = 0
    for seed in range(CASES):
        pending, stored, horizon_ms = drawn(Random(seed))
        engine = load_backend("memory").open("unused")
        one, many = Progress(), Progress()
        each = resolve(engine, stored, pending, one, horizon_ms)
        found = resolve(engine, stored, pending, many, horizon_ms, in_columns=True)

        rows = found.rows if found.columns is None else found.columns
        assert list(rows.items()) == list(each.rows.items())
        assert (many, found.latest) == (one, each.latest)
        follows = all(
            isinstance(version, tuple)
            and version[1] is not None
            and (
                (before := stored[key]) is None
                or (before[1] is not None and max(before[0], horizon_ms) < version[0])
            )
            for key, version in pending.items()
        )
        assert (found.columns is not None) == follows
        in_columns += follows
    assert CASES // 10 < in_columns < CASES


def test_a_commit_of_anything_else_is_made_one_by_one() -> None:
    """Late versions, several of a key, deletions: asked for columns or not, it is the same."""
    for case, again in zip(cases(), cases(), strict=True):
        one, many = Progress(), Progress()
        each = resolve(case.engine, case.cached, case.waiting, one, case.horizon_ms)
        found = resolve(
            again.engine, again.cached, again.waiting, many, again.horizon_ms, in_columns=True
        )

        rows = found.rows if found.columns is None else found.columns
        assert list(rows.items()) == list(each.rows.items())
        assert (many, found.latest) == (one, each.latest)


def following() -> FollowingVersions:
    """Return columns of a new key and of two others, with an offset behind them."""
    keys = [b"a", b"b\x00", b"c"]
    pending: dict[bytes, Waiting] = {b"a": (5, b"1"), b"b\x00": (6, b"2"), b"c": (6, b"3")}
    rows = FollowingVersions.of(keys, pending, [None, (3, b"old"), (4, b"older")], 0)
    assert rows is not None
    rows[b"\x01offset"] = None
    return rows


def test_columns_are_a_batch() -> None:
    """In pairs, as values, one by one; as a dictionary of the same rows."""
    batch = following()
    rows = dict(batch.items())

    assert list(rows) == [
        data_key(b"a"),
        data_key(b"b\x00"),
        data_key(b"c"),
        history_key(b"b\x00", 3),
        history_key(b"c", 4),
        b"\x01offset",
    ]
    assert (list(batch), list(batch.values()), len(batch)) == (
        list(rows),
        list(rows.values()),
        len(rows),
    )
    assert [batch[key] for key in rows] == list(rows.values())
    assert [batch.get(key, b"none") for key in rows] == list(rows.values())
    assert batch.get(b"\x02d", b"none") == b"none"
    assert b"\x02d" not in batch
    assert (None in batch.values(), b"no row" in batch.values()) == (True, False)
    with pytest.raises(KeyError):
        batch[b"\x02d"]


@pytest.mark.spec("LGS-15")
def test_columns_that_wait_for_the_engine_are_read() -> None:
    """A key that is there, one that is not, and one that a later commit has as well."""
    behind = load_backend("memory").open("unused")
    engine = DeferringEngine(behind)
    rows = dict(following().items())
    engine.defer(following(), 1)
    engine.defer({data_key(b"c"): b"later", data_key(b"d"): b"new"}, 1)
    wanted = {key: row for key, row in rows.items() if row is not None} | {
        data_key(b"c"): b"later",
        data_key(b"d"): b"new",
    }

    assert list(behind.scan(b"")) == []
    assert {key: engine.get(key) for key in wanted} == wanted
    assert engine.get_many([*wanted, b"\x02e"]) == [*wanted.values(), None]
    assert dict(engine.scan(b"")) == dict(behind.scan(b"")) == wanted


class Twins:
    """Two stores that are given the same: one puts by one and makes row by row, one in columns."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.chance, self.patch = Random(seed), patch
        retention_ms = self.chance.choice([3, 10, 1_000])
        cache_bytes = self.chance.choice([0, 2_000, 1 << 20])
        specification = ss.Versioned("s", history_retention_ms=retention_ms)
        self.engines = [load_backend("memory").open("unused") for _ in range(2)]
        self.one, self.many = (
            open_on_engine(engine, specification, read_cache_bytes=cache_bytes)
            for engine in self.engines
        )
        self.now_ms = 0

    def put(self) -> None:
        """Put versions of several keys: mostly later than all before, and each key once."""
        chance = self.chance
        self.now_ms += chance.choice([0, 1, 1, 5])
        is_plain = chance.random() < 0.7
        keys = chance.sample(KEYS, 6) if is_plain else chance.choices(KEYS, k=6)
        values = [b"%d" % number for number in range(6)] if is_plain else [None, b"", b"x"] * 2
        spread = chance.choice([1, 3]) if is_plain else 12
        times = [max(0, self.now_ms + chance.randrange(spread) - spread // 4) for _ in keys]
        accepted = sum(self.one.put(*row).accepted for row in zip(keys, values, times, strict=True))

        assert self.many.put_many(keys, values, times) == accepted
        assert repr(self.many) == repr(self.one)  # the bytes that are pending, too

    def end(self) -> None:
        """Commit, fail to, or roll back."""
        how = self.chance.choice(["commit", "commit", "commit", "before", "after", "rollback"])
        for store, engine, columns_from in zip(
            (self.one, self.many), self.engines, (NEVER, 1), strict=True
        ):
            self.patch.setattr(vacuumed_commits, "COLUMNS_FROM", columns_from)
            if how == "rollback":
                store.rollback()
            elif how == "commit":
                store.commit({})
            else:
                self.fail(store, engine, how)

    def fail(self, store: Any, engine: Any, how: str) -> None:
        """Commit with an engine that raises, before it has written the batch or after it."""
        apply: Any = engine.apply

        def raising(batch: Any, durability: ss.Durability) -> None:
            if how == "after":
                apply(batch, durability)
            raise StorageError("the disk is full")

        with self.patch.context() as patch:
            patch.setattr(engine, "apply", raising)
            with pytest.raises(StorageError):
                store.commit({})
        if how == "after":
            store.commit({})  # a rollback would be refused: it cannot take back what is there

    def check(self) -> None:
        """Compare what is stored and what is read, also from the cache."""
        assert list(self.engines[1].scan(b"")) == list(self.engines[0].scan(b""))
        assert self.many.pending_changes() == self.one.pending_changes()
        assert self.many.stream_time_ms == self.one.stream_time_ms
        as_of_ms = max(0, self.now_ms - self.chance.randint(0, 12))
        for key in KEYS:
            assert self.many.get(key) == self.one.get(key)
            assert self.many.get(key, as_of_ms) == self.one.get(key, as_of_ms)
            assert list(self.many.history(key)) == list(self.one.history(key))
        keys = self.chance.choices(KEYS, k=12)
        times = [max(0, self.now_ms - self.chance.randint(0, 12)) for _ in keys]
        wanted = [self.one.get(key, time_ms) for key, time_ms in zip(keys, times, strict=True)]
        self.patch.setattr(view, "IN_ORDER_FROM", self.chance.choice([1, 13]))
        assert self.many.get_many(keys, times) == wanted
        assert self.many.read_only("read_uncommitted").get_many(keys, times) == wanted


@pytest.mark.spec("VRS-18", "VRS-23", "VRS-14", "COM-43")
@for_each("seed", range(8))
def test_a_store_cannot_tell_columns_from_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With late versions, deletions, expiry, failed commits and rollbacks in between."""
    twins = Twins(seed, monkeypatch)
    for _ in range(STEPS):
        chance = twins.chance.random()
        if chance < 0.45:
            twins.put()
        elif chance < 0.75:
            twins.end()
        else:
            twins.check()
    twins.check()


@pytest.mark.spec("COM-1")
def test_a_large_commit_is_columns_until_versions_expire() -> None:
    """The vacuum looks single rows up, so from then on they are a dictionary again."""
    engine = load_backend("memory").open("unused")
    store = open_on_engine(engine, ss.Versioned("s", history_retention_ms=1))
    keys = [b"%04d" % number for number in range(COLUMNS_FROM)]
    forms = []
    for time_ms in range(6):
        store.put_many(keys, [b"%d" % time_ms] * len(keys), [time_ms] * len(keys))
        forms.append(type(store._pending_rows()))
        store.commit({})

    assert forms == [FollowingVersions, FollowingVersions, dict, dict, dict, dict]
    assert set(map(store.get, keys)) == {ss.VersionedRecord(b"5", 5, None)}
    assert len(list(store.range_history())) == 2 * len(keys)
