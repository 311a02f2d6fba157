"""The offsets of text files move into the store beside them, and back for a downgrade."""

from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    MalformedCheckpointError,
    StorageError,
    StoreMismatchError,
)
from statestores.migration import (
    import_legacy_offsets,
    read_offsets_file,
    write_legacy_offsets,
    write_offsets_file,
)

CHANGELOG = ss.TopicPartition("app-counts-changelog", 3)
OTHER = ss.TopicPartition("app-words-changelog", 3)
INPUT = ss.TopicPartition("input", 3)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Make a task's directory with the files of two stores."""
    directory = tmp_path / "0_3"
    directory.mkdir()
    write_offsets_file(directory / ".checkpoint", {CHANGELOG: 41, OTHER: 7})
    write_offsets_file(directory / "counts.position", {INPUT: 100})
    write_offsets_file(directory / "words.position", {INPUT: 99})
    return directory


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make a store with a row and no offset."""
    with open_counts(tmp_path / "store") as store:
        store.put(b"a", b"1")
        store.commit({})
    return tmp_path / "store"


def open_counts(path: Path) -> ss.KeyValueStore[bytes, bytes]:
    """Open the store."""
    return ss.open_store(path, ss.KeyValue("counts"), backend="sqlite")


def names(directory: Path) -> list[str]:
    """Return what is left in a directory."""
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.spec("MIG-3")
def test_offsets_and_position_move_into_the_store(task: Path, place: Path) -> None:
    """After a restart the store has them, and what the files say of others is there still."""
    with open_counts(place) as store:
        done = import_legacy_offsets(store, task, [CHANGELOG])
    with open_counts(place) as store:
        assert store.committed_offset(CHANGELOG) == 41
        assert store.position == {INPUT: 100}
        assert store.committed_offset(OTHER) is None

    assert done.offsets == {CHANGELOG: 41}
    assert done.position == {INPUT: 100}
    assert done.removed == (task / "counts.position",)
    assert names(task) == [".checkpoint", "words.position"]
    assert read_offsets_file(task / ".checkpoint") == {OTHER: 7}


@pytest.mark.spec("MIG-3")
def test_the_last_store_removes_the_checkpoint(task: Path, place: Path) -> None:
    """There is no file without rows."""
    with open_counts(place) as store:
        done = import_legacy_offsets(store, task, [CHANGELOG, OTHER])

    assert done.removed == (task / "counts.position", task / ".checkpoint")
    assert names(task) == ["words.position"]


@pytest.mark.spec("MIG-4")
def test_a_second_import_does_nothing(task: Path, place: Path) -> None:
    """Without files there is nothing to do, and that is not an error."""
    with open_counts(place) as store:
        import_legacy_offsets(store, task, [CHANGELOG])
        again = import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == 41
    assert again.offsets == {}
    assert again.position == {}
    assert again.removed == ()


@pytest.mark.spec("MIG-4")
@pytest.mark.parametrize("left", [["counts.position", ".checkpoint"], [".checkpoint"]])
def test_a_crash_before_the_removal_is_harmless(task: Path, place: Path, left: list[str]) -> None:
    """What is committed and not yet removed is found again, the same, and removed."""
    contents = {name: (task / name).read_bytes() for name in left}
    with open_counts(place) as store:
        import_legacy_offsets(store, task, [CHANGELOG])
    for name, content in contents.items():
        (task / name).write_bytes(content)

    with open_counts(place) as store:
        again = import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == 41
        assert store.position == {INPUT: 100}
    assert again.offsets == {}
    assert read_offsets_file(task / ".checkpoint") == {OTHER: 7}
    assert not (task / "counts.position").exists()


@pytest.mark.spec("MIG-4")
def test_an_older_file_gives_way_to_the_store(task: Path, place: Path) -> None:
    """The store's offsets belong to its data; a file that was left behind does not."""
    with open_counts(place) as store:
        store.advance_position({INPUT: 101})
        store.commit({CHANGELOG: 42})
        done = import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == 42
        assert store.position == {INPUT: 101}
    assert done.superseded == (CHANGELOG, INPUT)
    assert names(task) == [".checkpoint", "words.position"]


@pytest.mark.spec("MIG-5")
@pytest.mark.parametrize(("offset", "position"), [(40, 100), (41, 99)])
def test_a_file_ahead_of_the_store_is_refused(
    task: Path, place: Path, offset: int, position: int
) -> None:
    """Taking it would skip the records in between. Nothing changes."""
    before = {path.name: path.read_bytes() for path in task.iterdir()}
    with open_counts(place) as store:
        store.advance_position({INPUT: position})
        store.commit({CHANGELOG: offset})
        with pytest.raises(StoreMismatchError, match="would be skipped"):
            import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == offset
        assert store.position == {INPUT: position}
    assert {path.name: path.read_bytes() for path in task.iterdir()} == before


@pytest.mark.spec("MIG-6")
def test_the_sentinel_is_no_offset(task: Path, place: Path) -> None:
    """The store has to be restored from the beginning, as before."""
    write_offsets_file(task / ".checkpoint", {CHANGELOG: None})
    with open_counts(place) as store:
        done = import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) is None
        assert store.committed_offsets() == {}
    assert done.offsets == {}
    assert names(task) == ["words.position"]


@pytest.mark.spec("MIG-6")
def test_a_global_store_has_the_next_offset_in_its_file(place: Path, tmp_path: Path) -> None:
    """Here it is the last applied one, and 0 is none."""
    source = [ss.TopicPartition("source", number) for number in range(2)]
    write_offsets_file(tmp_path / ".checkpoint", {source[0]: 42, source[1]: 0})
    with open_counts(place) as store:
        import_legacy_offsets(store, tmp_path, source, is_global=True)

        assert store.committed_offsets() == {source[0]: 41}
        write_legacy_offsets(store, tmp_path, source, is_global=True)
    assert read_offsets_file(tmp_path / ".checkpoint") == {source[0]: 42, source[1]: None}


@pytest.mark.spec("MIG-3")
def test_a_file_of_one_store_is_imported(task: Path, place: Path) -> None:
    """Later versions keep one for each store that does not manage its offsets itself."""
    write_offsets_file(task / ".checkpoint", {OTHER: 7})
    write_offsets_file(task / ".checkpoint_counts", {CHANGELOG: 40})
    with open_counts(place) as store:
        done = import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == 40
    assert task / ".checkpoint_counts" in done.removed


@pytest.mark.spec("MIG-5")
def test_two_files_that_contradict_each_other_are_refused(task: Path, place: Path) -> None:
    """Nobody knows which one is right."""
    write_offsets_file(task / ".checkpoint_counts", {CHANGELOG: 40})
    with (
        open_counts(place) as store,
        pytest.raises(StoreMismatchError, match="remove the one that is wrong"),
    ):
        import_legacy_offsets(store, task, [CHANGELOG])


@pytest.mark.spec("MIG-7")
@pytest.mark.parametrize("name", [".checkpoint", "counts.position"])
def test_a_malformed_file_changes_nothing(task: Path, place: Path, name: str) -> None:
    """Neither the store nor the files."""
    (task / name).write_bytes((task / name).read_bytes()[:-1])
    before = {path.name: path.read_bytes() for path in task.iterdir()}
    with open_counts(place) as store:
        with pytest.raises(MalformedCheckpointError, match=r"line \d"):
            import_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offsets() == {}
        assert store.position == {}
    assert {path.name: path.read_bytes() for path in task.iterdir()} == before


@pytest.mark.spec("MIG-7")
def test_pending_writes_are_not_committed_along(task: Path, place: Path) -> None:
    """An import is a commit of its own."""
    with open_counts(place) as store:
        store.put(b"b", b"2")
        with pytest.raises(InvalidArgumentError, match="pending"):
            import_legacy_offsets(store, task, [CHANGELOG])


@pytest.mark.spec("MIG-8")
def test_a_downgrade_writes_what_was_imported(task: Path, place: Path) -> None:
    """Import and downgrade are each other's reverse."""
    before = {path.name: path.read_bytes() for path in task.iterdir()}
    with open_counts(place) as store:
        import_legacy_offsets(store, task, [CHANGELOG])
        written = write_legacy_offsets(store, task, [CHANGELOG])

        assert store.committed_offset(CHANGELOG) == 41
    assert written == (task / "counts.position", task / ".checkpoint")
    assert {path.name: path.read_bytes() for path in task.iterdir()} == before


@pytest.mark.spec("MIG-8")
def test_a_downgrade_tells_of_the_last_commit(task: Path, place: Path) -> None:
    """Not of what is pending; and a store without an offset gets the sentinel."""
    with open_counts(place) as store:
        store.put(b"b", b"2")
        store.advance_position({INPUT: 5})
        write_legacy_offsets(store, task, [CHANGELOG])

    assert read_offsets_file(task / ".checkpoint") == {CHANGELOG: None, OTHER: 7}
    assert read_offsets_file(task / "counts.position") is None


@pytest.mark.spec("MIG-8")
def test_a_downgrade_does_not_replace_what_it_cannot_read(task: Path, place: Path) -> None:
    """The rows of other stores would be lost."""
    (task / ".checkpoint").write_text("0\n1\n")
    with open_counts(place) as store, pytest.raises(MalformedCheckpointError):
        write_legacy_offsets(store, task, [CHANGELOG])

    assert (task / ".checkpoint").read_text() == "0\n1\n"


@pytest.mark.spec("MIG-4")
def test_an_import_that_cannot_remove_the_files_is_finished_later(task: Path, place: Path) -> None:
    """The store has the offsets by then, and says that the files are in the way."""
    (task / ".checkpoint.tmp").mkdir()
    with open_counts(place) as store:
        with pytest.raises(StorageError, match="cannot write"):
            import_legacy_offsets(store, task, [CHANGELOG])
        assert store.committed_offset(CHANGELOG) == 41
        (task / ".checkpoint.tmp").rmdir()
        import_legacy_offsets(store, task, [CHANGELOG])

    assert read_offsets_file(task / ".checkpoint") == {OTHER: 7}
