"""A store and its changelog agree, whatever happens between the two steps of a commit."""

import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import (
    ChangelogCorruptedError,
    CommitConflictError,
    StorageError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.logged_store import LoggedStore, open_logged_store
from statestores.spi import WriteBatch
from statestores.spi.durability import Durability

INPUT = ss.TopicPartition("words", 0)
BACKENDS = ["rocksdb", "leveldb", "sqlite"]
Counts = LoggedStore[ss.KeyValueStore[str, int]]


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with the typed key-value store ``counts``."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    return state


@pytest.mark.spec("LGS-1")
@pytest.mark.parametrize("backend", BACKENDS)
def test_store_changelog_and_position_agree_after_reopening(
    root: ss.StateRoot, backend: str
) -> None:
    """A commit is in the changelog and in the store, with one offset and one position."""
    counts: Counts
    with open_logged_store(root, "counts", 0, backend=backend) as counts:
        counts.store.put("a", 1)
        counts.store.put("b", 2)
        assert counts.commit({INPUT: 10}) == 1
        counts.store.put("lost", 3)

    with open_logged_store(root, "counts", 0) as counts:
        assert dict(counts.store.range()) == {"a": 1, "b": 2}
        assert counts.position == {INPUT: 10}
        assert counts.committed_offset == 1
        assert counts.changelog.end_offset == 2


@pytest.mark.spec("LGS-1")
def test_the_stores_own_commit_goes_through_the_changelog(root: ss.StateRoot) -> None:
    """There is no way to commit past the changelog."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)
        counts.store.commit({})

        assert counts.changelog.end_offset == 1
        assert counts.committed_offset == 0


@pytest.mark.spec("LGS-6")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_crash_between_append_and_commit_is_made_good(
    root: ss.StateRoot, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog has the commit and the store has not: the next opening replays it."""
    counts: Counts = open_logged_store(root, "counts", 0, backend=backend)
    counts.store.put("a", 1)
    counts.commit({INPUT: 1})
    engine = counts._bytes_store._engine

    def die(batch: WriteBatch, durability: Durability) -> None:
        raise StorageError("the power is gone")

    monkeypatch.setattr(engine, "apply", die)
    counts.store.put("a", 2)
    with pytest.raises(StorageError):
        counts.commit({INPUT: 2})
    monkeypatch.undo()
    counts.close()

    with open_logged_store(root, "counts", 0) as counts:
        assert counts.restored.changelog_rows == 1
        assert counts.store.get("a") == 2
        assert counts.position == {INPUT: 2}


@pytest.mark.spec("LGS-5")
def test_a_commit_can_be_tried_again_between_its_steps(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are in the changelog twice, which no reader can tell from once."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)

        def fail(batch: WriteBatch, durability: Durability) -> None:
            raise StorageError("no space")

        monkeypatch.setattr(counts._bytes_store._engine, "apply", fail)
        with pytest.raises(StorageError):
            counts.commit()
        monkeypatch.undo()
        assert counts.commit() == 1
    shutil.rmtree(root.partition("counts", 0).path / "engine")

    with open_logged_store(root, "counts", 0) as counts:
        assert dict(counts.store.range()) == {"a": 1}


@pytest.mark.spec("LGS-10")
def test_what_the_changelog_has_cannot_be_rolled_back(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback between the steps would leave a store that its changelog contradicts."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)

        def fail(batch: WriteBatch, durability: Durability) -> None:
            raise StorageError("no space")

        monkeypatch.setattr(counts._bytes_store._engine, "apply", fail)
        with pytest.raises(StorageError):
            counts.commit()
        monkeypatch.undo()
        with pytest.raises(CommitConflictError, match="commit again"):
            counts.store.rollback()
        counts.commit()
        counts.store.put("a", 2)
        counts.store.rollback()

        assert counts.store.get("a") == 1


@pytest.mark.spec("LGS-2")
def test_a_failed_append_leaves_the_writes_pending(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, and the same commit succeeds once the disk has space."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)

        def fail(*arguments: object, **options: object) -> None:
            raise StorageError("no space")

        monkeypatch.setattr(counts.changelog, "append", fail)
        with pytest.raises(StorageError):
            counts.commit({INPUT: 5})
        assert counts.committed_offset is None
        assert counts.store.read_only().get("a") is None
        monkeypatch.undo()

        assert counts.commit({INPUT: 5}) == 0
        assert counts.store.read_only().get("a") == 1


@pytest.mark.spec("LGS-3")
def test_a_commit_of_nothing_appends_nothing(root: ss.StateRoot) -> None:
    """Neither an empty commit nor one with the same position leaves a frame."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)
        counts.commit({INPUT: 5})
        counts.commit({INPUT: 5})
        counts.commit()

        assert counts.changelog.end_offset == 1


@pytest.mark.spec("LGS-7")
@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize("target", BACKENDS)
def test_a_lost_engine_is_restored_into_any_backend(
    root: ss.StateRoot, source: str, target: str
) -> None:
    """From the snapshot and the tail behind it."""
    with open_logged_store(root, "counts", 0, backend=source) as counts:
        counts.store.put("a", 1)
        counts.store.put("b", 1)
        counts.commit({INPUT: 1})
        counts.snapshot()
        counts.store.delete("a")
        counts.commit({INPUT: 2})
    directory = root.partition("counts", 0).path
    shutil.rmtree(directory / "engine")
    (directory / "engine.json").unlink()

    with open_logged_store(root, "counts", 0, backend=target) as counts:
        assert dict(counts.store.range()) == {"b": 1}
        assert counts.position == {INPUT: 2}
        assert counts.restored.snapshot_rows == 2
        assert counts.restored.changelog_rows == 1


@pytest.mark.spec("LGS-8")
def test_a_missing_changelog_is_not_begun_anew(root: ss.StateRoot) -> None:
    """The store has come from one, and a new one would contradict it."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)
        counts.commit()
    shutil.rmtree(root.partition("counts", 0).changelog)

    with pytest.raises(StoreMismatchError, match="is gone"):
        open_logged_store(root, "counts", 0)


@pytest.mark.spec("LGS-8")
def test_a_changelog_that_ends_before_the_store_is_refused(root: ss.StateRoot) -> None:
    """Half a frame at the end would be a torn tail, had the store not committed it."""
    with open_logged_store(root, "counts", 0) as counts:
        for number in range(3):
            counts.store.put("a", number)
            counts.commit()
    (segment,) = root.partition("counts", 0).changelog.glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 7)
    before = segment.read_bytes()

    with pytest.raises(ChangelogCorruptedError):
        open_logged_store(root, "counts", 0)

    assert segment.read_bytes() == before


@pytest.mark.spec("LGS-9")
def test_a_second_opening_is_refused(root: ss.StateRoot) -> None:
    """The first one goes on undisturbed, and other partitions are free."""
    with open_logged_store(root, "counts", 0) as counts:
        counts.store.put("a", 1)
        with pytest.raises(StoreLockedError, match="in process"):
            open_logged_store(root, "counts", 0)
        with open_logged_store(root, "counts", 1) as other:
            assert other.committed_offset is None

        assert counts.commit() == 0


@pytest.mark.spec("LGS-1")
def test_a_versioned_store_keeps_its_time_over_a_restore(tmp_path: Path) -> None:
    """Stream time and history come back from the changelog alone."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.Versioned("rates", history_retention_ms=100), partitions=1)
    with open_logged_store(root, "rates", 0) as rates:
        rates.store.put(b"EUR", b"1", 10)
        rates.store.put(b"EUR", b"2", 50)
        rates.commit()
        rates.store.put(b"EUR", None, 90)
        rates.commit()
    shutil.rmtree(root.partition("rates", 0).path / "engine")

    with open_logged_store(root, "rates", 0) as rates:
        assert rates.store.stream_time_ms == 90
        assert [tuple(version) for version in rates.store.history(b"EUR")] == [
            (b"1", 10, 50),
            (b"2", 50, 90),
        ]
