"""A store without history becomes a versioned one by what its changelog says of times."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.progress import Progress, ProgressCallback
from statestores.changelog import KEY_VALUE_CHANGES, ChangelogReader
from statestores.errors import InvalidArgumentError, StoreLockedError, StoreMismatchError
from statestores.files.directory_lock import DirectoryLock
from statestores.migration import ImportedPartition, import_as_versioned
from statestores.resharding import reshard
from statestores.staging.staged_write import write_at_once

WORDS: ss.KeyValue[str, str] = ss.KeyValue("words", key=ss.utf8, value=ss.utf8)
PRICES: ss.TimestampedKeyValue[str, int] = ss.TimestampedKeyValue(
    "prices", key=ss.utf8, value=ss.int64
)
INPUT = ss.TopicPartition("input", 0)
HOMES = ("to", "or", "be")
"""A key that belongs to each of three partitions."""


def rows(key: str, value: bytes) -> pa.RecordBatch:
    """Return one change."""
    return pa.RecordBatch.from_pydict({"key": [key.encode()], "value": [value]}, KEY_VALUE_CHANGES)


@pytest.mark.spec("MIG-19")
def test_a_key_value_store_was_so_from_its_commits_on(tmp_path: Path) -> None:
    """The times are those that the changelog's frames carry, and deletions end what they delete."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(WORDS, partitions=1)
    with ss.open_logged_store(root, WORDS, backend="memory") as logged:
        for offset, value in enumerate(["a", "b", None]):
            logged.store.put("key", value)
            logged.store.put("other", "same")
            logged.commit({INPUT: offset})
    write_at_once(root, "words", [rows("new", b"x")], "overwrite")
    with ChangelogReader.open(root.partition("words", 0).changelog, WORDS.kind) as log:
        times = [frame.appended_at_ms for frame in log.read()][:3]

    [done] = import_as_versioned(
        root.path,
        "words",
        root.path,
        name="history",
        history_retention_ms=ss.DAY,
        backend="memory",
    )

    assert done.refused == 0
    with ss.open_logged_store(root.path, "history", backend="memory") as logged:
        store = logged.store
        versions = [
            (each.value, each.valid_from_ms)
            for each in store.history("key", 0, 1 << 62)
            if each.value is not None
        ]
        # Commits within one millisecond leave the last of them.
        by_time = dict(zip(times, ["a", "b", None], strict=True))
        assert {time: value for value, time in versions} == {
            time: value for time, value in by_time.items() if value is not None
        }
        assert store.get("other") is None
        assert store.get("new") is not None


@pytest.mark.spec("MIG-19")
def test_timestamps_are_the_times_of_versions(tmp_path: Path) -> None:
    """Whatever the order of commits; a deletion has none, and is at the latest before it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(PRICES, partitions=1)
    with ss.open_logged_store(root, PRICES, backend="memory") as logged:
        for key, value, time in (("tea", 3, 1_000), ("milk", 1, 5_000), ("tea", 2, 400)):
            logged.store.put(key, value, timestamp_ms=time)
            logged.commit()
        logged.store.delete("tea")
        logged.commit()

    import_as_versioned(
        root.path, "prices", tmp_path / "new", history_retention_ms=ss.DAY, backend="memory"
    )

    with ss.open_logged_store(tmp_path / "new", "prices", backend="memory") as logged:
        found = [logged.store.get("tea", as_of_ms=at) for at in (399, 400, 1_000, 4_999, 5_000)]
        assert [each and each.value for each in found] == [None, 2, 3, 3, None]


@pytest.mark.spec("MIG-19")
def test_what_cannot_become_versions_is_refused(tmp_path: Path) -> None:
    """A store that has times of its own, and one whose name is taken."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.Versioned("rates", history_retention_ms=1), partitions=1)
    root.add_store(WORDS, partitions=1)
    with pytest.raises(StoreMismatchError, match="differs from its specification"):
        import_as_versioned(root.path, "words", root.path, history_retention_ms=1)
    with ss.open_logged_store(root, WORDS, backend="memory") as logged:
        logged.store.put("key", "value")
        logged.commit()

    with pytest.raises(InvalidArgumentError, match="versioned store, whose rows have times"):
        import_as_versioned(root.path, "rates", tmp_path / "new", history_retention_ms=1)
    with pytest.raises(StoreMismatchError, match="already"):
        import_as_versioned(root.path, "words", root.path, history_retention_ms=1)


def _half_imported(tmp_path: Path) -> ss.StateRoot:
    """Return the root of an import that has died when it had one of three partitions."""
    plain = ss.StateRoot.create(tmp_path / "plain")
    plain.add_store(WORDS, partitions=3)
    for number, word in enumerate(HOMES):
        with ss.open_logged_store(plain, WORDS, number, backend="memory") as logged:
            logged.store.put(word, "v")
            logged.commit()
    assert [each.is_new for each in _import(tmp_path)] == [True] * 3
    root = ss.StateRoot.open(tmp_path / "versions")
    for number in (1, 2):
        shutil.rmtree(root.partition("words", number).path)
    return root


def _import(
    tmp_path: Path, *, skip_existing: bool = True, progress: ProgressCallback | None = None
) -> list[ImportedPartition]:
    return import_as_versioned(
        tmp_path / "plain",
        "words",
        tmp_path / "versions",
        history_retention_ms=ss.DAY,
        backend="memory",
        skip_existing=skip_existing,
        progress=progress,
    )


@pytest.mark.spec("MIG-18", "MIG-19")
@pytest.mark.parametrize("how", ["opened", "locked", "read-aside"])
def test_partitions_that_somebody_has_only_looked_at_are_imported(tmp_path: Path, how: str) -> None:
    """What a killed import lacks follows, also where a directory of nothing is in its place.

    An import died, the store was opened, and the import was done again: two partitions stayed
    empty, and the import said that they were there. Whoever opens a partition, or locks it as a
    reshard does, makes its directory, and that was all that was asked for. Now a partition is there
    once something was committed to it; one that is open is not taken from whoever has it.
    """
    root = _half_imported(tmp_path)
    if how == "opened":
        with (
            ss.open_logged_store(root, "words", 1, backend="sqlite"),
            pytest.raises(StoreLockedError),
        ):
            _import(tmp_path)
    elif how == "locked":
        DirectoryLock.acquire(root.partition("words", 1).changelog).release()
    else:
        reshard(root, "words", 2, to=tmp_path / "other")
    done = _import(tmp_path)

    assert [(each.is_new, each.rows) for each in done] == [(False, 0), (True, 1), (True, 1)]
    for number, word in enumerate(HOMES):
        with ss.open_logged_store(root, "words", number, backend="memory") as logged:
            assert logged.store.get(word) is not None
    with pytest.raises(StoreMismatchError, match=r"is in .* already"):
        _import(tmp_path, skip_existing=False)


@pytest.mark.spec("MIG-18", "RSH-7")
def test_what_had_not_been_imported_before_a_reshard_is_missed(tmp_path: Path) -> None:
    """An import died, the store was resharded, and the import was done again.

    All of it was "there already", and two thirds of the rows nowhere. Which partitions
    came is noted now; it cannot be seen any more in those that a reshard has made. The reshard is
    refused, unless somebody says that nothing will follow.
    """
    plain = ss.StateRoot.create(tmp_path / "plain")
    plain.add_store(WORDS, partitions=3)
    for number, word in enumerate(HOMES):
        with ss.open_logged_store(plain, WORDS, number, backend="memory") as logged:
            logged.store.put(word, "v")
            logged.commit()

    def die(done: Progress) -> None:
        if done.rows == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _import(tmp_path, progress=die)
    with pytest.raises(StoreMismatchError, match=r"partition 1, 2 is still missing; .* remove '"):
        reshard(tmp_path / "versions", "words", 2)
    (tmp_path / "versions" / ".import" / "begun.json").unlink()
    reshard(tmp_path / "versions", "words", 2)
    with pytest.raises(StoreMismatchError, match=r"partition 1 .* had not been imported when"):
        _import(tmp_path)


@pytest.mark.spec("MIG-15", "RSH-7")
def test_the_copy_of_a_half_import_is_not_taken_for_what_was_imported(tmp_path: Path) -> None:
    """An import died, a reshard copied the store, and the import was done again into the copy.

    It said that all partitions were there, and two thirds of the rows were nowhere: each partition
    of the copy has something. What came is noted in the root that it came into, and a copy has no
    such note: so what no import has brought there is not taken for what is imported.
    """
    _half_imported(tmp_path)
    reshard(tmp_path / "versions", "words", 3, to=tmp_path / "copy")
    (tmp_path / "versions").rename(tmp_path / "half")
    (tmp_path / "copy").rename(tmp_path / "versions")
    with pytest.raises(StoreMismatchError, match=r"partition 0 .* no import has brought"):
        _import(tmp_path)
    (tmp_path / "versions").rename(tmp_path / "copy")
    (tmp_path / "half").rename(tmp_path / "versions")

    assert [each.is_new for each in _import(tmp_path)] == [False, True, True]


@pytest.mark.spec("MIG-15")
def test_what_a_program_has_begun_is_not_taken_for_what_was_imported(tmp_path: Path) -> None:
    """An import died, and a program wrote into a partition that was still to come.

    The import done again said that it was there, and its rows were nowhere.
    """
    root = _half_imported(tmp_path)
    note = tmp_path / "versions" / ".import" / "imported.json"
    note.write_text(json.dumps({"format": 1, "stores": {"words": {"0": {}}}}))
    with ss.open_logged_store(root, "words", 1, backend="memory") as logged:
        logged.commit({ss.TopicPartition("input", 1): 7})
    with pytest.raises(StoreMismatchError, match=r"partition 1 .* no import has brought"):
        _import(tmp_path)


@pytest.mark.spec("MIG-15")
def test_a_partition_counts_as_imported_only_in_its_place(tmp_path: Path) -> None:
    """An import died when it had noted a partition, and before that had its place.

    After a reshard the note is all that tells what came: it must not say more.
    """
    _half_imported(tmp_path)
    note = tmp_path / "versions" / ".import" / "imported.json"
    noted = json.loads(note.read_text())
    assert sorted(noted["stores"]["words"]) == ["0", "1", "2"]
    (tmp_path / "versions" / ".import" / "state" / "words" / "2").mkdir(parents=True)
    reshard(tmp_path / "versions", "words", 2)
    with pytest.raises(StoreMismatchError, match=r"partition 2 .* had not been imported when"):
        _import(tmp_path)


@pytest.mark.spec("MIG-18", "RSH-7")
def test_what_a_reshard_has_moved_is_there(tmp_path: Path) -> None:
    """It is skipped, or refused before anything is read.

    An import into a store that had been resharded did not see its partitions: it read and wrote
    a whole one before it failed on the directory that was in its way, also when it was told to skip
    what is there.
    """
    _half_imported(tmp_path)
    _import(tmp_path)
    for partitions in (2, 3):
        reshard(tmp_path / "versions", "words", partitions)

    assert [each.is_new for each in _import(tmp_path)] == [False] * 3
    with pytest.raises(StoreMismatchError, match=r"is in .* already"):
        _import(tmp_path, skip_existing=False)
