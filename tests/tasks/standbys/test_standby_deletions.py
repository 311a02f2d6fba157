"""What a standby and a reader do when the writer deletes or compacts what they read."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from copied_counts import seal_and_compact, trim

import statestores as ss
from statestores.changelog import (
    ChangelogReader,
    Frame,
)
from statestores.errors import (
    OffsetOutOfRangeError,
    StoreClosedError,
)
from statestores.reading.partition_reader import PartitionReader
from statestores.tasks import open_standby
from statestores.tasks import standby as standby_module


@pytest.mark.spec("STB-5")
def test_a_standby_that_was_left_behind_begins_anew(root: ss.StateRoot, tmp_path: Path) -> None:
    """When the changelog's beginning is gone, a snapshot replaces the copy, facades and all.

    A facade of the outdated copy is closed: half of a snapshot is no commit of the store, so it
    must not be seen.
    """
    with (
        ss.open_logged_store(root, "counts", 0, backend="rocksdb") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="rocksdb") as standby,
    ):
        counts.store.put("old", 1)
        counts.commit()
        standby.poll()
        outdated = standby.read_only(include_stale=True)
        assert isinstance(outdated, ss.ReadOnlyKeyValueStore)
        counts.store.put("old", None)
        counts.store.put("new", 2)
        counts.commit()
        counts.snapshot()
        log = counts.changelog
        assert isinstance(log, ss.changelog.FileChangelog)
        log.seal()
        assert log.delete_before(3) == 3

        assert standby.poll() == 1
        with pytest.raises(StoreClosedError):
            outdated.get("old")
        current = standby.read_only(include_stale=True)
        assert isinstance(current, ss.ReadOnlyKeyValueStore)
        assert dict(current.range()) == {"new": 2}


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have a writer *act* once, when the next reader has decided what to read."""
    read = ChangelogReader.read

    def interrupted(*arguments: Any, **options: Any) -> Iterator[Frame]:
        monkeypatch.setattr(ChangelogReader, "read", read)
        act()
        return read(*arguments, **options)

    monkeypatch.setattr(ChangelogReader, "read", interrupted)


@pytest.mark.spec("STB-5")
def test_a_standby_whose_segments_are_deleted_while_it_reads_begins_anew(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer deleted, after a snapshot, what a standby was just reading.

    The standby ended with "offset 0 has been deleted", which is not retryable, and followed no
    more: at the next failover there was nothing to take over. Now it begins anew, as it does when
    it finds the beginning gone.
    """
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby,
    ):
        for number in range(5):
            counts.store.put(f"{number}", number)
            counts.commit()
        meanwhile(monkeypatch, lambda: trim(counts))

        assert standby.poll() == 5
        counts.store.put("5", 5)
        counts.commit()
        meanwhile(monkeypatch, lambda: trim(counts))
        assert standby.poll() == 6  # all of it again, from the snapshot
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        assert dict(facade.range()) == {f"{number}": number for number in range(6)}
        assert standby.lag.offset_lag == 0


@pytest.mark.spec("STB-5", "STB-2")
def test_without_a_snapshot_a_standby_says_so_and_keeps_trying(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """It can be read as it is, and goes on by itself once there is a snapshot."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby,
    ):
        counts.store.put("a", 1)
        counts.commit()
        standby.poll()
        counts.store.put("a", 2)
        counts.commit()
        trim(counts, snapshot=False)
        with pytest.raises(OffsetOutOfRangeError, match=r"stands at offset 0, .* write one"):
            standby.poll()
        standby.follow(0.01)
        deadline = time.monotonic() + 30
        while standby.failure is None and time.monotonic() < deadline:
            time.sleep(0.01)
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        assert facade.get("a") == 1
        assert isinstance(standby.failure, OffsetOutOfRangeError)
        assert standby.is_following

        counts.snapshot()
        while standby.lag.offset_lag and time.monotonic() < deadline:
            time.sleep(0.01)
        standby.stop()
        standby.poll()
        current = standby.read_only(include_stale=True)
        assert isinstance(current, ss.ReadOnlyKeyValueStore)
        assert current.get("a") == 2


@pytest.mark.spec("STB-1")
def test_a_changelog_that_is_deleted_each_time_is_given_up(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer may delete what a poll is reading, and the poll tries again, but not for ever."""
    tries = 0

    def take(*given: object) -> int:
        nonlocal tries
        tries += 1
        if tries > 100:
            pytest.fail("it has no end")
        raise OffsetOutOfRangeError("deleted meanwhile")

    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby,
    ):
        counts.store.put("a", 1)
        counts.commit()
        with monkeypatch.context() as patched:
            patched.setattr(standby, "_take", take)
            with pytest.raises(OffsetOutOfRangeError, match="deleted meanwhile"):
                standby.poll()
        assert tries == standby_module._ATTEMPTS
        assert standby.poll() == 1


@pytest.mark.spec("STB-2")
def test_a_compaction_while_a_standby_reads_leaves_no_gap(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer overwrote ``a``, and compacted, between a standby's look and its reading.

    What compaction had left up to the end that the standby had seen was ``b`` alone: it showed
    content that no commit had ever had, without ``a``. It reads again now.
    """
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby,
    ):
        counts.store.put("a", 1)
        counts.commit()
        counts.store.put("b", 1)
        counts.commit()

        def overwrite() -> None:
            counts.store.put("a", 2)
            counts.commit()
            seal_and_compact(counts)

        meanwhile(monkeypatch, overwrite)
        standby.poll()
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        assert dict(facade.range()) == {"a": 2, "b": 1}


def test_content_is_read_again_when_a_writer_deletes_it_meanwhile(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of files got "offset 0 has been deleted" for content that a new snapshot had."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        counts.store.put("a", 1)
        counts.commit()
        reader = PartitionReader(root.partition("counts", 0), root.store("counts").specification)
        meanwhile(monkeypatch, lambda: trim(counts))

        assert [row for batch in reader.rows() for row in batch.to_pylist()] == [
            {"key": "a", "value": 1}
        ]


def test_content_is_read_again_when_a_writer_compacts_it_meanwhile(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction between a reader's look and its reading dropped ``a`` from the content."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        counts.store.put("a", 1)
        counts.commit()
        reader = PartitionReader(root.partition("counts", 0), root.store("counts").specification)

        def overwrite() -> None:
            counts.store.put("a", 2)
            counts.commit()
            seal_and_compact(counts)

        meanwhile(monkeypatch, overwrite)

        assert [row for batch in reader.rows() for row in batch.to_pylist()] == [
            {"key": "a", "value": 2}
        ]
