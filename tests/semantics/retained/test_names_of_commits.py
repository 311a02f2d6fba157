"""What is remembered of the names that commits have given, and what is not."""

from collections.abc import Iterator
from typing import Any

import pytest

from statestores.failpoints import arm, disarm
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.name_groups import is_group, unpack_names
from statestores.semantics.retained.named_spans import NamedSpans
from statestores.semantics.retained.named_starts import NamedStarts
from statestores.semantics.retained.naming import Naming
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.retained.rows_by_start import columns_of
from statestores.semantics.rows.layout import END, HISTORY
from statestores.spi import Durability, Engine, Window
from statestores_conformance.subjects.faulty_engine import KeptOpen

WINDOW = Window("w", retention_ms=64_000, window_size_ms=10)
"""A span has a second."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Return an engine of a test."""
    with load_backend("memory").open("unused") as engine:
        yield engine


def opened(engine: Engine, **options: Any) -> Any:
    """Open a store, which leaves the engine open."""
    return open_on_engine(KeptOpen(engine), WINDOW, durability=Durability.PROCESS_CRASH, **options)


def put(store: Any, numbers: range, start_ms: int, value: bytes = b"v") -> None:
    """Put windows of a start, and commit."""
    for number in numbers:
        store.put(b"%04d" % number, value, start_ms)
    store.commit({})


@pytest.mark.spec("WIN-10", "COM-43")
def test_two_interrupts_of_one_commit_lose_no_window(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second came while the first one was dealt with, as a supervisor's after the terminal's.

    What was known of the start was away for the commit, and nobody brought it back: the commit that
    was tried again had only its own windows there, and a range took them for all there are.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    store = opened(engine)
    put(store, range(40), 1_000)
    put(store, range(40), 2_000)
    assert len(list(store.fetch_range(b"0000", 2_000))) == 1
    for number in range(40, 80):
        store.put(b"%04d" % number, b"v", 2_000)
    arm("commit.apply.before", interrupt)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(store, "_forget_cached", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.commit({})
    finally:
        disarm()
    store.commit({})

    for key in (b"0000", b"0079"):
        assert [each.start_ms for each in store.fetch_range(key, 2_000)] == [2_000]
        assert [each.start_ms for each in opened(engine).fetch_range(key, 2_000)] == [2_000]


@pytest.mark.spec("LAY-20")
def test_a_name_that_is_given_alone_takes_no_memory(engine: Engine) -> None:
    """A few new windows in each large commit have a row each, and are not remembered.

    They were counted as if they were, again with each commit that put them: soon all other names
    were forgotten for them, and each had a second row in the index.
    """
    store = opened(engine, read_cache_bytes=20_000)
    put(store, range(1), 1_000)
    put(store, range(40), 3_000)
    for _ in range(100):
        put(store, range(43), 3_000)

    assert sum(1 for _ in engine.scan(HISTORY, END)) == 1 + 1 + 3  # alone, a group, alone
    assert [each.start_ms for each in store.fetch_range(b"0042")] == [3_000]


@pytest.mark.spec("WIN-10")
def test_a_range_has_a_window_that_was_named_alone_beside_others(engine: Engine) -> None:
    """Of two starts that one commit brings, the first has a new window, and the other has none.

    A mutant took all of both starts to be in memory still, where the new one is not.
    """
    store = opened(engine)
    put(store, range(1), 1_000)
    for start_ms in (3_000, 3_010):
        put(store, range(40), start_ms)
    for start_ms, count in ((3_000, 41), (3_010, 40)):
        for number in range(count):
            store.put(b"%04d" % number, b"v", start_ms)
    store.commit({})

    assert store._spans.starts.order == [3_000, 3_010]
    assert [each.start_ms for each in store.fetch_range(b"0040", 3_000)] == [3_000]


@pytest.mark.spec("WIN-9")
def test_a_window_that_a_small_commit_changed_is_changed_again_by_a_large_one(
    engine: Engine,
) -> None:
    """A mutant went on bringing up the value of the small commit."""
    store = opened(engine)
    put(store, range(1), 1_000)
    put(store, range(40), 3_000, b"first")
    put(store, range(1), 3_000, b"small")
    assert store.fetch(b"0000", 3_000) == b"small"
    put(store, range(40), 3_000, b"large")

    assert store.fetch(b"0000", 3_000) == b"large"
    assert store._spans.starts.rows[3_000][b"0000"] == b"large"


@pytest.mark.spec("LAY-30")
def test_no_group_has_names_of_two_spans(subtests: pytest.Subtests) -> None:
    """Nor where the spans of times in a commit are as far from each other as their lengths."""
    of = RetainedRows(has_number=False)
    for times in ([1, 100], [100, 1], [1, 105, 1], [100, 1, 100], [10, 1_000]):
        keys = [
            of.data_key(b"%d-%d" % (place, number), time_ms)
            for place, time_ms in enumerate(times)
            for number in range(12)
        ]
        for bounds in (None, (min(times), max(times))):
            with subtests.test(times=times, bounds=bounds):
                naming = Naming(of, NamedSpans(640, 1 << 20, 0))
                batch, _, _ = naming.batch_of(dict.fromkeys(keys, b"v"), bounds, -540, -1, 0)
                groups = {key: row or b"" for key, row in batch.items() if is_group(key)}
                named = [unpack_names(key, packed) for key, packed in groups.items()]

                assert sorted(name for names in named for name in names) == sorted(keys)
                for names in named:
                    assert len({of.time_of(name) // 10 for name in names}) == 1


ROWS = 30
BY_START, BY_KEY = ROWS * (10 + 40), ROWS * (10 + 60)
"""What values of ten bytes take that are known by their start, or by their keys."""


def memory_of(spans: int, most_names: int, most_values: int, *, by_start: bool) -> NamedSpans:
    """Commit rows of so many *spans*, one after the other; return what is remembered."""
    of = RetainedRows(has_number=False)
    known = NamedSpans(640, most_names, most_values)
    known.takes_new = True
    naming = Naming(of, known)
    for time_ms in range(10, 10 * (spans + 1), 10):
        rows: dict[bytes, bytes | None] = {b"%09d" % at: b"v" * 10 for at in range(ROWS)}
        columns, keys, values = columns_of(of, {time_ms: rows})
        if by_start:
            naming.index_of(columns, ROWS * (len(keys[0]) + 10), -1, 9, 0)
        else:
            naming.batch_of(dict(zip(keys, values, strict=True)), None, -1, 9, 0)
        naming.committed()
    return known


@pytest.mark.parametrize("by_start", [True, False])
def test_memory_is_used_up_to_its_last_byte(*, by_start: bool, subtests: pytest.Subtests) -> None:
    """What fits is kept; one byte more, and the earliest rows, or names, are given up.

    They are so down to seven eighths of the memory for rows, or six where rows are known by their
    keys, which are counted again and again.
    """
    values = BY_START if by_start else BY_KEY
    whole = memory_of(4, 1 << 20, 1 << 20, by_start=by_start)
    names = (whole._name_bytes + whole.starts.name_bytes) // 4

    def kept(spans: int, most_values: int) -> list[int]:
        known = memory_of(spans, 1 << 20, most_values, by_start=by_start)
        return sorted(known.starts.kept_spans() if by_start else known.rows)

    with subtests.test("rows that fit"):
        assert kept(8, 8 * values) == [1, 2, 3, 4, 5, 6, 7, 8]
    with subtests.test("rows that do not"):
        assert kept(9, 8 * values) == ([3, 4, 5, 6, 7, 8, 9] if by_start else [4, 5, 6, 7, 8, 9])
    with subtests.test("one byte less"):
        assert kept(8, 8 * values - 1) == ([3, 4, 5, 6, 7, 8] if by_start else [4, 5, 6, 7, 8])
    with subtests.test("of one byte no row, and no range from memory"):
        known = memory_of(3, 1 << 20, 1, by_start=by_start)

        assert known.starts.kept_spans() == list(known.rows) == []
        assert known.whole_from_ms == 40
    for spans, most in ((5, 4 * names), (4, 4 * names - 1)):
        with subtests.test("names", most=most):
            known = memory_of(spans, most, 1 << 20, by_start=by_start)

            assert [span for span in range(1, 6) if known.is_known(span)] == [2, 3, 4, 5]


@pytest.mark.spec("WIN-10", "COM-7")
def test_an_interrupted_rollback_hides_no_window(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had forgotten which windows there are, and not yet that it knows all of them."""

    def interrupted(starts: NamedStarts) -> None:
        starts.rows.clear()
        starts.order.clear()
        raise KeyboardInterrupt

    store = opened(engine)
    put(store, range(40), 1_000)
    put(store, range(40), 3_000)
    assert [each.start_ms for each in store.fetch_range(b"0000", 2_000)] == [3_000]
    with monkeypatch.context() as patch:
        patch.setattr(NamedStarts, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.rollback()

    assert [each.start_ms for each in store.fetch_range(b"0000", 2_000)] == [3_000]
    store.rollback()
    assert [each.start_ms for each in store.fetch_range(b"0000", 2_000)] == [3_000]
