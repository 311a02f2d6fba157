"""What lies in a local directory: engines, what nobody claims, and what a clean-up leaves alone."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import statestores as ss
from statestores import opening
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StoreLockedError,
)
from statestores.opening import BytesStore, open_bytes_store
from statestores.registry import load_backend
from statestores.tasks import LocalDirectory, local_directory, open_task
from statestores.tasks.rebuilding import open_or_rebuild

INPUT = ss.TopicPartition("words", 0)


def _commit(root: ss.StateRoot, task_id: str, local: Path, **how: Any) -> None:
    with open_task(
        root, task_id, ["counts"], local_directory=local, backend="rocksdb", **how
    ) as task:
        task.store("counts").put("a", 1)
        task.commit({INPUT: 1})


@pytest.mark.spec("TSK-9")
def test_what_nobody_claims_is_told_and_what_has_a_use_is_not(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Partitions end at the last one; what is staged, or a reshard's, or a task's, has its use."""
    local = tmp_path / "local"
    _commit(root, "0_2", local)
    for place in (
        "@tasks/0_0",
        "counts/.staged",
        "counts/generation-1/0/engine",
        "counts/3",
        "counts/two",
        "other/0",
        ".import/aside",
    ):
        (local / place).mkdir(parents=True)
        (local / place / "data").write_bytes(b"x" * 7)
    (local / ".import" / "note.json").write_text("{}")

    found = LocalDirectory(local).orphans(root)

    assert [(str(each.path.relative_to(local)), each.reason, each.bytes) for each in found] == [
        (".import/aside", "unexpected file", 7),
        ("counts/3", "unknown partition", 7),
        ("counts/two", "unexpected file", 7),
        ("other", "unknown store", 7),
    ]


@pytest.mark.spec("TSK-9")
def test_engines_of_partitions_that_there_are_not_stay(root: ss.StateRoot, tmp_path: Path) -> None:
    """Nobody knows what they are; nor is the damaged one of another name removed with them."""
    local = tmp_path / "local"
    _commit(root, "0_2", local)
    (local / "counts" / "2").rename(local / "counts" / "3")
    shutil.copytree(local / "counts" / "3", local / "counts" / "two")
    shutil.copytree(local / "counts" / "3", local / "counts" / "2")

    removed = LocalDirectory(local).clean_up([], root, older_than_ms=0)

    [only] = removed
    assert (only.store, only.partition, only.path.parent.name) == ("counts", 2, "2")
    assert only.bytes > 0
    assert set(LocalDirectory(local).engines()) == {("counts", 3)}
    assert list((local / "counts" / "2").iterdir()) == []


@pytest.mark.spec("TSK-9", "TSK-4")
def test_a_damaged_engine_goes_and_the_new_one_stays(root: ss.StateRoot, tmp_path: Path) -> None:
    """A clean-up that removed what was kept of the damage took the note of the new engine along."""
    local = tmp_path / "local"
    _commit(root, "0_0", local)
    engine = local / "counts" / "0" / "engine"
    (engine / "CURRENT").write_bytes(b"nonsense")
    _commit(root, "0_0", local, on_corruption="rebuild")
    [removed] = LocalDirectory(local).clean_up({("counts", 0)}, root, older_than_ms=0)
    assert removed.path.name.startswith("engine.damaged-")
    assert not removed.path.exists()

    assert {each.name for each in engine.parent.iterdir()} >= {"engine", "engine.json"}
    with open_task(root, "0_0", ["counts"], local_directory=local) as task:
        assert task.stores["counts"].restored.changelog_rows == 0


@pytest.mark.spec("TSK-9")
def test_an_engine_of_a_store_that_there_is_not_stays(root: ss.StateRoot, tmp_path: Path) -> None:
    """It may be another application's: it is told of as an orphan, and nobody removes it."""
    local = LocalDirectory(tmp_path / "local")
    foreign = local.path / "aliens" / "0" / "engine"
    foreign.mkdir(parents=True)
    (foreign / "data").write_bytes(b"x")
    _commit(root, "0_0", local.path)

    assert [each.store for each in local.clean_up([], root, older_than_ms=0)] == ["counts"]
    assert (foreign / "data").exists()


@pytest.mark.spec("TSK-9")
def test_an_engine_is_as_old_as_its_newest_file(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the millisecond; and what has lost the note of its backend goes as others do."""
    local = LocalDirectory(tmp_path / "local")
    _commit(root, "0_0", local.path)
    engine = local.path / "counts" / "0" / "engine"
    (engine.parent / "engine.json").unlink()
    now_ns = 2_000_000_000 * 1_000_000_000
    clock = SimpleNamespace(time_ns=lambda: now_ns)
    monkeypatch.setattr(local_directory, "time", clock)
    first, *others = sorted(file for file in engine.rglob("*") if file.is_file())
    limit_ns = now_ns - 1_000 * 1_000_000
    for file in others:
        os.utime(file, ns=(0, 0))
    os.utime(first, ns=(0, limit_ns + 1))
    assert local.clean_up([], root, older_than_ms=1_000) == []
    os.utime(first, ns=(0, limit_ns))
    [removed] = local.clean_up([], root, older_than_ms=1_000)

    assert removed.path == engine


@pytest.mark.spec("TSK-9")
def test_an_engine_that_is_open_stays(root: ss.StateRoot, tmp_path: Path) -> None:
    """Another process has it, and this one does not know of that."""
    local = LocalDirectory(tmp_path / "local")
    with open_task(root, "0_0", ["counts"], local_directory=local.path, backend="sqlite") as task:
        task.store("counts").put("a", 1)
        task.commit()
        assert local.clean_up([], root, older_than_ms=0) == []
        task.store("counts").put("a", 2)
        task.commit()
    assert local.clean_up([], root, older_than_ms=3_600_000) == []
    assert set(local.engines()) == {("counts", 0)}
    [removed] = local.clean_up([], root, older_than_ms=0)

    assert removed.path == local.path / "counts" / "0" / "engine"
    assert local.engines() == {}


def test_what_cannot_be_read_or_removed_is_named(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an engine of which a part is left no longer looks like one."""
    file = tmp_path / "file"
    file.write_text("")
    for call in (
        LocalDirectory(file).engines,
        lambda: LocalDirectory(file).orphans(root),
        lambda: LocalDirectory(file).clean_up([], root),
    ):
        with pytest.raises(StorageError, match=r"cannot list .*file': Not a directory"):
            call()
    local = LocalDirectory(tmp_path / "local")
    _commit(root, "0_0", local.path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        with pytest.raises(
            StorageError, match=r"cannot remove .*engine': Permission denied"
        ) as told:
            local.clean_up([], root, older_than_ms=0)
    assert isinstance(told.value.__cause__, PermissionError)  # and who keeps it keeps no lock
    assert local.engines() == {}
    [left] = local.orphans(root)
    assert left.reason == "damaged engine"
    [removed] = local.clean_up([], root, older_than_ms=0)
    assert removed.path == left.path


@pytest.mark.parametrize(("call", "ask"), [("is_dir", "engines"), ("rglob", "orphans")])
def test_a_directory_that_cannot_be_looked_into_is_named(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, ask: str
) -> None:
    """What is in it is not ours to read: it is neither there nor not."""
    foreign = tmp_path / "local" / "counts" / "7" / "engine"
    foreign.mkdir(parents=True)
    local: Any = LocalDirectory(tmp_path / "local")
    done = getattr(Path, call)

    def failing(path: Path, *given: Any) -> Any:
        if path in (foreign, foreign.parent) and (call == "rglob" or path == foreign):
            raise PermissionError(13, "Permission denied", str(path))
        return done(path, *given)

    monkeypatch.setattr(Path, call, failing)
    with pytest.raises(StorageError, match=r"cannot look into '.*local': Permission denied"):
        local.engines() if ask == "engines" else local.orphans(root)


def test_the_place_of_an_engine_is_in_the_directory(tmp_path: Path) -> None:
    """Neither a name nor a partition leads out of it."""
    local = LocalDirectory(tmp_path)
    assert local.partition("counts", 1) == tmp_path / "counts" / "1"
    for name in ("../counts", ""):
        with pytest.raises(InvalidArgumentError):
            local.partition(name, 0)
    with pytest.raises(InvalidArgumentError):
        local.partition("counts", -1)
    wrong: Any = "0"
    with pytest.raises(InvalidTypeError):
        local.partition("counts", wrong)


@pytest.mark.parametrize("older_than_ms", [-1, 1.5, None])
def test_a_delay_is_a_number_of_milliseconds(
    root: ss.StateRoot, tmp_path: Path, older_than_ms: Any
) -> None:
    """Nothing is removed by one that is none."""
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="older_than_ms"):
        LocalDirectory(tmp_path).clean_up([], root, older_than_ms=older_than_ms)


@pytest.mark.spec("TSK-25")
def test_an_engine_that_is_begun_beside_a_clean_up_keeps_its_name(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean-up freed the place, and removed ``engine.json`` there when it had no lock any more.

    A task that was opened in between had made an engine of its own by then, which nobody could open
    again. Now the name goes first, and whoever had read it before writes it again.
    """
    renamed, loaded = Path.rename, load_backend
    for name in ("when the place is free", "when the name is read"):
        local = tmp_path / name
        refused: list[str] = []

        def clean_up(local: Path = local) -> None:
            [_] = LocalDirectory(local).clean_up([], root, older_than_ms=0)

        def rename(
            path: Path, target: Path, local: Path = local, refused: list[str] = refused
        ) -> Path:
            done = renamed(path, target)
            if path.name == "engine":
                monkeypatch.undo()
                with pytest.raises(StoreLockedError, match="just being created") as caught:
                    _commit(root, "0_0", local)
                refused.append(str(caught.value))
            return done

        def load(backend: str, clean_up: Callable[[], None] = clean_up) -> Any:
            monkeypatch.undo()
            clean_up()
            return loaded(backend)

        _commit(root, "0_0", local)
        if name == "when the place is free":
            monkeypatch.setattr(Path, "rename", rename)
            clean_up()
            assert refused
        else:
            monkeypatch.setattr(opening, "load_backend", load)
            _commit(root, "0_0", local)
        _commit(root, "0_0", local)
        there = {each.name for each in (local / "counts" / "0").iterdir()}

        assert there >= {"engine", "engine.json"}, name
        assert not [each for each in there if "creating" in each], name


@pytest.mark.spec("TSK-25", "TSK-4")
def test_a_damaged_engine_that_another_process_has_rebuilt_is_not_set_aside(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Both had found the damage. The second renamed what the first had open, and wrote there.

    It had let go of the lock when it found the damage; it takes it again now.
    """
    _commit(root, "0_0", tmp_path)
    home, specification = tmp_path / "counts" / "0", root.store("counts").specification
    (home / "engine" / "CURRENT").write_bytes(b"nonsense")
    rebuilt: list[Any] = []

    def opened() -> BytesStore:
        return open_bytes_store(home, specification, backend="rocksdb", restorable=True)

    def another_is_faster() -> None:
        if not rebuilt:
            rebuilt.append(None)
            rebuilt[0] = open_or_rebuild(
                home, "counts", opened, missing=lambda: None, on_corruption="rebuild"
            )[0]

    with pytest.raises(StoreLockedError, match="is open in process"):
        open_or_rebuild(home, "counts", opened, missing=another_is_faster, on_corruption="rebuild")
    rebuilt[0].close()

    assert len(list(home.glob("engine.damaged-*"))) == 1
