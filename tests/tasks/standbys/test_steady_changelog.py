"""A changelog with a pinned end, as copies read it while its writer appends and compacts."""

from collections.abc import Iterator
from typing import Any

import pytest
from copied_counts import seal_and_compact

import statestores as ss
from statestores.changelog import ChangelogReader, FileChangelog, compact
from statestores.errors import OffsetOutOfRangeError, StoreClosedError
from statestores.tasks.copying import steady_changelog
from statestores.tasks.copying.steady_changelog import SteadyChangelog

INPUT = ss.TopicPartition("numbers", 0)


@pytest.fixture
def counts(root: ss.StateRoot) -> Iterator[ss.LoggedStore[Any]]:
    """The writer, with four commits of one change."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as opened:
        for number in range(4):
            _put(opened, number)
        yield opened


def _put(counts: ss.LoggedStore[Any], number: int) -> None:
    counts.store.put("number", number)
    counts.commit({INPUT: number})


def _steady(root: ss.StateRoot) -> SteadyChangelog:
    return SteadyChangelog(ChangelogReader.open(root.partition("counts", 0).changelog))


@pytest.mark.spec("STB-1", "STB-2")
def test_it_ends_where_it_ended(root: ss.StateRoot, counts: ss.LoggedStore[Any]) -> None:
    """What the writer appends later is for the next look, and so is its position."""
    steady = _steady(root)
    _put(counts, 4)

    assert (steady.first_offset, steady.end_offset, steady.compacted_to) == (0, 4, 0)
    assert steady.position == {INPUT: 3}
    assert steady.store_kind == "key-value"
    assert [frame.last_offset for frame in steady.read()] == [0, 1, 2, 3]
    assert [frame.last_offset for frame in steady.read(1, 3)] == [1, 2]
    assert list(steady.read(4)) == []
    steady.close()
    assert not steady.is_open
    with pytest.raises(StoreClosedError, match="open another one"):
        _ = steady.end_offset


@pytest.mark.spec("STB-2")
@pytest.mark.parametrize(("looks_at", "given"), [(1, 1), (2, 1), (4, 3), (4_096, 4)])
def test_a_compaction_is_noticed_while_it_is_read(
    root: ss.StateRoot,
    counts: ss.LoggedStore[Any],
    monkeypatch: pytest.MonkeyPatch,
    looks_at: int,
    given: int,
) -> None:
    """By the look at every so many rows, before they are given; at the latest by the last one."""
    monkeypatch.setattr(steady_changelog, "_LOOK_ROWS", looks_at)
    steady = _steady(root)
    frames = steady.read()
    found = [next(frames)]
    seal_and_compact(counts)
    with pytest.raises(OffsetOutOfRangeError, match="compacted up to offset 4 while it was read"):
        found.extend(frames)
    steady.close()

    assert len(found) == given


@pytest.mark.spec("STB-2")
@pytest.mark.parametrize(("looks_at", "looks"), [(1, 4), (2, 2), (3, 2), (4, 1), (6, 1), (7, 0)])
def test_a_frame_counts_by_its_rows_and_one_without_as_one(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch, looks_at: int, looks: int
) -> None:
    """Here one of three rows, two of none, and one of one row; another look is at the end."""
    with ss.open_logged_store(root, "counts", 1, backend="memory") as counts:
        counts.store.put_many(["a", "b", "c"], [1, 2, 3])
        counts.commit({INPUT: 0})
        for number in (1, 2):
            counts.commit({INPUT: number})
        _put(counts, 3)
        assert isinstance(counts.changelog, FileChangelog)
        counts.changelog.seal()  # which compacts nothing
    monkeypatch.setattr(steady_changelog, "_LOOK_ROWS", looks_at)
    steady = SteadyChangelog(ChangelogReader.open(root.partition("counts", 1).changelog))
    looked: list[int] = []
    look = steady._look

    def counted() -> int:
        looked.append(look())
        return looked[-1]

    monkeypatch.setattr(steady, "_look", counted)
    rows = [frame.batch.num_rows for frame in steady.read()]
    steady.close()

    assert rows == [3, 0, 0, 1]
    assert steady.compacted_to == 0
    assert looked == [0] * (looks + 1)


@pytest.mark.spec("STB-2")
def test_what_lies_behind_a_compaction_is_read_on(
    root: ss.StateRoot, counts: ss.LoggedStore[Any]
) -> None:
    """Whoever begins at its end passes nothing of what it has voided."""
    _put(counts, 4)
    steady = _steady(root)
    assert isinstance(counts.changelog, FileChangelog)
    counts.changelog.seal()
    _put(counts, 5)
    compact(counts.changelog)
    frames = list(steady.read(5, 5))
    with pytest.raises(OffsetOutOfRangeError):
        list(steady.read(4, 5))
    again = _steady(root)

    assert frames == []
    assert again.compacted_to == 5
    assert [frame.last_offset for frame in again.read(5)] == [5]
    steady.close()
    again.close()
