"""Puts into a window store, one by one and as columns, whichever way they go to their commit.

A put of the window of the put before goes by the shortest way, one of a new window by the longest,
and columns by several. The way is `test_waiting_windows`; here is what they have in common.
"""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.window import EngineWindowStore
from statestores.spi import Changes, Window
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen

RETENTION_MS = 640
LATEST_MS = (1 << 63) - 1


def _open(*, retain_duplicates: bool = False, engine: Any = None) -> Any:
    return open_on_engine(
        engine or load_backend("memory").open("unused"),
        Window(
            "w", retention_ms=RETENTION_MS, window_size_ms=5, retain_duplicates=retain_duplicates
        ),
        read_cache_bytes=1 << 20,
    )


def _put(store: Any, *starts_ms: int) -> bool:
    """Put a window of a new key for each; return whether all were accepted."""
    accepted = [store.put(b"k%d" % store._puts, b"v", start_ms) for start_ms in starts_ms]
    return accepted.count(True) == len(starts_ms)


COLUMNS: dict[str, list[tuple[bytes, bytes | None, int]]] = {
    "of two starts": [(b"%d" % n, b"v%d" % n, 1_000 + n % 2) for n in range(12)],
    "of two starts, the first ones alike": [(b"%d" % n, b"v", 1_000 + n // 11) for n in range(12)],
    "of as many starts as rows": [(b"\x00" * n, b"v%d" % n, 1_000 + n) for n in range(12)],
    "with zero bytes": [(b"\x00" * n, None if n % 3 else b"v", 1_000 + n // 5) for n in range(12)],
    "of one start": [(b"\x00%d" % n, b"v%d" % n, 1_000) for n in range(12)],
    "of rows that come again": [(b"%d" % (n % 3), b"v%d" % n, 1_000 + n % 2) for n in range(12)],
    "in part too late": [
        (b"%d" % (n // 2), b"v" if n % 4 else None, 1_000 * (n % 2)) for n in range(12)
    ],
    "of deletions, in part too late": [(b"%d" % (n // 2), None, 1_000 * (n % 2)) for n in range(4)],
    "of few rows": [(b"\x00", b"v", 1_000), (b"\x00\x01", None, 999)],
}


@pytest.mark.spec("WIN-2", "WIN-3", "WIN-16")
def test_columns_are_put_as_each_of_their_rows(subtests: pytest.Subtests) -> None:
    """Whichever of the ways they go, above what is pending under a start and as rows."""
    for what, rows in COLUMNS.items():
        with subtests.test(what), _open() as store, _open() as twin:
            for each in (store, twin):
                _put(each, 990, 990, 990, 1_000, 1_000)
                each.put(b"0", b"before", 1_000)
            accepted = [twin.put(*row) for row in rows]
            columns = [list(column) for column in zip(*rows, strict=True)]
            assert store.put_many(*columns) == accepted.count(True)
            found, expected = (each.pending_changes() for each in (store, twin))

            assert sorted(zip(found.keys, found.values, found.times_ms, strict=True), key=str) == (
                sorted(zip(expected.keys, expected.values, expected.times_ms, strict=True), key=str)
            )
            assert store.uncommitted_bytes == twin.uncommitted_bytes
            assert store._next_sequence == 0
            asked = columns[0], columns[2]
            assert store.fetch_many(*asked) == twin.fetch_many(*asked)
            assert list(store.fetch_all()) == list(twin.fetch_all())


PUTS: dict[str, Callable[[Any], object]] = {
    "the first of a start": lambda store: store.put(b"key", b"value", 1_000),
    "a deletion": lambda store: store.put(b"key", None, 1_000),
    "of a late start": lambda store: (_put(store, 1_000), store.put(b"key", b"value", 900)),
    "of a start that waits": lambda store: (
        _put(store, 1_000, 1_000),
        store.put(b"key", b"value", 1_000),
    ),
    "of the newest start": lambda store: (
        _put(store, 1_000, 1_000, 1_000),
        store.put(b"key", b"value", 1_000),
    ),
    "a deletion of the newest start": lambda store: (
        _put(store, 1_000, 1_000, 1_000),
        store.put(b"key", None, 1_000),
    ),
    "too late": lambda store: (_put(store, 1_000), store.put(b"key", b"value", 360)),
    "at last in time": lambda store: (_put(store, 1_000), store.put(b"key", b"value", 361)),
    "a column": lambda store: store.put_many([b"%d" % n for n in range(8)], [b"v"] * 8, [9] * 8),
    "a short column": lambda store: store.put_many([b"a", b"b"], [b"v", None], [9, 9]),
    "a column of some starts": lambda store: store.put_many(
        [b"a", b"\x00", b"c"], [b"v", b"vv", None], [9, 8, 7]
    ),
    "a column of few starts": lambda store: store.put_many(
        [b"a", b"\x00", b"c", b"d", b"e"], [b"v", b"vv", None, b"", b"v"], [9, 8, 8, 8, 9]
    ),
    "a column, some of it too late": lambda store: store.put_many(
        [b"a", b"b", b"c"], [b"v"] * 3, [1_000, 360, 361]
    ),
    "an empty column": lambda store: store.put_many([], [], []),
}


def _values(store: Any) -> dict[str, float]:
    return {metric.name: metric.value for metric in store.metrics()}


@pytest.mark.spec("COM-16", "MET-6", "WIN-3")
def test_every_put_counts(subtests: pytest.Subtests) -> None:
    """Its bytes once, eight for its start; whether it was accepted, and what was dropped."""
    for what, put in PUTS.items():
        with subtests.test(what), _open() as store:
            given = put(store)
            result = given[-1] if isinstance(given, tuple) else given
            found, size = _values(store), store.uncommitted_bytes
            pending = store.pending_changes()
            count = len(pending.keys)
            dropped = 1 if "too late" in what else 0

            assert size == sum(map(len, [*pending.keys, *filter(None, pending.values)])) + 8 * count
            assert found["put-total"] == count
            assert found["dropped-records-total"] == dropped
            assert result == (count if "column" in what else not dropped)
            assert type(result) is (int if "column" in what else bool)
            assert store.stream_time_ms == max(pending.times_ms or [], default=None)


@pytest.mark.spec("WIN-8")
def test_time_that_moves_on_expires_the_newest_start() -> None:
    """A put of the same start as the one before is judged again after time has moved."""
    with _open() as store:
        _put(store, 1_000, 1_000, 1_000, 1_000)
        assert store.put(b"far", b"v", 1_640)
        assert not store.put(b"late", b"v", 1_000)
        store.rollback()
        assert store.put(b"again", b"v", 1_000)
        _put(store, 1_000, 1_000)
        store.rollback()

        assert not store.has_pending_writes
        assert store.fetch(b"again", 1_000) is None


class _Interrupted(EngineWindowStore):
    """A store whose commit is interrupted while it forgets what it has committed."""

    @property
    def _gets_before(self) -> int:  # nothing else sets it
        return 0

    @_gets_before.setter
    def _gets_before(self, gets: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.spec("COM-43")
def test_a_put_behind_an_interrupted_commit_is_not_lost() -> None:
    """The dictionary of the newest start was forgotten, and the start must not lead to it any more.

    The engine cannot say at once whether it has the commit, or everything would be forgotten then.
    """
    engine = FaultyEngine(KeptOpen(load_backend("memory").open("unused")))
    with _open(engine=engine) as store:
        _put(store, *[1_000] * 30)
        kind, store.__class__ = store.__class__, _Interrupted
        engine.plan(Fault(call="get_many", at=1))
        with pytest.raises(KeyboardInterrupt):
            store.commit({})
        store.__class__ = kind
        engine.plan(None)
        store.put(b"late", b"v", 1_000)
        store.commit({})

        with _open(engine=KeptOpen(engine)) as again:
            assert again.fetch(b"late", 1_000) == b"v"
            assert len(list(again.fetch_all())) == 31


@pytest.mark.spec("WIN-6", "WIN-21")
def test_duplicates_are_numbered_on_from_what_was_replayed() -> None:
    """From the highest number, whatever the order; no changes, a deletion or a late one take none.

    A number that is given twice would replace a value.
    """
    with _open(retain_duplicates=True) as store:
        store.replay(Changes([], [], [], sequences=[]))
        assert store.put(b"k", b"0", 1_000)
        assert not store.put(b"k", None, 1_000)
        assert not store.put(b"k", b"late", 360)
        assert store.put_many([b"k", b"k", b"k"], [b"1", None, b"2"], [1_000] * 3) == 2
        assert list(store.pending_changes().sequences) == [0, 1, 2]
        store.replay(Changes([b"k", b"k"], [b"9", b"7"], [1_000, 1_000], sequences=[9, 7]))
        store.replay(Changes([b"k"], [b"5"], [1_000], sequences=[5]))
        store.put(b"k", b"10", 1_000)

        assert sorted(store.pending_changes().sequences) == [0, 1, 2, 5, 7, 9, 10]
        assert store.fetch(b"k", 1_000) == b"10"
        for reader in (store, store.read_only("read_uncommitted")):
            assert reader.fetch_many([b"k", b"j", b"k"], 1_000) == [b"10", None, b"10"]
        found = _values(store)
        assert (found["put-total"], found["dropped-records-total"]) == (4, 1)


@pytest.mark.spec("COM-19")
def test_what_is_malformed_is_refused_and_counts_nothing() -> None:
    """By the first put, by one of the newest start, and in columns."""
    with _open() as store:
        for again in range(5):
            for key, value, start_ms in [
                ("k", b"v", 1_000),
                (None, b"v", 1_000),
                (b"k", "v", 1_000),
                (b"k", b"v", 1_000.0),
                (b"k", b"v", True),
                (b"k", b"v", None),
            ]:
                with pytest.raises(InvalidTypeError):
                    store.put(key, value, start_ms)
                with pytest.raises(InvalidTypeError):
                    store.put_many([b"a", key], [b"v", value], [1_000, start_ms])
            for start_ms in (-1, LATEST_MS + 1):
                with pytest.raises(InvalidArgumentError, match="window_start_ms"):
                    store.put(b"k", b"v", start_ms)
                with pytest.raises(InvalidArgumentError, match="window_starts_ms"):
                    store.put_many([b"k"], [b"v"], [start_ms])
            with pytest.raises(InvalidArgumentError, match="equal length"):
                store.put_many([b"k"], [b"v", b"w"], [1_000])
            assert store._puts == again
            _put(store, 1_000)


@pytest.mark.spec("COM-15")
def test_a_closed_store_refuses_also_what_waited(subtests: pytest.Subtests) -> None:
    """A put of the newest start among it, which asks for nothing else; and an empty column."""
    calls: dict[str, Callable[[Any], object]] = {
        "put": lambda store: store.put(b"k", b"v", 1_000),
        "of another start": lambda store: store.put(b"k", b"v", 990),
        "too late": lambda store: store.put(b"k", b"v", 0),
        "ahead": lambda store: store.put(b"k", b"v", 2_000),
        "column": lambda store: store.put_many([b"k"] * 8, [b"v"] * 8, [1_000] * 8),
        "empty column": lambda store: store.put_many([], [], []),
        "fetch": lambda store: store.fetch(b"k", 1_000),
        "too early": lambda store: store.fetch(b"k", 0),
        "fetches": lambda store: store.fetch_many([b"k"], [1_000]),
        "no fetches": lambda store: store.fetch_many([], []),
        "range": lambda store: store.fetch_range(b"k"),
        "range in memory": lambda store: store.fetch_range(b"k", 1_000, 1_000),
        "range that is too early": lambda store: store.fetch_range(b"k", 0, 5),
        "ranges": lambda store: store.fetch_all(),
        "ranges that are too early": lambda store: store.fetch_all(0, 5),
        "changes": lambda store: store.pending_changes(),
        "facade": lambda store: store.read_only(),
        "pending": lambda store: store.has_pending_writes,
    }
    for duplicates in (False, True):
        store = _open(retain_duplicates=duplicates)
        _put(store, *[1_000] * 30)
        store.commit({})
        _put(store, 1_000, 1_000, 1_000)
        store.close()
        for what, call in calls.items():
            with subtests.test(what, duplicates=duplicates), pytest.raises(StoreClosedError):
                call(store)
        with subtests.test("a deletion", duplicates=duplicates), pytest.raises(StoreClosedError):
            store.put(b"k", None, 1_000)
        assert (store._dropped, store._below_horizon, store._puts) == (0, 0, 33)


@pytest.mark.spec("WIN-6")
def test_a_store_of_duplicates_remembers_no_names() -> None:
    """Each is a row that is put once, so none can be named again."""
    engine = FaultyEngine(KeptOpen(load_backend("memory").open("unused")))
    with _open(retain_duplicates=True, engine=engine) as store:
        store.fetch(b"k", 1_000)
        _put(store, *[1_000] * 30)
        store.commit({})

        assert store._spans._name_bytes == 0
        assert not store._spans.keeps_rows
