"""A commit of several stores that stopped is ended once, and a power failure may take it whole."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from directory_records import directory_of

import statestores as ss
from statestores import failpoints
from statestores.changelog import ChangelogReader, FileChangelog, compact
from statestores.errors import (
    CommitConflictError,
    StorageError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.tasks import open_task
from statestores.tasks.commits import committed_ends, task_commit, written_stores
from statestores.tasks.commits.directory_record import RECORD_FILE, _checksum
from statestores.tasks.commits.record_file import read_file, write_file

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


class Died(BaseException):
    """The process ends here, as far as a task can tell."""


def _die() -> None:
    raise Died


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def _commit(root: ss.StateRoot, number: int, died_at: str = "", **how: Any) -> None:
    """Commit *number* to both stores, or die at a failpoint of that."""
    with open_task(root, "0_0", NAMES, backend="sqlite", **how) as task:
        task.store("counts").put("number", number)
        task.store("rates").put("number", number, timestamp_ms=number)
        if not died_at:
            task.commit({INPUT: number})
            return
        failpoints.arm(died_at, _die)
        with pytest.raises(Died):
            task.commit({INPUT: number})
        failpoints.disarm()


def _found(root: ss.StateRoot) -> tuple[object, object, object]:
    with open_task(root, "0_0", NAMES) as task:
        number = task.store("rates").get("number")
        return task.store("counts").get("number"), number and number.value, task.position[INPUT]


def _ends(root: ss.StateRoot) -> list[int]:
    ends = []
    for name in NAMES:
        with ChangelogReader.open(root.partition(name, 0).changelog) as log:
            ends.append(log.end_offset)
    return ends


def _record(root: ss.StateRoot) -> Path:
    return root.path / "@tasks" / "0_0" / "commit"


@pytest.mark.spec("TSK-3")
@pytest.mark.parametrize(
    ("failpoint", "before"),
    [("task.recorded", [1, 1]), ("logged.appended", [2, 1]), ("task.carried-out", [2, 2])],
)
def test_each_store_gets_a_recorded_commit_once(
    root: ss.StateRoot, failpoint: str, before: list[int]
) -> None:
    """Whatever of it the stores had when the task died; the record is not carried out again."""
    _commit(root, 1)
    _commit(root, 2, died_at=failpoint)
    assert _ends(root) == before

    for _ in range(2):
        assert _found(root) == (2, 2, 2)
        assert _ends(root) == [2, 2]
        assert not _record(root).exists()


@pytest.mark.spec("TSK-3", "TSK-16")
def test_a_power_failure_may_take_a_recorded_commit_with_those_before_it(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record was on disk, and what it goes on from was not: the state could not be opened."""
    boot = root.path / "boot"
    boot.write_text("the first start\n")
    monkeypatch.setattr(committed_ends, "_BOOT_FILE", boot)
    _commit(root, 0, durability=ss.Durability.PROCESS_CRASH)
    places = {root.partition(name, 0).path: root.path / f"before-{name}" for name in NAMES}
    for place, copy in places.items():
        shutil.copytree(place, copy)
    _commit(root, 1, durability=ss.Durability.PROCESS_CRASH)
    _commit(root, 2, died_at="task.recorded", durability=ss.Durability.PROCESS_CRASH)
    for place, copy in places.items():  # as the disk has them
        shutil.rmtree(place)
        copy.rename(place)
    boot.write_text("the second start\n")

    assert _found(root) == (0, 0, 0)
    assert _ends(root) == [1, 1]
    assert not _record(root).exists()


@pytest.mark.spec("TSK-3", "TSK-10")
def test_what_an_earlier_release_has_left_is_removed(root: ss.StateRoot) -> None:
    """A directory of which it has not come to remove everything, and one that was not finished."""
    _commit(root, 1)
    for name in ("commit.tmp", "commit.done"):
        left = root.path / "@tasks" / "0_0" / name / "counts"
        left.mkdir(parents=True)
        (left / "00000000000000000000.log").write_bytes(b"half")

    assert _found(root) == (1, 1, 1)
    assert {each.name for each in _record(root).parent.iterdir()} == {LOCK_FILE, "written.json"}


def _other_kind(record: Path) -> None:
    """Have each store's part be that of the other."""
    (record / "rates").rename(record / "other")
    (record / "counts").rename(record / "rates")
    (record / "other").rename(record / "counts")


def _two_frames(record: Path) -> None:
    """Have a part be two commits."""
    with FileChangelog.open(record / "rates", "versioned") as log:
        [frame] = log.read()
        log.append_batch(frame.batch, position=frame.position)
    (record / "rates" / LOCK_FILE).unlink()


def _not_a_directory(record: Path) -> None:
    shutil.rmtree(record / "rates")
    (record / "rates").write_bytes(b"")


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_other_kind, "cannot be read"),
        (_two_frames, "has 2 frames, and one of offset 0 was written"),
        (_not_a_directory, "'rates' is no directory"),
    ],
)
def test_a_record_without_checksums_is_checked_all_the_same(
    root: ss.StateRoot, damage: Callable[[Path], object], words: str
) -> None:
    """The first format has none, so what it holds is compared with what it must be."""
    _commit(root, 1)
    _commit(root, 2, died_at="task.recorded")
    record = _record(root)
    first = record.with_name("first")
    directory_of(record, root, first, first_format=True)
    record.unlink()
    shutil.copytree(first, record)
    damage(record)

    with pytest.raises(StoreCorruptedError, match=words) as caught:
        open_task(root, "0_0", NAMES)
    assert str(record) in str(caught.value)
    assert _ends(root) == [1, 1]
    shutil.rmtree(record)
    first.rename(record)
    assert _found(root) == (2, 2, 2)


def _said(record: Path, **of_rates: int) -> None:
    """Have *record* say *of_rates*, and be whole, with its lines in another order."""
    said = json.loads((record / RECORD_FILE).read_text())
    said["stores"]["rates"] |= of_rates
    del said["crc32c"]
    signed = {"crc32c": _checksum(said), **dict(reversed(said.items()))}
    (record / RECORD_FILE).write_text(json.dumps(signed))


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize(
    ("name", "words"), [("bytes", "bytes, and .* were written"), ("crc32c", "checksum of rates/")]
)
def test_what_a_record_says_of_a_part_is_compared_with_it(
    root: ss.StateRoot, name: str, words: str
) -> None:
    """Of a part that could be read: the file is of another commit than what says so."""
    _commit(root, 1)
    _commit(root, 2, died_at="task.recorded")
    record = _record(root)
    whole = record.with_name("whole")
    directory_of(record, root, whole)
    record.unlink()
    shutil.copytree(whole, record)
    noted = json.loads((whole / RECORD_FILE).read_text())["stores"]["rates"][name]
    _said(record, **{name: noted + 1})

    with pytest.raises(StoreCorruptedError, match=words):
        open_task(root, "0_0", NAMES)
    _said(record, **{name: noted})
    assert _found(root) == (2, 2, 2)


@pytest.mark.spec("TSK-3")
def test_a_record_whose_name_may_not_be_on_disk_is_one(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk failed after the record had its name: a rollback would have had it twice."""

    def fail(directory: Path) -> None:
        raise OSError(5, "Input/output error")

    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        task.store("counts").put("number", 1)
        task.store("rates").put("number", 1, timestamp_ms=1)
        with monkeypatch.context() as patched:
            patched.setattr(task_commit, "make_durable", fail)
            with pytest.raises(StorageError, match=r"cannot write '.*0_0': Input/output error"):
                task.commit({INPUT: 1})
        with pytest.raises(CommitConflictError, match="open it again"):
            task.rollback()

    assert _found(root) == (1, 1, 1)


@pytest.mark.spec("TSK-3")
def test_a_stranger_whose_changes_begin_as_the_recorded_ones_is_noticed(
    root: ss.StateRoot,
) -> None:
    """Its commit was taken for the recorded one, since as many changes of it were the same.

    The task went on from the position of the record, with what the stranger had put as well.
    """
    _commit(root, 1)
    _commit(root, 2, died_at="task.recorded")
    record = root.path / "@tasks" / "0_0" / "commit"
    record.rename(record.with_name("hidden"))  # an earlier release does not ask for it (TSK-24)
    with ss.open_logged_store(root, "counts", 0) as counts:
        counts.store.put("number", 2)
        counts.store.put("stranger", 1)
        counts.commit()
    record.with_name("hidden").rename(record)

    with pytest.raises(StoreCorruptedError, match="another program has written"):
        open_task(root, "0_0", NAMES)
    assert _ends(root) == [3, 1]


@pytest.mark.spec("TSK-3")
def test_a_commit_that_a_store_has_and_was_compacted_is_ended(root: ss.StateRoot) -> None:
    """What compaction has left of it no longer says what was appended; the task's came first."""
    _commit(root, 1)
    _commit(root, 2, died_at="logged.appended")
    with FileChangelog.open(root.partition("counts", 0).changelog, "key-value") as log:
        log.seal()
        compact(log)

    assert _found(root) == (2, 2, 2)
    assert _ends(root) == [2, 2]


def _of_its_kind(stores: dict[str, Any], counts: bytes, rates: bytes) -> list[bytes]:
    """Have the part of ``rates`` be of another kind, whole and at its offset."""
    stores["rates"]["bytes"] = len(counts)
    return [counts, counts]


def _at_its_offset(stores: dict[str, Any], counts: bytes, rates: bytes) -> list[bytes]:
    """Have the record say another offset, at which the changelog goes on."""
    stores["rates"]["base_offset"] = 0
    return [counts, rates]


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize("change", [_of_its_kind, _at_its_offset])
def test_a_part_is_one_frame_of_its_store(
    root: ss.StateRoot, change: Callable[[dict[str, Any], bytes, bytes], list[bytes]]
) -> None:
    """Also in a record that is whole: what it says was not written by a task."""
    _commit(root, 1)
    _commit(root, 2, died_at="task.recorded")
    file = read_file(_record(root))
    assert file is not None
    middle = file.parts_at + file.content["stores"]["counts"]["bytes"]
    parts = change(file.content["stores"], file.data[file.parts_at : middle], file.data[middle:])
    write_file(_record(root), file.content, parts)

    with pytest.raises(StoreCorruptedError, match=r"'rates' has 1 frames of a .* was written"):
        open_task(root, "0_0", NAMES)
    assert _ends(root) == [1, 1]


def _record_of(root: ss.StateRoot, form: int, scratch: Path) -> Path:
    """Leave a record of the format *form*, and return where."""
    _commit(root, 1)
    _commit(root, 2, died_at="task.recorded")
    record = _record(root)
    if form < 4:
        directory_of(record, root, scratch, first_format=form == 1)
        record.unlink()
        scratch.rename(record)
    return record


@pytest.mark.spec("TSK-3", "TSK-10")
@pytest.mark.parametrize(
    ("form", "place", "call", "words"),
    [
        (2, "commit", "iterdir", r"read '.*0_0/commit'"),
        (2, "commit/rates", "iterdir", r"read '.*0_0/commit/rates'"),
        (4, "commit", "exists", r"read '.*0_0'"),
        (4, "commit.tmp", "unlink", r"remove '.*0_0'"),
        (4, "commit", "unlink", r"remove '.*0_0/commit'"),
    ],
)
def test_a_record_that_cannot_be_read_or_removed_stays(
    root: ss.StateRoot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: int,
    place: str,
    call: str,
    words: str,
) -> None:
    """The disk fails for a moment: that is no damage, and the error says where it was."""
    record = _record_of(root, form, tmp_path / "scratch")
    done = getattr(Path, call)

    def failing(path: Path, *given: Any, **how: Any) -> Any:
        if path == record.parent / place:
            raise OSError(5, "Input/output error", str(path))
        return done(path, *given, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, call, failing)
        with pytest.raises(StorageError, match=f"cannot {words}: Input/output error"):
            open_task(root, "0_0", NAMES)
    assert record.exists()

    assert _found(root) == (2, 2, 2)


@pytest.mark.spec("TSK-10")
def test_a_record_that_is_no_file_that_can_be_opened_is_named(root: ss.StateRoot) -> None:
    """A link to itself, as a copy may leave it: neither no record nor a damaged one."""
    _commit(root, 1)
    _record(root).symlink_to(_record(root))

    with pytest.raises(StorageError, match=r"cannot read '.*0_0/commit': Too many levels of"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("TSK-3")
def test_a_commit_whose_record_cannot_be_written_is_none(root: ss.StateRoot) -> None:
    """It is pending still, and can be rolled back, or made when there is room again."""
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        unfinished = _record(root).with_name("commit.tmp")
        unfinished.mkdir()
        for number in (1, 2):
            task.store("counts").put("number", number)
            task.store("rates").put("number", number, timestamp_ms=number)
            with pytest.raises(StorageError, match=r"cannot write '.*commit\.tmp': Is a directory"):
                task.commit({INPUT: number})
            if number == 1:
                task.rollback()
        unfinished.rmdir()
        task.commit({INPUT: 2})

    assert _found(root) == (2, 2, 2)


@pytest.mark.spec("TSK-15")
def test_a_store_is_noted_once_its_changelog_is_on_disk(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files, its directory and those that have its name; where that fails, it is not noted."""
    changelog = root.partition("counts", 0).changelog
    noted = _record(root).with_name("written.json")
    waited: list[Path] = []

    def fail(place: Path) -> None:
        assert not noted.exists()
        waited.append(place)
        if place == changelog.parent.parent:
            raise OSError(5, "Input/output error")

    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        task.store("counts").put("number", 1)
        with monkeypatch.context() as patched:
            patched.setattr(written_stores, "make_durable", fail)
            with pytest.raises(StorageError, match=r"cannot write '.*changelog': Input/output"):
                task.commit({INPUT: 1})
    files = waited[:-3]
    assert waited[-3:] == [changelog, changelog.parent, changelog.parent.parent]
    assert {each.parent for each in files} == {changelog}
    assert any(each.suffix == ".log" for each in files)
    assert not noted.exists()
    with open_task(root, "0_0", NAMES) as task:
        assert task.store("counts").get("number") == 1

    assert json.loads(noted.read_text()) == {"format": 1, "stores": ["counts"], "outputs": []}


@pytest.mark.spec("TSK-15")
def test_a_note_of_a_release_without_outputs_is_read(root: ss.StateRoot) -> None:
    """It has the stores alone; one of a later release is not guessed at."""
    _commit(root, 1)
    noted = _record(root).with_name("written.json")
    noted.write_text(json.dumps({"format": 1, "stores": list(NAMES)}))
    assert _found(root) == (1, 1, 1)
    noted.write_text(json.dumps({"format": 2, "stores": list(NAMES)}))

    with pytest.raises(UnsupportedFormatError, match=r"written\.json"):
        open_task(root, "0_0", NAMES)
