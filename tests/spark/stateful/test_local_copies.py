"""The local copies of the stores of a stateful function, without Spark."""

import shutil
from pathlib import Path

import pytest
from stateful_plans import plan_of, run_batch
from stateful_words import STORE, state_of

import statestores as ss
from statestores.changelog import ChangelogReader, FileChangelog, compact
from statestores.errors import (
    OffsetOutOfRangeError,
)
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spark.local_copy import CopyOptions, local_copy
from statestores.spark.stateful_functions import task as stateful_task
from statestores.spark.stateful_functions.plan import add_stores

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class TestLocalCopies:
    """A copy is exactly at its offset, or is made anew."""

    @staticmethod
    def append(root: Path, rows: dict[str, int]) -> int:
        """Commit rows as the owner of partition 0, and return where the changelog ends."""
        add_stores(root, [STORE], 1)
        with ss.open_logged_store(root, "counts", 0, backend="memory") as store:
            for key, value in rows.items():
                store.store.put(key, value)
            store.commit()
            return store.changelog.end_offset

    @staticmethod
    def content(root: Path, end_offset: int, backend: str = "sqlite") -> dict[bytes, int]:
        """Return what a copy at the offset has."""
        copies = CopyOptions(directory=str(root.with_name("local")), backend=backend)
        with local_copy(root, STORE, 0, end_offset, copies) as store:
            assert isinstance(store, EngineKeyValueStore)
            return {key: int.from_bytes(value, "big") for key, value in store.range()}

    def test_what_a_compaction_dropped_is_not_left_out_of_a_copy(self, tmp_path: Path) -> None:
        """A batch is planned, the writer overwrites a key and compacts, and a task makes its copy.

        The log up to the planned end no longer had the first value of ``a``, nor the second yet:
        the copy lacked the key, and said nothing.
        """
        root = tmp_path / "state"
        self.append(root, {"a": 1})
        planned = self.append(root, {"b": 1})
        self.append(root, {"a": 2})
        changelog = ss.StateRoot.open(root).partition("counts", 0).changelog
        with FileChangelog.open(changelog, "key-value") as log:
            log.seal()
            compact(log)

        with pytest.raises(OffsetOutOfRangeError, match="has been compacted"):
            self.content(root, planned)
        assert self.content(root, planned + 1) == {b"a": 2, b"b": 1}

    def test_it_follows(self, tmp_path: Path) -> None:
        """The changelog, from where it was."""
        root = tmp_path / "state"
        first = self.append(root, {"a": 1})
        assert self.content(root, first) == {b"a": 1}
        engine = next((tmp_path / "local").rglob("engine")).stat().st_ino
        second = self.append(root, {"b": 2})

        assert self.content(root, second) == {b"a": 1, b"b": 2}
        assert next((tmp_path / "local").rglob("engine")).stat().st_ino == engine

    def test_one_that_is_ahead_goes_back(self, tmp_path: Path) -> None:
        """For a micro-batch that comes again."""
        root = tmp_path / "state"
        first = self.append(root, {"a": 1})
        second = self.append(root, {"a": 2})
        assert self.content(root, second) == {b"a": 2}

        assert self.content(root, first) == {b"a": 1}
        assert self.content(root, 0) == {}
        assert self.content(root, second) == {b"a": 2}

    def test_one_of_another_state_root_is_thrown_away(self, tmp_path: Path) -> None:
        """The user removed a state root and made another at its place, and got the old counts."""
        root = tmp_path / "state"
        assert self.content(root, self.append(root, {"old": 1})) == {b"old": 1}
        shutil.rmtree(root)
        self.append(root, {"new": 1})

        assert self.content(root, self.append(root, {"newer": 2})) == {b"new": 1, b"newer": 2}

    def test_a_damaged_one_is_thrown_away(self, tmp_path: Path) -> None:
        """Also one that another backend has written, or of which the note is gone."""
        root = tmp_path / "state"
        end = self.append(root, {"a": 1})
        assert self.content(root, end) == {b"a": 1}
        for path in (tmp_path / "local").rglob("engine/*"):
            if path.suffix == ".db" or path.name.endswith("sqlite"):
                path.write_bytes(b"damaged" * 1000)
        assert self.content(root, end) == {b"a": 1}
        assert self.content(root, end, backend="leveldb") == {b"a": 1}
        next((tmp_path / "local").rglob("copy.json")).write_text("{")

        assert self.content(root, end) == {b"a": 1}

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
