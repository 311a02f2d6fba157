"""The index of windows and sessions: what a commit names in groups, and what of them goes when."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from statestores.errors import StorageError, StoreCorruptedError, UnsupportedFormatError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.name_groups import (
    MOST_BYTES,
    MOST_NAMES,
    group_key,
    groups_of,
    is_group,
    pack_names,
    unpack_names,
)
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.retained.rows import RetainedRows, pack_time
from statestores.semantics.rows.layout import DATA, END, FORMAT_ROW, HISTORY, PROGRESS_ROW
from statestores.spi import Durability, Engine, Session, Window
from statestores.spi.engine import WriteBatch
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

RETENTION_MS = 6_400
SPAN_MS = 100
WINDOW = Window("w", retention_ms=RETENTION_MS, window_size_ms=10)
SESSION = Session("s", retention_ms=RETENTION_MS)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with load_backend("memory").open("unused") as engine:
        yield engine


def opened(engine: Engine, specification: Any = WINDOW, **options: Any) -> Any:
    """Open a store, which leaves the engine open."""
    kept = KeptOpen(engine)
    return open_on_engine(kept, specification, durability=Durability.PROCESS_CRASH, **options)


def put_many(store: Any, count: int, time_ms: int, first: int = 0) -> None:
    """Put *count* windows that start at *time_ms*, and commit."""
    for number in range(first, first + count):
        store.put(b"%d" % number, b"v", time_ms)
    store.commit({})


class Noting(KeptOpen):
    """Notes the keys that each batch changes."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.given: list[list[bytes]] = []

    def apply(self, batch: WriteBatch, durability: Durability) -> None:  # noqa: D102  # as of the base
        self.given.append(list(batch))
        super().apply(batch, durability)


def put_sessions(store: Any, count: int, start_ms: int, end_ms: int) -> None:
    """Put sessions of *count* keys, and commit."""
    for number in range(count):
        store.put(b"%d" % number, start_ms, end_ms, b"v")
    store.commit({})


def index_of(engine: Engine) -> tuple[list[int], int]:
    """Return how many names each group has, and how many rows of the index stand for one."""
    rows = list(engine.scan(HISTORY, END))
    groups = [len(unpack_names(key, packed)) for key, packed in rows if is_group(key)]
    return groups, len(rows) - len(groups)


def check(engine: Engine) -> None:
    """Find nothing wrong with the rows."""
    examined = examine_rows(engine)

    assert examined is not None
    assert examined.problems == []


@pytest.mark.spec("LAY-30")
@for_each("names", [[b"a"], [b"abc"] * 5, [b"a", b"bcd", b""], [b"x" * 70_000, b"y"]])
def test_names_come_back(names: list[bytes]) -> None:
    """Of one length or of several; also the longest."""
    assert unpack_names(b"k", pack_names(names)) == names


@pytest.mark.spec("LAY-30")
@for_each(
    "packed", [b"", b"\0\0", bytes(4), b"\0\0\0\5abcdefg", b"\0\0\0\0\0\0\0\5abc", b"\0\0\0\5"]
)
def test_what_cannot_be_names_is_damage(packed: bytes) -> None:
    """An error, and not fewer names: rows would stay for ever."""
    with pytest.raises(StoreCorruptedError, match="LAY-30"):
        unpack_names(b"k", packed)


@pytest.mark.spec("LAY-30")
@for_each(("count", "size"), [(1, 1), (1_024, 9), (1_025, 9), (5_000, 40), (9, 40_000)])
def test_a_group_has_a_bound(count: int, size: int) -> None:
    """In names and bytes, so that a small commit can read one; nothing is lost at the seams."""
    names = [b"%d" % number + bytes(size) for number in range(count)]
    parts = [list(part) for part in groups_of(names, sum(map(len, names)))]

    assert [name for part in parts for name in part] == names
    assert all(1 <= len(part) <= MOST_NAMES for part in parts)
    assert all(sum(map(len, part[:-1])) < MOST_BYTES for part in parts)


@pytest.mark.spec("LAY-20", "LAY-30")
def test_no_row_for_one_looks_like_a_group() -> None:
    """Whatever the key: the tag is no escape and no terminator."""
    for has_number in (False, True):
        rows = RetainedRows(has_number=has_number)
        for key in (b"", b"\0", b"\0\1", b"\1", b"\0\0\1", b"\xff"):
            index_key = rows.index_key(rows.data_key(key, 1, 1))
            assert not is_group(index_key)
            assert rows.indexed_key(index_key) == rows.data_key(key, 1, 1)
    assert is_group(group_key(pack_time(1), 0))


@pytest.mark.spec("LAY-2", "LAY-21", "LAY-30")
def test_the_first_group_makes_it_format_2(engine: Engine) -> None:
    """Until then an older release may open the store; afterwards it refuses."""
    store = opened(engine)
    put_many(store, 5, 10)
    before = engine.get(FORMAT_ROW), len(engine.get(PROGRESS_ROW) or b"")
    put_many(store, 50, 20)

    assert before == (b"1", 17)
    assert engine.get(FORMAT_ROW) == b"2"
    assert index_of(engine) == ([50], 5)
    check(engine)
    engine.apply({FORMAT_ROW: b"3"}, Durability.PROCESS_CRASH)
    with pytest.raises(UnsupportedFormatError, match="versions 1 and 2"):
        opened(engine)


@pytest.mark.spec("LAY-20")
def test_a_window_that_is_updated_is_named_once(engine: Engine) -> None:
    """The index does not grow with the puts; nor after a crash, when nothing is remembered."""
    store = opened(engine)
    for _ in range(5):
        put_many(store, 50, 20)
    assert index_of(engine) == ([50], 0)
    for _ in range(5):
        put_many(opened(engine), 50, 20)

    assert index_of(engine) == ([50], 50)
    check(engine)


@pytest.mark.spec("LAY-20")
def test_memory_for_names_has_a_bound(engine: Engine) -> None:
    """Without any, a span gets one group, and then rows that replace themselves."""
    store = opened(engine, read_cache_bytes=0)
    for _ in range(5):
        put_many(store, 50, 20)

    assert index_of(engine) == ([50], 50)
    check(engine)


@pytest.mark.spec("LAY-30", "WIN-8", "WIN-18")
def test_a_group_lies_at_its_highest_time(engine: Engine) -> None:
    """Nothing that is visible goes, and nothing stays a span longer than it must."""
    store = opened(engine)
    for number in range(60):
        store.put(b"%d" % number, b"v", 2 * SPAN_MS + number)
    store.commit({})
    store.put(b"x", b"v", 2 * SPAN_MS + 58 + RETENTION_MS)
    store.commit({})
    before = sum(1 for _ in engine.scan(DATA, HISTORY))
    visible = len(list(store.fetch_all()))
    store.put(b"x", b"v", 2 * SPAN_MS + 59 + RETENTION_MS)
    store.commit({})

    assert (before, visible) == (61, 2)
    assert [each.key for each in store.fetch_all()] == [b"x", b"x"]
    assert sum(1 for _ in engine.scan(DATA, HISTORY)) == 2


@pytest.mark.spec("LAY-31", "LAY-21", "WIN-20", "WIN-19")
def test_a_group_goes_in_parts_across_openings(engine: Engine) -> None:
    """Each opening removes a part, and none begins again; the group goes with the last one."""
    put_many(opened(engine), 500, 20)
    opened(engine).put(b"x", b"v", 20)
    store = opened(engine)
    store.put(b"x", b"v", 10 * RETENTION_MS)
    store.commit({})
    left = []
    while index_of(engine)[0]:
        check(engine)
        left.append(sum(1 for _ in engine.scan(DATA, HISTORY)))
        watched = FaultyEngine(engine)
        open_on_engine(watched, WINDOW, durability=Durability.PROCESS_CRASH).commit({})
        assert len(watched.batches[-1]) <= 70

    assert left == sorted(left, reverse=True)
    assert len(left) <= 500 // 64 + 1
    assert index_of(engine) == ([], 1)
    assert read_retained_progress(engine).gone == 0


def half_removed(engine: Engine) -> tuple[list[bytes], RetainedProgress]:
    """Leave a group of which some names are gone; return all of them, and the progress."""
    store = opened(engine)
    put_many(store, 500, 20)
    store.put(b"x", b"v", 10 * RETENTION_MS)
    store.commit({})
    progress = read_retained_progress(engine)
    check(engine)
    packed = engine.get(progress.cursor)
    assert packed is not None
    assert 0 < progress.gone < 500
    return unpack_names(progress.cursor, packed), progress


@pytest.mark.spec("LAY-31", "LAY-21")
def test_a_name_that_is_gone_names_nothing(engine: Engine) -> None:
    """A row that has only such a name would never be removed, and was found in order."""
    names, _ = half_removed(engine)
    engine.apply({names[0]: b"v"}, Durability.PROCESS_CRASH)
    examined = examine_rows(engine)

    assert examined is not None
    assert examined.problems == [f"the row {names[0]!r} has no name in the index (LAY-20)"]


@pytest.mark.spec("LAY-31")
def test_a_group_of_which_all_is_gone_is_damage(engine: Engine) -> None:
    """Also where it has no row left: its last name goes with it."""
    names, progress = half_removed(engine)
    gone = dict.fromkeys(names)
    whole = replace(progress, gone=500)
    engine.apply({**gone, PROGRESS_ROW: whole.pack()}, Durability.PROCESS_CRASH)
    examined = examine_rows(engine)

    assert examined is not None
    assert [problem[:19] for problem in examined.problems] == ["500 names are gone "]


@pytest.mark.spec("SES-18", "LAY-20")
def test_sessions_that_are_merged_leave_no_names(engine: Engine) -> None:
    """Each name that nobody can take back stays for a retention: soon there are no more of them."""
    store = opened(engine, SESSION)
    for end_ms in range(100):
        for number in range(50):
            key = b"%d" % number
            if end_ms:
                store.remove(key, 0, end_ms - 1)
            store.put(key, 0, end_ms, b"v")
        store.commit({})
    groups, singles = index_of(engine)

    assert sum(groups) <= 500
    assert singles <= 50
    assert len(list(store.find_all_sessions())) == 50
    check(engine)


@pytest.mark.spec("SES-18", "LAY-20", "LAY-30")
def test_sessions_that_are_extended_once_are_named_in_groups(engine: Engine) -> None:
    """Half of the names are in vain then, and no more than that ever are."""
    store = opened(engine, SESSION)
    for start_ms in range(0, 10 * SPAN_MS, SPAN_MS):
        put_sessions(store, 100, start_ms, start_ms)
        for number in range(100):
            store.remove(b"%d" % number, start_ms, start_ms)
        put_sessions(store, 100, start_ms, start_ms + 1)
    groups, singles = index_of(engine)

    assert (sum(groups), singles) == (2_000, 0)
    assert len(list(store.find_all_sessions())) == 1_000
    check(engine)


@pytest.mark.spec("LAY-20")
def test_a_deletion_of_what_a_group_names_changes_no_row_of_the_index(engine: Engine) -> None:
    """There is none for it. Deleting it unseen made a third of the rows of merged sessions."""
    noting = Noting(engine)
    store = open_on_engine(noting, SESSION, durability=Durability.PROCESS_CRASH)
    put_sessions(store, 100, 0, 0)
    for number in range(100):
        store.remove(b"%d" % number, 0, 0)
    put_sessions(store, 100, 0, 1)

    assert [is_group(key) for key in noting.given[-1] if key.startswith(HISTORY)] == [True]
    check(engine)


@pytest.mark.spec("LAY-20")
def test_a_deletion_takes_the_name_of_a_row_that_is_in_a_group_too(engine: Engine) -> None:
    """A small commit named it alone, and a large one in a group: the name alone must not stay."""
    store = opened(engine, SESSION)
    store.put(b"k", 0, 0, b"v")
    store.commit({})
    store.put(b"k", 0, 0, b"again")
    put_sessions(store, 40, 0, 1)
    groups, singles = index_of(engine)
    assert (groups, singles) == ([41], 1)
    store.remove(b"k", 0, 0)
    put_sessions(store, 40, 0, 2)

    assert index_of(engine) == ([41, 40], 0)
    check(engine)


@pytest.mark.spec("COM-37", "LAY-20")
def test_a_truncation_takes_the_names_along(engine: Engine) -> None:
    """What was remembered is gone with the index, so the same windows are named again."""
    store = opened(engine)
    put_many(store, 50, 20)
    store.truncate()
    put_many(store, 50, 20)

    assert index_of(engine) == ([50], 0)
    check(engine)


@pytest.mark.spec("COM-8", "COM-43", "LAY-20")
@pytest.mark.parametrize("moment", list(Moment))
def test_a_commit_that_failed_has_named_nothing(engine: Engine, moment: Moment) -> None:
    """Whether the engine had its batch or not, what is stored has names."""
    watched = FaultyEngine(engine)
    store = open_on_engine(watched, WINDOW, durability=Durability.PROCESS_CRASH)
    watched.plan(Fault(call="apply", at=1, moment=moment))
    with pytest.raises(StorageError):
        put_many(store, 50, 20)
    if moment is Moment.BEFORE:
        store.rollback()
    put_many(store, 50, 20)

    assert sum(index_of(engine)[0]) + index_of(engine)[1] >= 50
    check(engine)


@pytest.mark.spec("LAY-21")
@pytest.mark.parametrize(
    "progress",
    [
        RetainedProgress(),
        RetainedProgress(5, 7, HISTORY + bytes(8)),
        RetainedProgress(5, 7, HISTORY + b"\xff" * 30, 1, 0),
        RetainedProgress((1 << 63) - 1, 3, group_key(pack_time(9), 4), 1 << 40, 77),
    ],
)
def test_progress_comes_back(engine: Engine, progress: RetainedProgress) -> None:
    """In the form of format 1 as long as there was no group."""
    engine.apply({PROGRESS_ROW: progress.pack()}, Durability.PROCESS_CRASH)

    assert read_retained_progress(engine) == progress


@pytest.mark.spec("LAY-20", "WIN-18")
def test_a_row_that_was_named_by_itself_is_named_again_when_it_is_put_again(
    engine: Engine,
) -> None:
    """A small commit names it alone, its deletion takes the name, and a large commit puts it again.

    While rows of other spans are kept in memory. Were it taken for one of a group, it would have no
    name any more, and stay in the engine for ever.
    """
    store = opened(engine)
    for number in range(4):
        time_ms = 10_000 + number * 10 * SPAN_MS
        later_ms = time_ms + 2 * SPAN_MS
        store.fetch(b"nobody", time_ms)  # rows of a store that is read are kept
        put_many(store, 40, time_ms)
        store.put(b"k", b"v", later_ms)
        store.commit({})
        store.put(b"k", None, later_ms)
        put_many(store, 40 * (number % 2), later_ms)
        store.put(b"k", b"again", later_ms)
        put_many(store, 40, later_ms)

        check(engine)
        assert store.fetch(b"k", later_ms) == b"again"


@pytest.mark.spec("LAY-30", "WIN-18")
@pytest.mark.parametrize(
    "specification",
    [Window("s", retention_ms=3_200, window_size_ms=10), Session("s", retention_ms=3_200)],
    ids=["windows", "sessions"],
)
def test_rows_of_two_spans_are_not_in_one_group(engine: Engine, specification: Any) -> None:
    """Though the first and the last of them are of one: the others would go with the later span."""
    with opened(engine, specification) as store:
        for number in range(60):
            time_ms = 1 if number in {0, 59} else 2_500
            if isinstance(specification, Window):
                store.put(b"%d" % number, b"v", time_ms)
            else:
                store.put(b"%d" % number, time_ms, time_ms, b"v")
        store.commit({})

    assert index_of(engine) == ([58], 2)
    check(engine)


@pytest.mark.spec("LAY-30", "WIN-18")
def test_what_a_read_gathers_is_named_by_its_spans(engine: Engine) -> None:
    """Columns of two spans became rows when a range was read: together they would go too early."""
    keys = [b"%02d" % number for number in range(20)]
    with opened(engine) as store:
        for start in (50, 150):
            store.put_many(keys, [b"v"] * 20, [start] * 20)
        assert len(list(store.fetch_all(first_ms=0, last_ms=200))) == 40
        store.commit({})
        assert index_of(engine) == ([20, 20], 0)

        for _ in range(2):
            store.put(b"late", b"v", 140 + RETENTION_MS)
            store.commit({})

    check(engine)
    with opened(engine) as store:
        assert [each.key for each in store.fetch_all(first_ms=150, last_ms=150)] == keys
