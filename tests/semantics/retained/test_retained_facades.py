"""Facades of windows and sessions beside a writer, a failing engine and the end of their store."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from statestores.errors import StorageError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.retained.reads import ROWS_AHEAD, visible_times, without_expired
from statestores.spi import Durability, Engine, EngineSnapshot, Session
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen

RETENTION_MS = 100
SESSION = Session("s", retention_ms=RETENTION_MS)


class Watched(KeptOpen):
    """An engine that knows its snapshots, and does something before the next one is taken."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.taken: list[EngineSnapshot] = []
        self.before: Callable[[], object] | None = None

    def snapshot(self) -> EngineSnapshot:  # noqa: D102  # as of the base
        before, self.before = self.before, None
        if before is not None:
            before()
        snapshot = super().snapshot()
        self.taken.append(snapshot)
        return snapshot

    def are_closed(self) -> list[bool]:
        """Return of each snapshot whether it was closed."""
        found = []
        for snapshot in self.taken:
            try:
                snapshot.get(b"\x00format")
                found.append(False)
            except StoreClosedError:
                found.append(True)
        return found


@pytest.fixture
def engine() -> Iterator[Watched]:
    with load_backend("memory").open("unused") as engine:
        yield Watched(engine)


@pytest.fixture
def store(engine: Watched) -> Any:
    """Two committed sessions, and a pending one."""
    store = open_on_engine(engine, SESSION, durability=Durability.PROCESS_CRASH)
    store.put(b"a", 10, 20, b"1")
    store.put(b"b", 30, 40, b"2")
    store.commit({})
    store.put(b"c", 50, 60, b"3")
    return store


READS: list[Callable[[Any], list[Any]]] = [
    lambda view: list(view.find_all_sessions()),
    lambda view: list(view.find_sessions(b"c")),
    lambda view: list(view.find_sessions_by_end(0, 59)),
    lambda view: view.fetch_many([b"a", b"c"], [10, 50], [20, 60]),
]


@pytest.mark.spec("ROF-8")
def test_a_commit_between_two_looks_hides_nothing(engine: Watched, store: Any) -> None:
    """The pending sessions were copied, and are committed when the engine is asked: once more."""
    view = store.read_only("read_uncommitted")
    expected = [read(view) for read in READS]
    assert [len(each) for each in expected] == [3, 1, 2, 2]
    for read, found in zip(READS, expected, strict=True):
        store.put(b"c", 50, 60, b"3")
        engine.before = lambda: store.commit({})

        assert read(view) == found
        assert not store.has_pending_writes
    assert len(engine.taken) == 4 + 2 * 4
    assert all(engine.are_closed())


@pytest.mark.spec("ROF-8", "SES-8")
def test_a_row_that_came_before_its_stream_time_counts(store: Any) -> None:
    """A put in another thread adds it first, and then moves the time: what expired is gone."""
    view = store.read_only("read_uncommitted")
    store._pending[store._rows.data_key(b"d", 130, 130)] = b"4"

    assert [found.key for found in view.find_all_sessions()] == [b"b", b"c", b"d"]
    assert view.fetch_many([b"a", b"d"], [10, 130], [20, 130]) == [None, b"4"]
    store._pending[store._rows.data_key(b"e", 99, 99)] = b"5"
    assert [found.key for found in view.find_all_sessions()] == [b"b", b"c", b"d", b"e"]
    store._advance_stream_time(145)
    assert [found.key for found in view.find_all_sessions()] == [b"c", b"d", b"e"]
    assert view.fetch_session(b"b", 30, 40) is None
    assert view.fetch_session(b"e", 99, 99) == b"5"


@pytest.mark.spec("SES-14")
def test_a_view_holds_a_snapshot_for_as_long_as_it_reads(engine: Watched, store: Any) -> None:
    """Of a short range it is closed at once, of a long one at its end, or with its iterator."""
    ends = list(range(ROWS_AHEAD + 3))
    for end_ms in ends:
        store.put(b"many", end_ms, end_ms, b"v")
    store.commit({})
    view = store.read_only()
    for first_ms, is_short in ((4, True), (3, False), (0, False)):
        engine.taken.clear()
        iterators = [view.find_sessions_by_end(first_ms, 20, b"many", b"many") for _ in range(2)]
        iterators += [view.find_sessions(b"many", first_ms, reverse=True) for _ in range(2)]
        assert engine.are_closed() == [True, True, is_short, is_short]
        assert [found.end_ms for found in iterators[0]] == ends[first_ms:21]
        assert [found.end_ms for found in iterators[2]] == ends[first_ms:][::-1]
        for iterator in iterators[1::2]:
            next(iterator)
            iterator.close()

        assert engine.are_closed() == [True] * 4


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_read_that_fails_leaves_no_snapshot(isolation: str, engine: Watched) -> None:
    """An engine whose files are held by it would never remove them."""
    faulty = FaultyEngine(engine)
    store: Any = open_on_engine(faulty, SESSION, durability=Durability.PROCESS_CRASH)
    store.put(b"a", 1, 2, b"v")
    view = store.read_only(isolation)
    for call, read in (
        ("scan", view.find_all_sessions),
        ("scan", lambda: view.find_sessions(b"a")),
        ("get_many", lambda: view.fetch_many([b"a"], [1], [2])),
    ):
        faulty.plan(Fault(call=call, at=1))
        with pytest.raises(StorageError):
            read()
        assert faulty.struck == 1
    assert engine.are_closed() == [True] * 3


@pytest.mark.spec("COM-15", "ROF-1")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_view_of_a_closed_store_says_so(isolation: str, engine: Watched, store: Any) -> None:
    """Also where the engine is open still: nobody takes its rows any more."""
    view = store.read_only(isolation)
    store.close()
    engine.taken.clear()

    for read in (
        view.find_all_sessions,
        lambda: view.find_sessions(b"a"),
        view.find_sessions_by_end,
        lambda: view.fetch_many([b"a"], [1], [2]),
        store.committed_content,
    ):
        with pytest.raises(StoreClosedError, match="the store 's' is closed"):
            read()
    assert engine.taken == []


@for_each(
    ("first_ms", "last_ms", "horizon_ms", "expected"),
    [
        (None, None, -1, (0, MAX_TIME_MS)),
        (None, 7, -90, (0, 7)),
        (0, 7, 0, (1, 7)),
        (4, 7, 3, (4, 7)),
        (4, 7, 4, (5, 7)),
        (5, 0, 3, (5, 0)),
    ],
)
def test_visible_is_what_is_above_the_horizon(
    first_ms: int | None, last_ms: int | None, horizon_ms: int, expected: tuple[int, int]
) -> None:
    """Of a range of times, and of rows that were fetched."""
    assert visible_times(first_ms, last_ms, horizon_ms) == expected
    times = [0, 3, 4, 5, 9]
    values: list[bytes | None] = [b"%d" % time_ms for time_ms in times]
    kept = [b"%d" % time_ms if time_ms > horizon_ms else None for time_ms in times]
    assert without_expired(list(values), times, horizon_ms) == (kept, kept.count(None))
    assert without_expired([], [], horizon_ms) == ([], 0)
