"""The local copies of the stores of a stateful function, without Spark."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stateful_plans import plan_of, run_batch
from stateful_words import STORE, state_of

import statestores as ss
from statestores.arrow.snapshots.directory import list_snapshots, retire
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import ChangelogReader, FileChangelog, compact
from statestores.errors import OffsetOutOfRangeError, StoreLockedError
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spark.copied_partition import copied_partition
from statestores.spark.given_root import GivenRoot
from statestores.spark.local_copy import CopyOptions, local_copy
from statestores.spark.stateful_functions import task as stateful_task

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@dataclass(frozen=True)
class Home:
    """A state root in a directory or an object store, and the copies of its partition 0."""

    root: str
    local: Path

    @property
    def given(self) -> GivenRoot:
        """The root, as tasks get it."""
        return GivenRoot(self.root if "://" in self.root else Path(self.root))

    def append(self, rows: dict[str, int], *, snapshot: bool = False) -> int:
        """Commit rows as the owner, and return where the changelog ends."""
        root = ss.StateRoot.create(self.root)
        root.add_store(STORE, partitions=1)
        directory = None if root.storage is None else self.local / "owner"
        with ss.open_logged_store(root, "counts", 0, directory=directory, backend="memory") as log:
            for key, value in rows.items():
                log.store.put(key, value)
            log.commit()
            if snapshot:
                log.snapshot()
            return log.changelog.end_offset

    def content(self, end_offset: int, backend: str = "sqlite") -> dict[bytes, int]:
        """Return what a copy at the offset has."""
        copies = CopyOptions(directory=str(self.local), backend=backend)
        with local_copy(copied_partition(self.given, STORE, 1, 0), end_offset, copies) as store:
            assert isinstance(store, EngineKeyValueStore)
            return {key: int.from_bytes(value, "big") for key, value in store.range()}

    def compact(self) -> None:
        """Drop what later changes make void."""
        root = ss.StateRoot.open(self.root)
        if root.storage is not None:
            root.object_log("counts").compact()
            return
        with FileChangelog.open(root.partition("counts", 0).changelog, "key-value") as log:
            log.seal()
            compact(log)

    def remove(self) -> None:
        """Remove the state root."""
        storage = ss.StateRoot.open(self.root).storage
        if storage is None:
            shutil.rmtree(self.root)
        else:
            for each in list(storage.list("")):
                storage.delete(each.name)


@pytest.fixture
def homes(tmp_path: Path) -> list[Home]:
    """One of each."""
    url = f"memory://copies/{tmp_path.name}"
    return [
        Home(str(tmp_path / "state"), tmp_path / "local"),
        Home(url, tmp_path / "local-of-objects"),
    ]


@pytest.mark.spec("OBJ-36")
class TestLocalCopies:
    """A copy is exactly at its offset, or is made anew; wherever the state root is."""

    def test_what_a_compaction_dropped_is_not_left_out_of_a_copy(
        self, homes: list[Home], subtests: pytest.Subtests
    ) -> None:
        """A batch is planned, the writer overwrites a key and compacts, and a task makes its copy.

        The log up to the planned end no longer had the first value of ``a``, nor the second yet:
        the copy lacked the key, and said nothing. A copy that was there before the compaction, and
        one that a task has begun and given up, are no better.
        """
        for home in homes:
            with subtests.test(home.root):
                assert home.content(home.append({"a": 1})) == {b"a": 1}
                planned = home.append({"b": 1})
                home.append({"a": 2})
                home.compact()

                for _ in range(2):
                    with pytest.raises(OffsetOutOfRangeError, match="has been compacted"):
                        home.content(planned)
                assert home.content(planned + 1) == {b"a": 2, b"b": 1}

    def test_a_snapshot_at_the_end_outlives_a_compaction(
        self, homes: list[Home], subtests: pytest.Subtests
    ) -> None:
        """Nothing of the changelog was needed, and it was refused because it had been compacted."""
        for home in homes:
            with subtests.test(home.root):
                planned = home.append({"a": 1, "b": 1}, snapshot=True)
                home.append({"a": 2})
                home.compact()

                assert home.content(planned) == {b"a": 1, b"b": 1}

    def test_it_follows(self, homes: list[Home], subtests: pytest.Subtests) -> None:
        """The changelog, from where it was."""
        for home in homes:
            with subtests.test(home.root):
                first = home.append({"a": 1})
                assert home.content(first) == {b"a": 1}
                engine = next(home.local.rglob("engine")).stat().st_ino
                second = home.append({"b": 2})

                assert home.content(second) == {b"a": 1, b"b": 2}
                assert next(home.local.rglob("engine")).stat().st_ino == engine

    def test_one_that_is_ahead_goes_back(
        self, homes: list[Home], subtests: pytest.Subtests
    ) -> None:
        """For a micro-batch that comes again."""
        for home in homes:
            with subtests.test(home.root):
                first = home.append({"a": 1})
                second = home.append({"a": 2})
                assert home.content(second) == {b"a": 2}

                assert home.content(first) == {b"a": 1}
                assert home.content(0) == {}
                assert home.content(second) == {b"a": 2}

    @pytest.mark.spec("OBJ-18")
    def test_one_of_another_state_root_is_thrown_away(
        self, homes: list[Home], subtests: pytest.Subtests
    ) -> None:
        """The user removed a state root and made another at its place, and got the old counts."""
        for home in homes:
            with subtests.test(home.root):
                old = home.append({"old": 1})
                assert home.content(old) == {b"old": 1}
                home.remove()
                new = home.append({"new": 1})

                with pytest.raises(OffsetOutOfRangeError, match="has been replaced"):
                    home.content(new + 1)  # as far as the first one would have come
                assert home.content(home.append({"newer": 2})) == {b"new": 1, b"newer": 2}

    def test_a_damaged_one_is_thrown_away(
        self, homes: list[Home], subtests: pytest.Subtests
    ) -> None:
        """Also one that another backend has written, or of which the note is gone."""
        for home in homes:
            with subtests.test(home.root):
                end = home.append({"a": 1})
                assert home.content(end) == {b"a": 1}
                for path in home.local.rglob("engine/*"):
                    if path.suffix == ".db" or path.name.endswith("sqlite"):
                        path.write_bytes(b"damaged" * 1000)
                assert home.content(end) == {b"a": 1}
                assert home.content(end, backend="leveldb") == {b"a": 1}
                next(home.local.rglob("copy.json")).write_text("{")

                assert home.content(end) == {b"a": 1}

    def test_it_begins_with_a_snapshot(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which tasks write when the changelog is longer than the state."""
        monkeypatch.setattr(stateful_task, "SNAPSHOT_CHANGES", 4)
        plan = plan_of(tmp_path / "state")
        for number in range(12):
            run_batch(plan, number, ["a", "b", "c"])
        snapshots = sorted((tmp_path / "state").rglob("manifest.json"))
        with ChangelogReader.open(plan.root / "counts" / "0" / "changelog") as log:
            changes = log.end_offset
        assert 1 < len(snapshots) <= 2 * changes / 4
        shutil.rmtree(tmp_path / "local")
        run_batch(plan, 12, ["a", "b", "c"])

        assert state_of(plan.root) == {"a": 13, "b": 13, "c": 13}


def test_a_snapshot_that_is_removed_while_it_is_loaded_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task beside a vacuum failed with "cannot read ... No such file or directory"."""
    home = Home(str(tmp_path / "state"), tmp_path / "local")
    home.append({"a": 1, "b": 1}, snapshot=True)
    end_offset = home.append({"b": 2}, snapshot=True)
    place = ss.StateRoot.open(home.root).partition("counts", 0).snapshots
    newest = list(list_snapshots(place).values())[-1]
    original = Snapshot.batches

    def removing(snapshot: Snapshot, *arguments: Any, **named: Any) -> Any:
        if snapshot.path == newest and newest.exists():
            retire(newest)
        return original(snapshot, *arguments, **named)

    monkeypatch.setattr(Snapshot, "batches", removing)

    assert home.content(end_offset) == {b"a": 1, b"b": 2}
    assert not newest.exists()


def test_a_slot_is_locked_until_its_copy_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock went with the copy: the next attempt read what was being removed (ENG-1)."""
    home = Home(str(tmp_path / "state"), tmp_path / "local")
    end_offset = home.append({"a": 1})
    remove, looked = shutil.rmtree, []

    def removing(path: Path, **named: Any) -> None:
        slot = next(each for each in (path, *path.parents) if each.parent.name == "0")
        remove(path, **named)
        with pytest.raises(StoreLockedError):
            DirectoryLock.acquire(slot)
        looked.append(slot)

    copies = CopyOptions(directory=str(home.local), backend="sqlite")
    with local_copy(copied_partition(home.given, STORE, 1, 0), end_offset, copies):
        monkeypatch.setattr(shutil, "rmtree", removing)
        assert home.content(end_offset) == {b"a": 1}

    assert {each.name for each in looked} == {"1"}
    assert [each.name for each in looked[0].iterdir()] == [LOCK_FILE]
