"""What happens to a directory of snapshots while somebody else is at work on it."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statestores.arrow import list_snapshots, remove_stale_temporaries
from statestores.arrow.snapshots import directory as snapshots
from statestores.arrow.snapshots.directory import (
    _open_directory,
    native_path,
    publish,
    remove_native_leftovers,
    retire,
    snapshot_name,
    temporary_directory,
)
from statestores.errors import StorageError
from statestores.failpoints import arm, disarm
from statestores.files.durable_directory import make_durable

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

Durable = list[tuple[str, list[str]]]


@pytest.fixture
def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Durable:
    """Note what is made durable, and the names that are in the directory then."""
    noted: Durable = []

    def note(path: Path) -> None:
        names = sorted(each.name for each in tmp_path.iterdir() if each.name[0] != ".")
        noted.append(("directory" if path == tmp_path else "snapshot", names))
        make_durable(path)

    monkeypatch.setattr(snapshots, "make_durable", note)
    return noted


def _snapshot(directory: Path, offset: int, *, native: bool = False) -> Path:
    path = directory / snapshot_name(offset)
    for made in (path, native_path(path))[: 1 + native]:
        made.mkdir()
        (made / "manifest.json").write_bytes(b"{}")
    return path


@pytest.mark.spec("SNP-2", "ASM-6")
def test_a_snapshot_is_on_disk_before_it_has_its_name(tmp_path: Path, durable: Durable) -> None:
    """And its name is, when it is published; then a place that is taken is not free."""
    target = tmp_path / snapshot_name(9)
    reached: list[str] = []
    for name in ("snapshot.rename.before", "snapshot.rename.after", "snapshot.durable"):
        arm(name, lambda name=name: reached.append(name))  # type: ignore[misc]
        with temporary_directory(tmp_path) as path:
            (path / "manifest.json").write_bytes(b"{}")
            assert publish(path, target) is True
        disarm()
        shutil.rmtree(target)

    assert durable == [("snapshot", []), ("directory", [target.name])] * 3
    assert reached == ["snapshot.rename.before", "snapshot.rename.after", "snapshot.durable"]
    _snapshot(tmp_path, 9)
    with temporary_directory(tmp_path) as path:
        assert publish(path, target) is False
    with temporary_directory(tmp_path) as path, pytest.raises(FileNotFoundError):
        publish(path, tmp_path / "none" / target.name)


@pytest.mark.spec("SNP-26", "SNP-30")
def test_a_snapshot_goes_behind_its_native_part(tmp_path: Path, durable: Durable) -> None:
    """Each step is on disk before the next one."""
    path = _snapshot(tmp_path, 9, native=True)
    seen: list[bool] = []
    arm("native.removed", lambda: seen.append(path.exists()))
    assert retire(path) is True
    disarm()

    assert durable == [("directory", [path.name]), ("directory", [])]
    assert (seen, list(tmp_path.iterdir())) == ([True], [])


@pytest.mark.spec("SNP-26")
def test_a_snapshot_that_another_process_removes_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there and cannot be moved is one."""
    assert retire(tmp_path / snapshot_name(9)) is False
    path = _snapshot(tmp_path, 9)
    monkeypatch.setattr(snapshots, "_temporary_path", lambda _: tmp_path / "none" / "x")
    with pytest.raises(FileNotFoundError):
        retire(path)
    assert path.exists()


@pytest.mark.spec("SNP-30")
def test_native_parts_without_a_snapshot_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of snapshots stay, and so does what is named by somebody else."""
    kept = _snapshot(tmp_path, 9, native=True)
    left = native_path(tmp_path / snapshot_name(8))
    left.mkdir()
    (tmp_path / "mine.native").mkdir()
    remove_native_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        kept.name,
        native_path(kept).name,
        "mine.native",
    }

    left.mkdir()

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(snapshots, "_retire", refuse)
    with pytest.raises(StorageError, match=rf"cannot clean up '{tmp_path}': Permission denied"):
        remove_native_leftovers(tmp_path)


def test_what_cannot_be_listed_or_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the place of the directory, and rights that are missing; no directory has none."""
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(StorageError, match=rf"cannot list '{file}'"):
        list_snapshots(file)
    for absent in (file, tmp_path / "none"):
        assert remove_stale_temporaries(absent) == []

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / ".tmp-1-ab").mkdir()
    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(StorageError, match=rf"cannot clean up '{tmp_path}': Permission denied"):
        remove_stale_temporaries(tmp_path)


def test_only_a_directory_is_opened_as_one(tmp_path: Path) -> None:
    """A pipe of that name would make whoever opens it wait."""
    for name in ("file", "pipe"):
        path = tmp_path / name
        path.write_bytes(b"") if name == "file" else os.mkfifo(path)
        with pytest.raises(NotADirectoryError):
            _open_directory(path)


@pytest.mark.spec("SNP-15")
def test_leftovers_that_somebody_else_removes_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at them and their lock."""
    stale = tmp_path / ".tmp-1-ab"
    stale.mkdir()
    monkeypatch.setattr(fcntl, "flock", _before(fcntl.flock, lambda: shutil.rmtree(stale)))

    assert remove_stale_temporaries(tmp_path) == []


def _before(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    """Return *function* with *act* before its first call."""
    left = [act]

    def call(*arguments: Any) -> Any:
        while left:
            left.pop()()
        return function(*arguments)

    return call


@pytest.mark.spec("SNP-15")
@pytest.mark.parametrize("moment", ["opened", "locked"])
def test_a_new_directory_that_is_cleaned_up_at_once_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It looks like a leftover until it is locked."""

    def clean_up() -> None:
        (made,) = tmp_path.iterdir()
        made.rmdir()

    if moment == "opened":
        monkeypatch.setattr(snapshots, "_open_directory", _before(_open_directory, clean_up))
    else:
        monkeypatch.setattr(fcntl, "flock", _before(fcntl.flock, clean_up))
    with temporary_directory(tmp_path) as path:
        assert list(tmp_path.iterdir()) == [path]

    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_open_when_the_lock_is_not_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for it may be interrupted."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt), temporary_directory(tmp_path):
        pass
