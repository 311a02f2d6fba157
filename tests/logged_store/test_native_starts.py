"""Whether an engine begins with the native part of a snapshot, and what is there when it has."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from native_snapshots import (
    COUNTS,
    native_snapshot,
    root_with_native_snapshot,
    without_engine,
)

import statestores as ss
from statestores.arrow.snapshots.native_part import NativePart
from statestores.changelog import FileChangelog
from statestores.errors import StorageError, StoreNotFoundError, UnknownBackendError
from statestores.failpoints import arm, disarm
from statestores.files.directory_lock import LOCK_FILE
from statestores.logged_store import native_start
from statestores.logged_store.native_start import begin_from_native, open_restorable
from statestores.spi import Durability

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> ss.StateRoot:
    """A root with a native snapshot and a tail, of which each test has a copy."""
    return root_with_native_snapshot(tmp_path_factory.mktemp("sound") / "root")


@pytest.fixture
def root(sound: ss.StateRoot, tmp_path: Path) -> ss.StateRoot:
    """A copy of it without its engine."""
    return ss.StateRoot.open(without_engine(sound, tmp_path / "root", native=True))


def begun(root: ss.StateRoot, backend: str | None = None, home: Path | None = None) -> int | None:
    """Begin the engine of the partition, in *home* if it is not beside the changelog.

    Return the offset of the snapshot whose native part it was made of.
    """
    source = root.partition("counts", 0)
    snapshot = begin_from_native(home or source.path, COUNTS, source, backend)
    return None if snapshot is None else snapshot.offset


def home_of(root: ss.StateRoot) -> Path:
    """Return the directory of the partition."""
    return root.partition("counts", 0).path


def name_backend(root: ss.StateRoot, backend: str) -> None:
    """Have ``engine.json`` name *backend*, of an engine that is lost."""
    (home_of(root) / "engine.json").write_text(json.dumps({"format": 1, "backend": backend}))


@pytest.mark.spec("SNP-28")
def test_an_engine_begins_with_the_newest_snapshot(sound: ss.StateRoot, tmp_path: Path) -> None:
    """An older one would do as well, and have more replayed."""
    copied = tmp_path / "two"
    shutil.copytree(sound.path, copied)
    with ss.open_logged_store(copied, COUNTS) as logged:
        newest = native_snapshot(logged).offset
    root = ss.StateRoot.open(without_engine(ss.StateRoot.open(copied), tmp_path / "r", native=True))

    assert begun(root) == newest
    assert newest + 1 == 301  # nothing is behind it in the changelog


@pytest.mark.spec("SNP-28", "LAY-29")
def test_what_has_begun_is_an_engine_and_nothing_else(root: ss.StateRoot) -> None:
    """No lock of whoever looked into it, no note of a creation, and the name of its backend."""
    steps: list[tuple[str, bool, bool]] = []
    home = home_of(root)

    def seen(step: str) -> None:
        creating = (home / "engine.creating.json").exists()
        steps.append((step, creating, (home / "engine").exists()))

    arm("native.restored", lambda: seen("restored"))
    arm("native.renamed", lambda: seen("renamed"))
    try:
        assert begun(root) == 299
    finally:
        disarm()

    assert steps == [("restored", True, False), ("renamed", True, True)]
    assert not (home / "engine" / LOCK_FILE).exists()
    assert not list(home.glob(".tmp-*"))
    with ss.open_logged_store(root, COUNTS) as logged:
        assert logged.committed_offset == 300


@pytest.mark.spec("SNP-28", "LAY-29")
def test_the_engine_of_a_backend_that_is_known_is_not_noted_anew(root: ss.StateRoot) -> None:
    """Its name is on disk; a second note would be there after it, of a creation that is over."""
    name_backend(root, "rocksdb")
    noted: list[bool] = []
    arm("native.restored", lambda: noted.append((home_of(root) / "engine.creating.json").exists()))
    try:
        assert begun(root) == 299
    finally:
        disarm()

    assert noted == [False]


@pytest.mark.spec("LAY-26", "LAY-29", "SNP-28")
def test_a_backend_that_the_program_does_not_know_is_not_imported(root: ss.StateRoot) -> None:
    """A file names it; the error says which. Whoever names it in the program may have it."""
    name_backend(root, "somewhere:Engine")
    with pytest.raises(UnknownBackendError, match=r"engine\.json' names the backend"):
        begun(root)
    name_backend(root, "nowhere")
    with pytest.raises(UnknownBackendError) as caught:
        begun(root, "nowhere")

    assert "engine.json" not in str(caught.value)


@pytest.mark.spec("LAY-29", "SNP-28")
def test_no_engine_begins_beside_the_name_of_another_backend(root: ss.StateRoot) -> None:
    """Its own opening says so; of a native part nothing was there before."""
    name_backend(root, "sqlite")

    assert begun(root, "rocksdb") is None
    assert not (home_of(root) / "engine").exists()


@pytest.mark.spec("SNP-28")
def test_an_engine_begins_in_an_empty_place_and_in_no_other(root: ss.StateRoot) -> None:
    """Neither over files of an engine nor over a file."""
    place = home_of(root) / "engine"
    place.write_bytes(b"")
    assert begun(root) is None
    place.unlink()
    place.mkdir()
    (place / "CURRENT").write_bytes(b"")
    assert begun(root) is None
    assert [each.name for each in place.iterdir()] == ["CURRENT"]
    (place / "CURRENT").unlink()

    assert begun(root) == 299


@pytest.mark.spec("SNP-28")
def test_a_snapshot_that_is_removed_meanwhile_is_none(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever vacuums may be faster; what is left has the rows as well."""

    def removed(_: Path) -> Any:
        raise StoreNotFoundError("removed")

    monkeypatch.setattr(native_start, "read_snapshot", removed)

    assert begun(root) is None


@pytest.mark.spec("SNP-28")
@pytest.mark.parametrize("harm", ["another partition", "damaged", "gone"])
def test_a_snapshot_that_the_changelog_does_not_go_on_from_is_not_begun_with(
    root: ss.StateRoot, tmp_path: Path, harm: str
) -> None:
    """The restore says what is wrong, of a changelog that is damaged or of another partition."""
    home = home_of(root)
    if harm == "another partition":
        other = ss.StateRoot.create(tmp_path / "other")
        other.add_store(COUNTS, partitions=2)
        shutil.copytree(home, other.partition("counts", 1).path)
        source = other.partition("counts", 1)
    else:
        source = root.partition("counts", 0)
        if harm == "gone":
            shutil.rmtree(home / "changelog")
        else:
            for segment in (home / "changelog").iterdir():
                segment.write_bytes(bytes(segment.stat().st_size))

    assert begin_from_native(tmp_path / "new", COUNTS, source, None) is None
    assert not (tmp_path / "new" / "engine").exists()


@pytest.mark.spec("SNP-28")
def test_the_snapshot_of_another_partition_is_not_begun_with(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Although the changelog is long enough: the store would have the other's rows."""
    other = ss.StateRoot.create(tmp_path / "other")
    other.add_store(COUNTS, partitions=2)
    with ss.open_logged_store(other, COUNTS, 1, directory=tmp_path / "elsewhere") as logged:
        for number in range(301):
            logged.store.put(b"%03d" % number, b"own")
        logged.commit()
    source = other.partition("counts", 1)
    shutil.copytree(home_of(root) / "snapshots", source.snapshots)

    assert begin_from_native(tmp_path / "new", COUNTS, source, None) is None


@pytest.mark.spec("SNP-28")
def test_an_engine_that_leaves_no_lock_is_begun_with(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a backend that removes it when it is closed."""
    monkeypatch.setattr(
        native_start, "_check_content", lambda made, *_: (made / LOCK_FILE).unlink(missing_ok=True)
    )

    assert begun(root) == 299


@pytest.mark.spec("SNP-28", "ENG-8")
def test_what_has_begun_is_on_disk_before_it_has_its_name(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file, the directory that has them, and when it has its name that as well."""
    durable: list[str] = []
    renamed_after: list[int] = []
    monkeypatch.setattr(native_start, "make_durable", lambda path: durable.append(Path(path).name))
    arm("native.renamed", lambda: renamed_after.append(len(durable)))
    try:
        assert begun(root) == 299
    finally:
        disarm()
    home = home_of(root)

    assert set(durable[: renamed_after[0] - 1]) == {
        each.name for each in (home / "engine").iterdir()
    }
    assert durable[renamed_after[0] - 1].startswith(".tmp-")
    assert durable[renamed_after[0] :] == [home.name]


@pytest.mark.spec("SNP-28")
def test_an_engine_that_somebody_else_has_begun_meanwhile_stays(root: ss.StateRoot) -> None:
    """And nothing is said to have begun with the snapshot."""
    place = home_of(root) / "engine"

    def begin() -> None:
        place.mkdir()
        (place / "CURRENT").write_bytes(b"theirs")

    arm("native.restored", begin)
    try:
        assert begun(root) is None
    finally:
        disarm()

    assert {each.name: each.read_bytes() for each in place.iterdir()} == {"CURRENT": b"theirs"}


@pytest.mark.spec("SNP-28")
def test_a_place_that_cannot_be_written_is_our_error(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where; what keeps files from being copied, looked for and named."""
    home = home_of(root)

    def fail(*_: object, **__: object) -> Any:
        raise OSError(5, "the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(NativePart, "copy_to", fail)
        with pytest.raises(StorageError, match=f"cannot restore into '{home}': .*the disk failed"):
            begun(root)
    arm("native.restored", fail)
    try:
        with pytest.raises(StorageError, match=f"cannot restore into '{home}'"):
            begun(root)
    finally:
        disarm()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(StorageError, match=f"cannot restore into '{home}'"):
            begun(root)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", fail)
        with pytest.raises(StorageError, match=f"cannot look into '{home}'"):
            native_start._has_engine(home)

    assert begun(root) == 299


@pytest.mark.spec("SNP-28")
def test_a_changelog_that_cannot_be_looked_for_is_our_error(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which, and no engine is made."""
    source = root.partition("counts", 0)
    is_dir = Path.is_dir

    def fail(path: Path, **how: Any) -> bool:
        if path == source.changelog and how.get("follow_symlinks", True):
            raise OSError(5, "the disk failed")
        return is_dir(path)

    monkeypatch.setattr(native_start, "begin_from_native", lambda *_: None)
    monkeypatch.setattr(Path, "is_dir", fail)
    monkeypatch.setattr(FileChangelog, "exists", lambda _: True)
    with pytest.raises(StorageError, match=f"cannot read '{source.changelog}'"):
        open_restorable(
            tmp_path / "new",
            COUNTS,
            source,
            backend="sqlite",
            options=None,
            durability=Durability.PROCESS_CRASH,
        )
