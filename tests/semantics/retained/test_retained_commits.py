"""What a store of windows or sessions knows of its rows, and what a commit says beside them."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from random import Random
from typing import Any

import pytest

from statestores.errors import StateStoreError, StoreClosedError
from statestores.failpoints import arm, disarm
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.retained.name_groups import is_group, unpack_names
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.rows.content_chunks import CHUNK_ROWS, FIRST_CHUNK_ROWS
from statestores.semantics.rows.layout import DATA, FORMAT_ROW, HISTORY, PROGRESS_ROW
from statestores.spi import Changes, Durability, Engine, Session, Window
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

RETENTION_MS = 640
SPECIFICATIONS: list[Any] = [
    Session("s", retention_ms=RETENTION_MS),
    Window("s", retention_ms=RETENTION_MS, window_size_ms=5),
    Window("s", retention_ms=RETENTION_MS, window_size_ms=5, retain_duplicates=True),
]
KINDS = pytest.mark.parametrize(
    "specification", SPECIFICATIONS, ids=["session", "window", "duplicates"]
)


def opened(engine: Engine, specification: Any = SPECIFICATIONS[0], **options: Any) -> Any:
    """Open a store over *engine*, which it leaves open, with an engine that can be asked."""
    watched = FaultyEngine(KeptOpen(engine))
    store = open_on_engine(watched, specification, durability=Durability.PROCESS_CRASH, **options)
    return store, watched


def put(store: Any, key: bytes, time_ms: int) -> None:
    """Put into a store of either kind."""
    if isinstance(store.specification, Session):
        store.put(key, 0, time_ms, b"v")
    else:
        store.put(key, b"v", time_ms)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with load_backend("memory").open("unused") as engine:
        yield engine


@pytest.mark.spec("SES-6", "LAY-30")
def test_the_bounds_of_pending_rows_are_known_or_are_not(engine: Engine) -> None:
    """Those of columns are; with single sessions among them nobody looks.

    Were they too narrow, sessions of two spans would share a group, and the earlier ones stay in
    the engine for as long as the later ones.
    """
    store, _ = opened(engine)
    dice = Random(5)
    for _ in range(12):
        times: list[int] = []
        is_known = True
        for _ in range(dice.randrange(5)):
            if dice.random() < 0.2:
                is_known = is_known and not store.put(b"single", 0, 700, b"v")
                continue
            count = FEW_ROWS + dice.choice((1, 2, 9))  # fewer are single ones
            ends = [dice.randrange(700, 720) for _ in range(count)]
            store.put_many([b"k"] * len(ends), [0] * len(ends), ends, [b"v"] * len(ends))
            times += ends

            if is_known:
                assert (store._lowest, store._highest) == (min(times), max(times))
            assert (store._bounded_rows == len(store._pending)) is is_known
        if dice.random() < 0.5:
            store.commit({})
        else:
            store.rollback()
        assert store._bounded_rows == len(store._pending) == 0


@pytest.mark.spec("LAY-30", "SES-18")
def test_a_session_beside_columns_is_not_in_their_group(engine: Engine) -> None:
    """It is of a later span, so they would stay as long as it, a whole retention too long."""
    store, _ = opened(engine)
    store.put_many([b"%d" % each for each in range(30)], [0] * 30, [700] * 30, [b"v"] * 30)
    store.put(b"later", 0, 1_100, b"v")
    store.commit({})

    groups = [unpack_names(*row) for row in engine.scan(HISTORY) if is_group(row[0])]
    assert [len(names) for names in groups] == [30]
    store.put(b"last", 700 + RETENTION_MS, 700 + RETENTION_MS, b"v")
    store.commit({})
    assert [key for key, _ in engine.scan(DATA, HISTORY)] == [
        store._rows.data_key(b"last", 700 + RETENTION_MS, 700 + RETENTION_MS),
        store._rows.data_key(b"later", 1_100, 0),
    ]


@KINDS
@pytest.mark.spec("COM-7", "COM-9")
def test_a_commit_that_never_reached_the_engine_moves_nothing(
    engine: Engine, specification: Any
) -> None:
    """Interrupted before its batch was given, and rolled back: stream time is that of before.

    It stayed ahead, and what came then was too late; at the next opening it was not.
    """
    store, _ = opened(engine, specification)
    put(store, b"a", 10)
    store.commit({})
    put(store, b"b", 10 + 2 * RETENTION_MS)

    def interrupt() -> None:
        raise KeyboardInterrupt

    arm("commit.apply.before", interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.commit({})
    finally:
        disarm()
    store.rollback()

    assert store.stream_time_ms == store.read_only().stream_time_ms == 10
    put(store, b"c", 11)
    assert store._dropped == 0
    store.commit({})
    assert read_retained_progress(engine).stream_time_ms == 11


@KINDS
@pytest.mark.spec("LAY-2", "LAY-21", "COM-1")
def test_a_commit_says_what_has_changed_and_no_more(engine: Engine, specification: Any) -> None:
    """Its progress if that has moved, and the version of the layout with the first group alone."""
    store, watched = opened(engine, specification)

    def committed() -> set[bytes]:
        store.commit({})
        return {row for row in watched.batches[-1] if row in (FORMAT_ROW, PROGRESS_ROW)}

    assert committed() == set()
    put(store, b"a", 10)
    assert committed() == {PROGRESS_ROW}
    put(store, b"b", 5)
    has_sequences = getattr(specification, "retain_duplicates", False)
    assert committed() == ({PROGRESS_ROW} if has_sequences else set())
    assert store._progress.floor_ms == 0
    for time_ms, expected in ((10, {FORMAT_ROW, PROGRESS_ROW}), (11, {PROGRESS_ROW})):
        for number in range(30):
            put(store, b"%d" % number, time_ms)
        assert committed() == expected
    assert read_retained_progress(engine) == store._progress
    assert store._progress.stream_time_ms == 11
    assert store._progress.next_sequence == (62 if has_sequences else 0)
    assert store._progress.next_group == sum(is_group(row) for row, _ in engine.scan(HISTORY)) == 2


@KINDS
@pytest.mark.spec("WIN-18", "SES-18")
def test_an_index_is_looked_at_where_something_may_have_expired(
    engine: Engine, specification: Any
) -> None:
    """Before that, the lowest time is known, of what is stored and of what a commit brings."""
    store, watched = opened(engine, specification)
    for time_ms, floor_ms in ((2_000, 2_000), (1_900, 1_900), (2_500, 1_900)):
        put(store, b"k", time_ms)
        store.commit({})
        assert store._progress.floor_ms == floor_ms
    watched.plan(None)
    put(store, b"k", 1_900 + RETENTION_MS - 1)
    store.commit({})
    assert watched.calls["scan"] == 0
    put(store, b"k", 1_900 + RETENTION_MS)
    store.commit({})
    assert watched.calls["scan"] == 1
    assert store._progress.floor_ms == 2_000


def rows_of(store: Any, count: int, time_ms: int, values: Sequence[bytes] = ()) -> SortedRows:
    """Return the rows of *count* windows or sessions, as whoever encodes them elsewhere.

    The first of them have *values*.
    """
    of = store._rows
    data_keys = sorted(of.data_key(b"%04d" % number, time_ms, number) for number in range(count))
    rows = [*zip_longest(data_keys, values, fillvalue=b"v")]
    rows += [(key, b"") for key in of.index_keys(data_keys)]
    return SortedRows(
        rows=rows,
        highest_ms=time_ms + 7,
        lowest_ms=time_ms,
        next_number=count if of.has_number else 0,
        removals=3,
    )


@KINDS
@pytest.mark.spec("COM-1", "WIN-18", "SES-18", "LAY-21")
def test_rows_past_the_writes_move_what_the_store_goes_by(
    engine: Engine, specification: Any
) -> None:
    """Stream time, the sequence, the lowest time, and how much is to be removed besides."""
    store, watched = opened(engine, specification)
    store.commit_rows(SortedRows(), {})
    assert PROGRESS_ROW not in watched.batches[-1]
    assert store.owes_removals is False
    store._progress.floor_ms = 1 << 63
    store.commit_rows(rows_of(store, 5, 1_000), {})

    progress = store._progress
    assert store.stream_time_ms == store._stream_time == progress.stream_time_ms == 1_007
    assert store._horizon == 1_007 - RETENTION_MS
    assert (progress.floor_ms, progress.owed, store.owes_removals) == (1_000, 3, True)
    has_number = store._rows.has_number
    assert progress.next_sequence == store._next_sequence == (5 if has_number else 0)
    assert read_retained_progress(engine) == progress
    store.commit_rows(rows_of(store, 2, 500), {})
    assert store._progress.next_sequence == (5 if has_number else 0)
    assert (store.stream_time_ms, store._progress.floor_ms, store._progress.owed) == (1_007, 500, 6)
    for moment, owed in ((Moment.BEFORE, 6), (Moment.AFTER, 9)):
        watched.plan(Fault(call="apply", at=1, moment=moment))
        with pytest.raises(StateStoreError):
            store.commit_rows(rows_of(store, 1, 1_010 if owed == 6 else 1_020), {})
        watched.plan(None)
        assert store._progress.owed == owed
        assert store.stream_time_ms == (1_007 if owed == 6 else 1_027)
    reopened, _ = opened(engine, specification)
    assert (reopened._progress.owed, reopened.owes_removals) == (0, False)
    # The progress is the same with and without it, so it cannot tell.
    watched.plan(Fault(call="apply", at=1, moment=Moment.AFTER))
    with pytest.raises(StateStoreError):
        store.commit_rows(rows_of(store, 1, 1_000), {})
    watched.plan(None)
    assert store._progress.owed == 12
    store._progress.owed = 1
    assert (store._progress.owed, store.owes_removals) == (1, True)
    store.truncate()
    assert store._progress == store._next_progress == RetainedProgress()
    assert (store._progress.owed, store._progress.floor_ms) == (0, 0)
    assert store.stream_time_ms is None


@KINDS
@pytest.mark.spec("COM-38", "WIN-8", "SES-8")
def test_content_comes_in_chunks_of_what_is_visible(engine: Engine, specification: Any) -> None:
    """They grow from few rows to many; a row that has expired is in none, though it is there."""
    store, _ = opened(engine, specification)
    store.commit_rows(rows_of(store, 2_000, 1_000), {})
    put(store, b"at the horizon", 999)
    store.commit({})
    store.commit_rows(SortedRows(highest_ms=999 + RETENTION_MS), {})
    content = store.committed_content()
    chunks = list(content.changes)

    assert content.stream_time_ms == 999 + RETENTION_MS
    sizes = [len(chunk.keys) for chunk in chunks]
    assert sizes == [*(FIRST_CHUNK_ROWS << step for step in range(4)), CHUNK_ROWS, 16]
    keys = [key for chunk in chunks for key in chunk.keys]
    assert keys == [b"%04d" % number for number in range(2_000)]
    times = "end_times_ms" if isinstance(specification, Session) else "times_ms"
    assert {time for chunk in chunks for time in getattr(chunk, times)} == {1_000}


@pytest.mark.spec("COM-38")
def test_content_of_large_values_comes_in_smaller_chunks(engine: Engine) -> None:
    """A chunk is as large as the values before it let it be, and grows again behind them."""
    store, _ = opened(engine)
    store.commit_rows(rows_of(store, 264, 1_000, [bytes(1 << 19)] * 64), {})

    assert [len(chunk.keys) for chunk in store.committed_content().changes] == [64, 32, 64, 104]


@pytest.mark.spec("WIN-21", "COM-43")
def test_a_duplicate_is_not_put_in_place_of_one_that_is_found_later(engine: Engine) -> None:
    """A copy committed windows past its writes; the engine had them, and could not be asked.

    The number of the next duplicate was read with the answer. What was put before that took the
    place of a window of the copy with the same key and start, and nothing said so.
    """
    specification = SPECIFICATIONS[2]
    store, watched = opened(engine, specification)
    put(store, b"0001", 1_000)
    store.commit({})
    watched.plan(Fault(call="apply", at=1, moment=Moment.AFTER, cuts_off=True))
    with pytest.raises(StateStoreError):
        store.commit_rows(rows_of(store, 3, 1_000, [b"0", b"1", b"2"]), {})
    watched.plan(None)
    for value in (b"later", b"latest"):
        store.put(b"0001", value, 1_000)
    store.commit({})

    expected = [b"v", b"1", b"later", b"latest"]
    for view in (store, store.read_only(), opened(engine, specification)[0]):
        assert [found.value for found in view.fetch_range(b"0001", 0, 2_000)] == expected
    assert read_retained_progress(engine).next_sequence == 5


@KINDS
@pytest.mark.spec("COM-15", "WIN-3", "SES-3")
def test_what_is_too_late_for_a_closed_store_is_no_late_record(
    engine: Engine, specification: Any
) -> None:
    """It was dropped and counted; a store that is closed cannot know what is too late."""
    store, _ = opened(engine, specification)
    put(store, b"k", 9 + RETENTION_MS)
    store.close()

    for key in (b"k", b"other"):
        with pytest.raises(StoreClosedError):
            put(store, key, 9)
    assert store._dropped == 0


@KINDS
@pytest.mark.spec("COM-7", "COM-18", "WIN-21")
def test_the_same_writes_are_the_same_changes_after_a_rollback(
    engine: Engine, specification: Any
) -> None:
    """Their numbers too: whoever processes records anew has them replace themselves (WIN-21).

    And those of a store that was emptied are those of a new one.
    """

    def changes() -> Changes:
        for number in range(3):
            put(store, b"k", 10 + number)
        found: Changes = store.pending_changes()
        return found

    store, _ = opened(engine, specification)
    of_a_new_one = changes()
    store.commit({})
    before = changes()
    store.rollback()

    assert changes() == before
    store.truncate()
    assert changes() == of_a_new_one
