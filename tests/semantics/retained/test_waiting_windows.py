"""Where a put window waits for its commit: as a row, or in the dictionary of its start.

A row costs the packing of its key at the put; one under its start costs nothing until the commit,
which takes all rows of a start at once. So a start that comes again has a dictionary, and one that
comes once has none. What waits where is asked of the store itself: whoever reads finds both.
"""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Window
from statestores_conformance.many_cases import for_each

RETENTION_MS = 640
"""A span has ten milliseconds."""

MOST_STARTS = 64
"""So many starts are remembered of puts that became rows."""

FEW_ROWS = 16
"""So many rows join a commit by starts."""

FEWEST_IN_GROUPS = 24
"""A commit of fewer rows goes row by row."""

Waiting = tuple[dict[int, dict[bytes, bytes | None]], dict[tuple[bytes, int], bytes | None]]


def _open(engine: Any = None) -> Any:
    return open_on_engine(
        engine or load_backend("memory").open("unused"),
        Window("w", retention_ms=RETENTION_MS, window_size_ms=5),
        read_cache_bytes=1 << 20,
    )


def _waiting(store: Any) -> Waiting:
    """Return what waits under its start, and the rows."""
    of = store._rows
    rows = {(of.key_of(row), of.time_of(row)): value for row, value in store._pending.items()}
    return {start_ms: dict(rows) for start_ms, rows in store._by_start.items()}, rows


def _starts(store: Any) -> tuple[list[int], list[int]]:
    """Return the starts under which windows wait, and those of rows."""
    by_start, rows = _waiting(store)
    return sorted(by_start), sorted({start_ms for _, start_ms in rows})


def _put(store: Any, *starts_ms: int) -> bool:
    """Put a window of a new key for each; return whether all were accepted."""
    accepted = [store.put(b"k%d" % store._puts, b"v", start_ms) for start_ms in starts_ms]
    return accepted.count(True) == len(starts_ms)


def _column(store: Any, start_ms: int, count: int) -> None:
    """Put *count* windows of one start at once."""
    keys = [b"c%03d" % number for number in range(count)]
    assert store.put_many(keys, [b"v"] * count, [start_ms] * count) == count


def _read(store: Any) -> None:
    """Read all keys, for which every pending window has to be a row."""
    list(store.fetch_all())


def _commit(store: Any) -> None:
    store.commit({})


def _watch(store: Any) -> None:
    store.read_only("read_uncommitted")


Steps = list[tuple[Callable[..., object], tuple[int, ...]]]

PLACES: dict[str, tuple[Steps, tuple[list[int], list[int]]]] = {
    "a start that comes once": ([(_put, (1_000,))], ([], [1_000])),
    "each put moves time": ([(_put, (1_000, 1_001, 1_002))], ([], [1_000, 1_001, 1_002])),
    "the newest start comes again": ([(_put, (1_000, 1_000))], ([1_000], [1_000])),
    "a late start comes once": ([(_put, (1_000, 900))], ([], [900, 1_000])),
    "a late start comes again": ([(_put, (1_000, 900, 900))], ([900], [900, 1_000])),
    "time moves on while windows wait": (
        [(_put, (1_000, 1_000, 1_010)), (_commit, ()), (_put, (1_000,))],
        ([1_000], []),
    ),
    "and the new start comes again": (
        [(_put, (1_000, 1_000, 1_010, 1_010))],
        ([1_000, 1_010], [1_000, 1_010]),
    ),
    "windows take turns": (
        [(_put, (1_000, 1_000, 1_010, 1_010)), (_commit, ()), (_put, (1_010, 1_000))],
        ([1_000, 1_010], []),
    ),
    "as many starts as are remembered": (
        [(_put, (1_000, *range(500, 500 + MOST_STARTS), 500, 1_000))],
        ([500, 1_000], [*range(500, 500 + MOST_STARTS), 1_000]),
    ),
    "a start more": (
        [(_put, (1_000, *range(500, 501 + MOST_STARTS), 500, 500 + MOST_STARTS))],
        ([500 + MOST_STARTS], [*range(500, 501 + MOST_STARTS), 1_000]),
    ),
    "a read makes rows of all, and the start has to come again": (
        [(_put, (1_000, 1_000)), (_read, ()), (_put, (1_000,))],
        ([], [1_000]),
    ),
    "it comes again after the read": (
        [(_put, (1_000, 1_000)), (_read, ()), (_put, (1_000, 1_000))],
        ([1_000], [1_000]),
    ),
    "a late start after a read": (
        [(_put, (1_000, 900)), (_read, ()), (_put, (900,))],
        ([], [900, 1_000]),
    ),
    "a commit of few rows ends no window": (
        [(_put, (1_000, 900)), (_commit, ()), (_put, (1_000, 900))],
        ([900, 1_000], []),
    ),
    "nor does one of many": (
        [(_put, (1_000,) * 30), (_put, (900,) * 30), (_commit, ()), (_put, (1_000, 900))],
        ([900, 1_000], []),
    ),
    "a column of one start": ([(_column, (1_000, 8))], ([1_000], [])),
    "a shorter one": ([(_column, (1_000, 7))], ([], [1_000])),
    "a column over what waits": (
        [(_put, (1_000, 1_000)), (_column, (1_000, 8))],
        ([1_000], [1_000]),
    ),
    "a short column after windows that wait": (
        [(_put, (1_000, 1_000)), (_column, (1_000, 7))],
        ([], [1_000]),
    ),
    "a put after a column and its commit": (
        [(_column, (1_000, 30)), (_commit, ()), (_put, (1_000,))],
        ([1_000], []),
    ),
    "somebody looks at pending writes": (
        [(_put, (1_000, 1_000)), (_watch, ()), (_put, (1_000,))],
        ([], [1_000]),
    ),
    "of a start that was newest": (
        [(_put, (1_000, 1_000, 1_000)), (_watch, ()), (_put, (1_000, 1_000))],
        ([], [1_000]),
    ),
    "before the first put": ([(_watch, ()), (_put, (1_000, 1_000, 900, 900))], ([], [900, 1_000])),
    "before a column": ([(_watch, ()), (_column, (1_000, 30))], ([], [1_000])),
}


@pytest.mark.spec("WIN-2", "ROF-8")
def test_a_start_that_comes_again_has_a_dictionary(subtests: pytest.Subtests) -> None:
    """Until somebody reads what is pending; whoever put it gets all of it back."""
    for what, (steps, expected) in PLACES.items():
        with subtests.test(what), _open() as store:
            for step, arguments in steps:
                step(store, *arguments)

            assert _starts(store) == expected
            by_start, rows = _waiting(store)
            pending = rows | {
                (key, start_ms): value
                for start_ms, theirs in by_start.items()
                for key, value in theirs.items()
            }
            changes = store.pending_changes()
            assert {
                (key, start_ms): value
                for key, value, start_ms in zip(
                    changes.keys, changes.values, changes.times_ms, strict=True
                )
            } == pending
            assert list(changes.times_ms) == sorted(changes.times_ms)
            assert changes.sequences is None


@pytest.mark.spec("WIN-2")
def test_the_newest_start_needs_no_look() -> None:
    """Most puts are of the window of the put before, from the third one on."""
    with _open() as store:
        newest = []
        for start_ms in (1_000, 1_000, 1_000, 1_000, 900, 900, 900, 1_000, 1_001, 1_001, 1_001):
            _put(store, start_ms)
            newest.append(store._newest_start)
        known = [None, None, 1_000, 1_000, 1_000, 1_000, 900, 1_000, None, None, 1_001]

        assert newest == known


@for_each("count", [MOST_STARTS, 2 * MOST_STARTS, 1_000])
def test_the_starts_of_columns_are_remembered_up_to_a_bound(count: int) -> None:
    """A store that was put nothing but columns remembered each start that it ever saw.

    That took memory for ever, and each commit that went by rows copied all of it. So many as take
    turns are remembered, and no more.
    """
    turns = 2 if count == MOST_STARTS else 1
    with _open() as store:
        for start_ms in [*range(1_000, 1_000 + count)] * turns:
            _column(store, start_ms, 8)
            store.commit({})
            assert len(store._starts) <= MOST_STARTS

        if count == MOST_STARTS:
            assert store._starts == set(range(1_000, 1_000 + count))


class _LookedAt(dict[int, dict[bytes, bytes | None]]):
    """What waits by start, at which a facade begins to look when the owner does."""

    store: Any

    def get(self, start_ms: int, default: Any = None) -> Any:
        """Return the rows of a start; meanwhile another thread has asked for a facade."""
        self.store.read_only("read_uncommitted")
        return super().get(start_ms, default)


@pytest.mark.spec("ROF-8")
def test_a_facade_that_is_asked_for_during_a_put_sees_the_next_one_as_a_row() -> None:
    """The put had looked whether there is one, and there was none yet."""
    with _open() as store:
        _put(store, 1_000, 1_000)
        looked_at = _LookedAt(store._by_start)
        looked_at.store, store._by_start = store, looked_at
        _put(store, 1_000)
        assert store._newest_start is None
        _put(store, 1_000)

        assert _starts(store) == ([], [1_000])
        assert len(store._pending) == 4


@pytest.mark.spec("WIN-2", "COM-34")
@for_each(("rows", "stays"), [(FEW_ROWS, True), (FEW_ROWS + 1, False)])
def test_changes_make_rows_of_nothing_where_few_rows_wait(rows: int, *, stays: bool) -> None:
    """So a changelog takes no commit its dictionaries; with more rows all of them are rows."""
    with _open() as store:
        _put(store, *range(1_000, 1_000 + rows))
        _put(store, 999 + rows, 999 + rows)
        assert len(store._pending) == rows
        changes = store.pending_changes()

        assert len(changes.keys) == rows + 2
        assert bool(store._by_start) is stays


def _kept(store: Any) -> tuple[int, int]:
    """Return how many committed rows are kept by their start, and by their keys."""
    by_start = sum(map(len, store._by_committed_start.values()))
    return by_start, sum(map(len, store._committed.values()))


COMMITS: dict[str, tuple[Callable[[Any], object], int]] = {
    "as many as make a group": (lambda store: _put(store, *[1_000] * FEWEST_IN_GROUPS), 1),
    "one fewer": (lambda store: _put(store, *[1_000] * (FEWEST_IN_GROUPS - 1)), 0),
    "few others": (lambda store: _put(store, *range(985, 1_001), *[1_000] * 30), 1),
    "too many others": (lambda store: _put(store, *range(984, 1_001), *[1_000] * 30), 0),
    "rows alone": (lambda store: _put(store, *range(900, 930)), 0),
    "a deletion": (
        lambda store: (_put(store, *[1_000] * 30), store.put(b"x", None, 1_000)),
        0,
    ),
    "a deletion in one of two starts": (
        lambda store: (
            _put(store, *[990] * 30, *[1_000] * 30),
            store.put(b"x", None, 990),
        ),
        0,
    ),
}


@pytest.mark.spec("WIN-9")
def test_a_commit_goes_by_starts_where_that_is_worth_it(subtests: pytest.Subtests) -> None:
    """Its rows are kept like that then, and ranges of a key find them in memory."""
    for what, (put, is_by_start) in COMMITS.items():
        with subtests.test(what), _open() as store:
            put(store)
            count = len(store.pending_changes().keys)
            with _open() as twin:  # `pending_changes` may make rows of what waits
                put(twin)
                twin.commit({})
                by_start, by_key = _kept(twin)

            assert by_start == is_by_start * count
            assert by_key == 0  # the engine was never asked


@pytest.mark.spec("WIN-9")
def test_rows_are_kept_by_their_keys_where_somebody_fetches() -> None:
    """One fetch since the last commit is enough; who only writes gives no memory for it."""
    with _open() as store:
        kept = []
        for start_ms, fetches in ((1_000, 1), (1_020, 0), (1_040, 2), (1_060, 0)):
            for number in range(30):
                store.put(b"%03d" % number, b"v", start_ms)
            for _ in range(fetches):
                assert store.fetch(b"unknown", start_ms) is None
            _read(store)
            store.commit({})
            kept.append(_kept(store))

        assert kept == [(0, 30), (0, 30), (0, 60), (0, 60)]
    with _open() as store:
        _put(store, *range(900, 930))
        store.commit({})

        assert _kept(store) == (0, 0)


@pytest.mark.spec("WIN-8", "LAY-30")
def test_what_expires_before_its_commit_is_left_out() -> None:
    """Under its start or as a row, by either way of a commit; and the rows of one span are one."""
    engine = load_backend("memory").open("unused")
    with _open(engine) as store:
        _put(store, 1_000, *[1_000] * 30, *[360] * 30, *[361] * 30)
        _put(store, 1_001)
        store.commit({})

        assert sorted({each.start_ms for each in store.fetch_all()}) == [1_000, 1_001]
        starts = {store._rows.time_of(row) for row, _ in engine.scan(b"\x02", b"\x03")}
        assert starts == {1_000, 1_001}


@pytest.mark.spec("LAY-30")
def test_the_times_of_rows_are_known_where_windows_waited() -> None:
    """By them a commit knows whether its rows are of one span, without a look at each."""
    with _open() as store:
        _column(store, 1_000, 8)
        _column(store, 900, 8)
        _column(store, 950, 8)
        _read(store)
        assert (store._lowest, store._highest, store._bounded_rows) == (900, 1_000, 24)
        store.put_many([b"a", b"b"], [b"v", b"v"], [1_050, 850])

        assert (store._lowest, store._highest, store._bounded_rows) == (850, 1_050, 26)
