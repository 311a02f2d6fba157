"""A write to many partitions happens as a whole or not at all, whatever dies in between."""

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from staged_counts import (
    NEW,
    OLD,
    PARTITIONS,
    SPECIFICATION,
    batch_of,
    content,
    kill_after_intent,
    leftovers,
    readers,
    root_with_old,
    staged,
)

import statestores as ss
from statestores import failpoints
from statestores.arrow.file_access import checksum_of
from statestores.changelog import FileChangelog, change_schema
from statestores.errors import (
    InvalidArgumentError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.logged_store import open_logged_store
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_reader import end_offsets
from statestores.resharding import reshard
from statestores.staging.staged_rows import StagedFile, StagedWriter, staged_batches
from statestores.staging.staged_write import discard, publish, stage, write_at_once
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import StreamBatch, staging_directory

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with a key-value store that holds `OLD`."""
    return root_with_old(tmp_path)


def test_append_merges_and_overwrite_replaces(root: ss.StateRoot) -> None:
    """Deletions delete, and nothing stays behind."""
    rows = [staged(root, "w1", "t0", NEW.items()), staged(root, "w1", "t1", [(b"k00", None)])]
    written = publish(root, "counts", "w1", rows)

    assert written.rows == len(NEW) + 1
    assert list(written.end_offsets.values()) == end_offsets(readers(root))
    assert content(root) == {key: value for key, value in (OLD | NEW).items() if key != b"k00"}
    publish(root, "counts", "w2", [staged(root, "w2", "t0", [(b"x", b"1")])], "overwrite")
    assert content(root) == {b"x": b"1"}
    publish(root, "counts", "w3", [], "overwrite")
    assert content(root) == {}
    assert leftovers(root) == set()


def test_keys_are_in_the_partition_of_the_partitioner(root: ss.StateRoot) -> None:
    """A store that is opened by its owner finds each key where it looks for it."""
    partitioner = partitioner_by_name("murmur2")
    for number, reader in enumerate(readers(root)):
        keys = [key for batch in reader.rows() for key in batch["key"].to_pylist()]

        assert keys
        assert {partitioner.partition(key, PARTITIONS) for key in keys} == {number}


def test_of_one_key_the_last_row_of_the_last_task_wins(root: ss.StateRoot) -> None:
    """The order is that of the tasks and of their rows, however often a task has spilled."""
    rows = [
        staged(root, "w", "t1", [(b"k", b"1"), (b"k", b"2")]),
        staged(root, "w", "t0", [(b"k", b"3"), (b"k", b"4")]),
    ]
    publish(root, "counts", "w", rows)

    assert content(root)[b"k"] == b"4"


def test_rows_of_attempts_that_failed_are_ignored(root: ss.StateRoot) -> None:
    """Only what the caller names is published; the rest is removed with it."""
    staged(root, "w", "t0-attempt0", [(b"failed", b"1")])
    succeeded = staged(root, "w", "t0-attempt1", [(b"good", b"1")])
    publish(root, "counts", "w", [succeeded])

    assert content(root) == OLD | {b"good": b"1"}
    assert leftovers(root) == set()


def test_rows_staged_beside_partitions_that_were_replaced_are_missed(root: ss.StateRoot) -> None:
    """A write that merges, overtaken by two reshards, was told to look at its file system.

    What it had staged went with the old partitions. Nothing of it is there, and it can be repeated.
    """
    rows = [staged(root, "w", "t0", NEW.items())]
    for partitions in (PARTITIONS + 1, PARTITIONS):
        reshard(ss.StateRoot.open(root.path), "counts", partitions)
    now = ss.StateRoot.open(root.path)

    with pytest.raises(StoreReshardedError, match=r"were replaced since rows .* by a reshard"):
        publish(now, "counts", "w", rows)
    assert content(now) == OLD
    publish(now, "counts", "w", [staged(now, "w", "t1", NEW.items())])
    assert content(now) == OLD | NEW


def test_a_partition_in_other_hands_changes_nothing(root: ss.StateRoot) -> None:
    """One writer with one partition open is enough to refuse the whole write."""
    rows = [staged(root, "w", "t0", NEW.items())]
    changelog = root.partition("counts", 2).changelog
    with FileChangelog.open(changelog, SPECIFICATION.kind):
        with pytest.raises(StoreLockedError, match=f"in process {os.getpid()}"):
            publish(root, "counts", "w", rows, timeout_ms=0)

        assert content(root) == OLD
        assert leftovers(root) == {"w"}
    publish(root, "counts", "w", rows)
    assert content(root) == OLD | NEW


def test_a_write_waits_for_whoever_has_a_partition(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that was read to its end failed for a second in which another writer committed.

    It waits now, as a write of Spark's does, and holds nothing meanwhile.
    """
    held, seen = ExitStack(), []
    sleep, own = time.sleep, threading.get_ident()

    def pause(seconds: float) -> None:
        if threading.get_ident() != own:  # a thread that another test has left behind
            sleep(seconds)
            return
        with FileChangelog.open(root.partition("counts", 1).changelog, SPECIFICATION.kind):
            seen.append(content(root))
        held.close()

    monkeypatch.setattr(time, "sleep", pause)
    rows = [staged(root, "w", "t0", NEW.items())]
    changelog = root.partition("counts", 2).changelog
    held.enter_context(FileChangelog.open(changelog, SPECIFICATION.kind))
    published = publish(root, "counts", "w", rows)

    assert seen == [OLD]
    assert published.rows == len(NEW)
    assert content(root) == OLD | NEW


def test_damage_of_a_staged_file_is_found_before_the_commit(root: ss.StateRoot) -> None:
    """After it, it would be too late."""
    rows = staged(root, "w", "t0", NEW.items())
    file = staging_directory(root.path / "counts") / "w" / rows.files[0].name
    content_before = bytearray(file.read_bytes())
    content_before[100] ^= 1
    file.write_bytes(content_before)

    with pytest.raises(StoreCorruptedError, match="CRC32C"):
        publish(root, "counts", "w", [rows])
    file.unlink()
    with pytest.raises(StoreNotFoundError, match="that all tasks and the driver share"):
        publish(root, "counts", "w", [rows])
    assert content(root) == OLD


def test_what_is_published_is_checked_once(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit, and not again when it is carried out by the same process.

    The driver had read all files for their sums twice, and then for their rows.
    """
    rows = staged(root, "w1", "t0", NEW.items())
    checked: list[str] = []

    def counted(path: Path) -> int:
        checked.append(path.name)
        return checksum_of(path)

    monkeypatch.setattr("statestores.staging.staged_rows.checksum_of", counted)
    publish(root, "counts", "w1", [rows])

    assert checked
    assert sorted(checked) == sorted(file.name for file in rows.files)


def test_what_was_staged_and_forgotten_is_removed(root: ss.StateRoot) -> None:
    """Not at once: its job may be running."""
    staged(root, "w", "t0", NEW.items())
    finish_staged_writes(root, "counts")

    assert leftovers(root) == {"w"}
    finish_staged_writes(root, "counts", abandoned_after_ms=0)
    assert leftovers(root) == set()


def test_a_discarded_write_leaves_nothing(root: ss.StateRoot, tmp_path: Path) -> None:
    """Not even the directories of a state root that it would have created."""
    staged(root, "w", "t0", NEW.items())
    discard(root.path, "counts", "w")
    elsewhere = tmp_path / "new"
    stage(elsewhere, SPECIFICATION, 1, "w", "t0", [batch_of(b"a")])
    discard(elsewhere, "counts", "w")
    discard(elsewhere, "counts", "w")

    assert leftovers(root) == set()
    assert content(root) == OLD
    assert not elsewhere.exists()


def test_a_late_attempt_does_not_fail_a_write_that_counts(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speculative attempt of a task staged on while the driver published the other one.

    It put a file into the directory that was being emptied. "Directory not empty" was the end of a
    job whose rows counted, and who repeated it had retained duplicates twice.
    """
    rows = staged(root, "w", "first", NEW.items())
    remove, late = os.rmdir, list[str]()

    def stage_meanwhile(path: Any, **options: Any) -> None:
        if not late:
            late.append("late")
            staged(root, "w", "late", NEW.items())
        remove(path, **options)

    monkeypatch.setattr(os, "rmdir", stage_meanwhile)
    publish(root, "counts", "w", [rows])

    assert late == ["late"]
    assert content(root) == OLD | NEW
    assert leftovers(root) == {"w"}
    finish_staged_writes(root, "counts", abandoned_after_ms=0)
    assert leftovers(root) == set()


@pytest.mark.parametrize("batch", [None, StreamBatch(stream="q", number=0)])
def test_rows_that_cannot_be_removed_do_not_fail_a_write_that_counts(
    root: ss.StateRoot,
    batch: StreamBatch | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error said nothing of the rows being there, so the caller would have written them again.

    A micro-batch that comes again does not fail for that, either.
    """

    def refuse(path: Any, **_: Any) -> None:
        raise OSError(errno.EIO, "the disk failed", str(path))

    for _ in range(1 if batch is None else 2):
        rows = staged(root, "w", "t0", NEW.items())
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            publish(root, "counts", "w", [rows], batch=batch)
        assert "the write 'w' counts, and its rows are still there" in caplog.text
        caplog.clear()

    assert content(root) == OLD | NEW
    finish_staged_writes(root, "counts", abandoned_after_ms=0)
    assert leftovers(root) == set()


def test_rows_are_not_discarded_while_somebody_publishes(root: ss.StateRoot) -> None:
    """Two drivers had one checkpoint, and the write of a micro-batch has one name in both.

    One of them failed, and removed what the other one had looked at and was about to commit: that
    write counted then, and nobody could carry it out.
    """
    rows = staged(root, "w", "t0", NEW.items())
    failpoints.arm("publish.checked", lambda: discard(root.path, "counts", "w"))
    try:
        publish(root, "counts", "w", [rows])
    finally:
        failpoints.disarm()

    assert content(root) == OLD | NEW
    assert leftovers(root) == set()


def test_a_write_at_once_is_whole_or_nothing(root: ss.StateRoot) -> None:
    """When its rows end early, nothing has changed and nothing stays staged."""

    def cut_short() -> Iterator[pa.RecordBatch]:
        yield batch_of(b"a")
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_at_once(root, "counts", cut_short())
    assert content(root) == OLD
    assert leftovers(root) == set()
    written = write_at_once(root, "counts", [batch_of(b"a"), batch_of(b"b")], "overwrite")

    assert written.rows == 2
    assert content(root) == {b"a": b"1", b"b": b"1"}


def test_content_without_a_changelog_is_not_hidden(tmp_path: Path) -> None:
    """A changelog that begins beside a live engine would show only what is new."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(SPECIFICATION, partitions=1)
    with ss.open_store(root.partition("counts", 0).path, SPECIFICATION, backend="sqlite") as store:
        store.put(b"a", b"1")
        store.commit({})
    rows = stage(root.path, SPECIFICATION, 1, "w", "t0", [batch_of(b"b")])

    with pytest.raises(StoreMismatchError, match="would hide it"):
        publish(root, "counts", "w", [rows])


@pytest.mark.parametrize(
    ("write_id", "mode"), [("other", "append"), ("w", "merge")], ids=["write id", "mode"]
)
def test_a_wrong_argument_is_refused(root: ss.StateRoot, write_id: str, mode: Any) -> None:
    """Before anything is locked."""
    rows = [staged(root, "w", "t0", NEW.items())]

    with pytest.raises(InvalidArgumentError):
        publish(root, "counts", write_id, rows, mode)


@pytest.mark.parametrize("write_id", ["", "../x", "a b"])
def test_an_id_that_names_no_directory_is_refused(root: ss.StateRoot, write_id: str) -> None:
    """It would reach outside of the directory of writes."""
    with pytest.raises(InvalidArgumentError, match="the id of a write"):
        staged(root, write_id, "t0", NEW.items())


def test_versions_are_appended_in_the_order_of_time(tmp_path: Path) -> None:
    """So none of a write makes another of it too late, however the tasks have shared them."""
    schema = change_schema("versioned")
    files: list[StagedFile] = []
    for task in range(3):
        writer = StagedWriter(
            tmp_path, f"t{task}", schema, partitioner_by_name("murmur2"), 1, spill_bytes=1
        )
        for spill in range(3):
            times = [(7 * row + 5 * spill + task) % 40 // 2 for row in range(50)]
            puts = [
                {"key": b"k", "value": b"%d-%d-%d" % (task, spill, row), "timestamp": time}
                for row, time in enumerate(times)
            ]
            writer.add(pa.RecordBatch.from_pylist(puts, schema=schema))
        files.extend(writer.finish())
    rows = [row for b in staged_batches(tmp_path, files, schema) for row in b.to_pylist()]

    assert len(rows) == 450
    in_order = sorted(
        rows, key=lambda row: (row["timestamp"], [int(n) for n in row["value"].split(b"-")])
    )
    assert rows == in_order


def test_long_runs_are_merged_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal times that go over many batches stay in the order of files and rows."""
    monkeypatch.setattr("statestores.staging.staged_rows._STORED_ROWS", 4)
    schema = change_schema("versioned")
    files: list[StagedFile] = []
    for task in range(3):
        writer = StagedWriter(tmp_path, f"t{task}", schema, partitioner_by_name("murmur2"), 1)
        rows = [
            {"key": b"k", "value": b"%d-%03d" % (task, row), "timestamp": row // 20}
            for row in range(100)
        ]
        writer.add(pa.RecordBatch.from_pylist(rows, schema=schema))
        files.extend(writer.finish())
    merged = [
        (row["timestamp"], row["value"])
        for b in staged_batches(tmp_path, files, schema)
        for row in b.to_pylist()
    ]

    assert merged == sorted(merged)
    assert len(merged) == 300


def test_the_owner_of_a_store_sees_what_was_published(root: ss.StateRoot) -> None:
    """Opening brings its engine up to the changelog, and finishes a write that was left."""
    with open_logged_store(root, "counts", 0, backend="sqlite") as owner:
        owner.store.put(b"own", b"1")
        owner.commit()
    kill_after_intent(root)
    for number in range(PARTITIONS):
        with open_logged_store(root, "counts", number, backend="sqlite") as owner:
            owner.store.put(b"more%d" % number, b"1")
            owner.commit()
            seen = dict(owner.store.range())
        reader = readers(root)[number]

        assert seen == {
            row["key"]: row["value"] for batch in reader.rows() for row in batch.to_pylist()
        }
    added = {b"own": b"1"} | {b"more%d" % number: b"1" for number in range(PARTITIONS)}
    assert content(root) == OLD | NEW | added
