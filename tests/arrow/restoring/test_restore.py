"""Restoring: what it gives, what it refuses, and what it leaves when it is interrupted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statestores.arrow import Progress, Snapshot, read_snapshot, restore, write_snapshot
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.snapshots.files import LocalFiles
from statestores.spi import (
    KeyValue,
    KeyValueStore,
    Position,
    TopicPartition,
    Versioned,
    VersionedStore,
)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]
BytesVersions = VersionedStore[bytes, bytes]
Ask = Callable[[Any], dict[str, Any]]

COUNTS = KeyValue("counts")
RATES = Versioned("rates", history_retention_ms=1_000)
INPUT = TopicPartition("input", 0)


# What it gives.


@pytest.mark.spec("SNP-10")
def test_a_snapshot_of_any_backend_restores_into_any(
    source: str,
    target: str,
    counts: BytesStore,
    rates: BytesVersions,
    open_store: Any,
    answers: Ask,
    tmp_path: Path,
) -> None:
    """Key-value and versioned, with deletions and expired history."""
    for original in (counts, rates):
        first = read_snapshot(write_snapshot(original, tmp_path / original.name).path)
        store = open_store(original.specification, source)
        restore(store, snapshot=first)
        second = read_snapshot(write_snapshot(store, tmp_path / "second" / original.name).path)
        copy = open_store(original.specification, target)
        report = restore(copy, snapshot=second)

        assert answers(copy) == answers(store) == answers(original)
        assert report.snapshot_rows == second.rows
        assert (report.from_offset, report.offset) == (None, first.offset)


@pytest.mark.spec("SNP-10")
def test_an_empty_snapshot_brings_offsets_position_and_stream_time(
    open_store: Any, rates_log: TopicPartition, answers: Ask, tmp_path: Path
) -> None:
    """All rows are gone, and what the store has seen is not."""
    store = open_store(Versioned("rates", history_retention_ms=0))
    store.put(b"a", None, 100)
    store.put(b"b", None, 50)
    store.advance_position({INPUT: 9})
    store.commit({rates_log: 3})
    taken = read_snapshot(write_snapshot(store, tmp_path).path)
    copy = open_store(Versioned("rates", history_retention_ms=0))

    report = restore(copy, snapshot=taken)

    assert answers(copy) == answers(store)
    assert copy.stream_time_ms == 100
    assert report.offset == 3


@pytest.mark.spec("SNP-10")
def test_stream_time_outlives_all_rows(
    open_store: Any, rates: BytesVersions, tmp_path: Path
) -> None:
    """Another writer may leave out every row that has expired, the last deletion included."""
    written = read_snapshot(write_snapshot(rates, tmp_path).path)
    without_rows = Snapshot(LocalFiles(written.path), replace(written.manifest, files=()))
    copy = open_store(RATES)
    restore(copy, snapshot=without_rows)

    assert list(copy.scan_as_of()) == []
    assert copy.stream_time_ms == rates.stream_time_ms


@pytest.mark.spec("SNP-10")
def test_a_changelog_alone_is_enough_when_it_begins_at_0(
    live: BytesStore, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """Content, offset and position."""
    copy = open_store(COUNTS)

    report = restore(copy, changelog=counts_changelog)

    assert answers(copy) == answers(live)
    assert copy.position == Position({INPUT: 39})
    assert (report.snapshot_rows, report.snapshot_offset) == (0, None)
    assert report.changelog_rows == counts_changelog.end_offset


@pytest.mark.spec("SNP-10")
def test_a_snapshot_and_the_tail_after_it(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """The changelog has lost what the snapshot holds."""
    counts_changelog.forget_until(snapshot.offset + 1)
    copy = open_store(COUNTS)

    report = restore(copy, snapshot=snapshot, changelog=counts_changelog)

    assert answers(copy) == answers(live)
    assert report.snapshot_rows == snapshot.rows
    assert report.changelog_rows == counts_changelog.end_offset - snapshot.offset - 1


@pytest.mark.spec("SNP-10")
def test_a_store_that_is_behind_takes_the_tail_only(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """The snapshot is newer than the store, and not needed."""
    copy = open_store(COUNTS)
    restore(copy, changelog=counts_changelog, to_offset=10)
    stood = copy.committed_offset(TopicPartition("counts-changelog", 0))

    report = restore(copy, snapshot=snapshot, changelog=counts_changelog)

    assert answers(copy) == answers(live)
    assert report.from_offset == stood
    assert report.snapshot_rows == 0
    assert report.changelog_rows == counts_changelog.end_offset - stood - 1


@pytest.mark.spec("SNP-10")
def test_a_store_behind_a_truncated_changelog_starts_over_from_the_snapshot(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """What the store held and the snapshot does not was deleted in between."""
    copy = open_store(COUNTS)
    restore(copy, changelog=counts_changelog, to_offset=10)
    counts_changelog.forget_until(snapshot.offset + 1)

    report = restore(copy, snapshot=snapshot, changelog=counts_changelog)

    assert answers(copy) == answers(live)
    assert report.snapshot_offset == snapshot.offset


@pytest.mark.spec("SNP-10", "SNP-13")
@pytest.mark.parametrize(("missing", "needed"), [(0, False), (1, True)])
def test_the_snapshot_is_needed_from_the_first_missing_offset_on(
    live: BytesStore,
    snapshot: Any,
    counts_changelog: Any,
    open_store: Any,
    answers: Ask,
    missing: int,
    needed: bool,
) -> None:
    """The changelog begins right after the store's offset, or one later."""
    copy = open_store(COUNTS)
    stood = restore(copy, changelog=counts_changelog, to_offset=10).offset

    assert stood is not None
    counts_changelog.forget_until(stood + 1 + missing)

    report = restore(copy, snapshot=snapshot, changelog=counts_changelog)

    assert (report.snapshot_offset is not None) is needed
    assert answers(copy) == answers(live)


@pytest.mark.spec("SNP-11")
def test_restoring_what_is_up_to_date_changes_nothing(
    live: BytesStore, snapshot: Any, counts_changelog: Any, answers: Ask
) -> None:
    """Also with a snapshot at hand that is older than the store."""
    before = answers(live)

    report = restore(live, snapshot=snapshot, changelog=counts_changelog)

    assert answers(live) == before
    assert (report.snapshot_rows, report.changelog_rows) == (0, 0)
    assert report.from_offset == report.offset == counts_changelog.end_offset - 1


def test_an_empty_changelog_restores_an_empty_store(open_store: Any, counts_changelog: Any) -> None:
    """The first start of an application."""
    store = open_store(COUNTS)

    report = restore(store, changelog=counts_changelog)

    assert report.offset is None
    assert store.committed_offsets() == {}


@pytest.mark.spec("SNP-14")
@pytest.mark.parametrize("batch_rows", [1, 7, 1_000])
def test_a_clear_frame_empties_the_store(
    live: BytesStore,
    counts_changelog: Any,
    counts_log: TopicPartition,
    open_store: Any,
    answers: Ask,
    batch_rows: int,
    write_commits: Any,
) -> None:
    """And what comes after it is applied, with its position alone."""
    clear = counts_changelog.record_clear()
    live.truncate()
    live.commit({counts_log: clear})
    write_commits(live, counts_changelog, counts_log, range(100, 103))
    copy = open_store(COUNTS)

    restore(copy, changelog=counts_changelog, batch_rows=batch_rows)

    assert answers(copy) == answers(live)


@pytest.mark.spec("SNP-14")
def test_a_clear_frame_at_the_end_leaves_an_empty_store_with_an_offset(
    live: BytesStore, counts_changelog: Any, counts_log: TopicPartition, open_store: Any
) -> None:
    """Nothing follows, and the store must not read it again."""
    clear = counts_changelog.record_clear()
    copy = open_store(COUNTS)
    restore(copy, changelog=counts_changelog)

    assert list(copy.range()) == []
    assert copy.committed_offsets() == {counts_log: clear}
    assert copy.position == Position()


@pytest.mark.spec("SNP-22")
def test_a_restore_stops_at_the_last_commit_up_to_an_offset(
    live: BytesStore, counts_changelog: Any, open_store: Any
) -> None:
    """Each commit has 6 changes or 5: one that only partly belongs is left out."""
    ends = [frame.last_offset for frame in counts_changelog.read()]
    for to_offset in (ends[0] - 1, ends[0], ends[3] + 1, ends[-1] - 1, ends[-1]):
        copy = open_store(COUNTS)
        report = restore(copy, changelog=counts_changelog, to_offset=to_offset)
        expected = max((end for end in ends if end <= to_offset), default=None)

        assert report.offset == expected
        assert copy.committed_offset(TopicPartition("counts-changelog", 0)) == expected


def test_a_changelog_under_another_name_keeps_its_offset_under_it(
    live: BytesStore, counts_changelog: Any, open_store: Any
) -> None:
    """Kafka's topics begin with the application's id."""
    log = TopicPartition("app-counts-changelog", 3)
    copy = open_store(COUNTS)
    restore(copy, changelog=counts_changelog, partition=log)

    assert copy.committed_offsets() == {log: counts_changelog.end_offset - 1}


def test_progress_counts_rows_up_to_the_total(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """Those of the snapshot and those of the changelog."""
    counts_changelog.forget_until(snapshot.offset + 1)
    told: list[Progress] = []
    restore(
        open_store(COUNTS),
        snapshot=snapshot,
        changelog=counts_changelog,
        batch_rows=10,
        progress=told.append,
    )
    total = snapshot.rows + counts_changelog.end_offset - snapshot.offset - 1

    assert [progress.rows for progress in told] == sorted(progress.rows for progress in told)
    assert {progress.total_rows for progress in told} == {total}
    assert told[-1].rows == total
    assert told[-1].bytes > 0


# What it refuses, before anything is changed.


class _Interrupted(Exception):  # noqa: N818  # it is no failure of anybody
    pass


def _interrupt_after(rows: int) -> Callable[[Progress], None]:
    def callback(progress: Progress) -> None:
        if progress.rows >= rows:
            raise _Interrupted

    return callback


@pytest.mark.spec("SNP-12")
def test_a_half_restored_store_has_a_mark_and_no_offset(
    snapshot: Any, counts_log: TopicPartition, open_store: Any
) -> None:
    """So nobody takes it for complete, and the restore knows that the rows are its own."""
    store = open_store(COUNTS)
    with pytest.raises(_Interrupted):
        restore(store, snapshot=snapshot, batch_rows=3, progress=_interrupt_after(9))

    assert len(list(store.read_only().range())) == 9
    assert store.committed_offset(counts_log) is None
    assert store.committed_offsets() == {restore_mark(COUNTS): snapshot.offset}
    assert store.uncommitted_bytes == 0


@pytest.mark.spec("SNP-12")
def test_an_interrupted_restore_starts_over_also_from_another_snapshot(
    live: BytesStore,
    snapshot: Any,
    counts_log: TopicPartition,
    counts_changelog: Any,
    open_store: Any,
    answers: Ask,
    tmp_path: Path,
) -> None:
    """Rows of the first one that were deleted before the second one must not survive."""
    store = open_store(COUNTS)
    with pytest.raises(_Interrupted):
        restore(store, snapshot=snapshot, batch_rows=3, progress=_interrupt_after(9))
    for key, _ in list(live.range()):
        live.delete(key)
    live.put(b"only", b"1")
    live.commit({counts_log: counts_changelog.record(live)})
    newer = read_snapshot(write_snapshot(live, tmp_path / "newer").path)

    report = restore(store, snapshot=newer)

    assert answers(store) == answers(live)
    assert list(store.range()) == [(b"only", b"1")]
    assert report.from_offset is None


@pytest.mark.spec("SNP-12")
def test_an_interrupted_restore_can_be_finished_by_a_whole_changelog(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """The snapshot has been removed meanwhile, and the changelog begins at 0."""
    store = open_store(COUNTS)
    with pytest.raises(_Interrupted):
        restore(store, snapshot=snapshot, batch_rows=3, progress=_interrupt_after(9))

    restore(store, changelog=counts_changelog)

    assert answers(store) == answers(live)


@pytest.mark.spec("SNP-11")
def test_a_restore_interrupted_in_the_changelog_goes_on_from_its_offset(
    live: BytesStore, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """Nothing that was committed is read again."""
    store = open_store(COUNTS)
    with pytest.raises(_Interrupted):
        restore(store, changelog=counts_changelog, batch_rows=1, progress=_interrupt_after(60))
    stood = store.committed_offset(TopicPartition("counts-changelog", 0))

    report = restore(store, changelog=counts_changelog)

    assert answers(store) == answers(live)
    assert report.from_offset == stood
    assert report.changelog_rows == counts_changelog.end_offset - 1 - (stood or 0)
