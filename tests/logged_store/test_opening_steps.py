"""The steps by which a logged store is opened and goes on, and what each of them is for."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.snapshots.choice import SnapshotChoice
from statestores.changelog import ChangelogOptions, Compression, FileChangelog, change_schema
from statestores.changelog.encoded_rows import EncodedChanges
from statestores.changelog.rows import batch_from_changes
from statestores.changelog.segments.memory_segment import DEFAULT_COMPRESSION
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.failpoints import arm, disarm
from statestores.logged_store import (
    catching_up,
    encoded_commit,
    open_logged_store,
    opening,
)
from statestores.logged_store.encoded_commit import commit_encoded, encoded_pending
from statestores.logged_store.names_of_stores import NameOfStore, with_names_of_stores
from statestores.spi import Position
from statestores.staging.staged_write import publish, stage

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

COUNTS = ss.KeyValue("counts")
LOG = ss.TopicPartition("counts-changelog", 0)


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with one store of one partition."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(COUNTS, partitions=1)
    return state


def write(root: ss.StateRoot, value: bytes = b"1") -> None:
    """Commit something."""
    with open_logged_store(root, COUNTS) as logged:
        logged.store.put(b"k", value)
        logged.commit()


class Joined:
    """A class that has some names of its own."""

    commit = "its own"
    _private = "its own"


def test_a_logged_store_says_where_the_names_of_its_store_are() -> None:
    """Of any kind; of Kafka's names, and of what it has itself, it says nothing."""
    with_names_of_stores(Joined)
    joined: Any = Joined()

    for name in ("get", "put", "fetch_all", "scan_as_of", "find_sessions", "truncate"):
        with pytest.raises(AttributeError, match=rf"has no {name!r}.*write \.store\.{name}$") as at:
            getattr(joined, name)
        assert (at.value.name, at.value.obj) == (name, joined)
    assert (joined.commit, joined._private) == ("its own", "its own")
    named = {name for name, each in vars(Joined).items() if isinstance(each, NameOfStore)}
    assert not any(name.startswith("_") for name in named)
    assert named.isdisjoint({"commit", "flush", "init", "putIfAbsent", "query"})


@pytest.mark.spec("LGS-8")
@pytest.mark.parametrize("left", ["the store", "a snapshot"])
def test_a_changelog_that_is_gone_is_missed_where_nothing_was_noted(
    root: ss.StateRoot, left: str
) -> None:
    """A root of an earlier release notes no partition; what came from the changelog is witness."""
    with open_logged_store(root, COUNTS) as logged:
        logged.store.put(b"k", b"v")
        logged.commit()
        logged.snapshot()
    place = root.partition("counts", 0)
    shutil.rmtree(place.changelog)
    shutil.rmtree(place.path.parent / ".begun")
    if left == "the store":
        shutil.rmtree(place.snapshots)
    else:
        shutil.rmtree(place.path / "engine")
        (place.path / "engine.json").unlink()

    with pytest.raises(StoreMismatchError, match="is gone, and the store or a snapshot"):
        open_logged_store(root, COUNTS)
    assert not place.changelog.exists()


@pytest.mark.spec("COM-19")
@pytest.mark.parametrize("name", [7, None, b"counts"])
def test_what_is_no_name_is_a_wrong_argument(root: ss.StateRoot, name: Any) -> None:
    """And not a store that is not found, of which the caller would look for its place."""
    with pytest.raises(InvalidTypeError):
        open_logged_store(root, name)


@pytest.mark.spec("TSK-24", "LGS-9")
def test_an_opening_that_cannot_look_for_records_leaves_nothing_locked(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine and the changelog stayed open for as long as the process ran."""

    def fail(*_: object) -> bool:
        raise StorageError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(opening, "has_recorded_commit", fail)
        with pytest.raises(StorageError, match="the disk failed"):
            open_logged_store(root, COUNTS)

    write(root)


@pytest.mark.spec("TSK-24")
def test_a_commit_asks_for_records_where_there_was_one_and_nowhere_else(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither appends nor truncates while there is one; without one no commit looks for it."""
    asked: list[object] = []

    def refuse(path: Path, name: str, *, first: str) -> None:
        asked.append((path, name))
        raise InvalidArgumentError(f"{first}end it")

    monkeypatch.setattr(opening, "refuse_recorded_commits", refuse)
    write(root)
    assert asked == []
    monkeypatch.setattr(opening, "has_recorded_commit", lambda *_: True)
    with open_logged_store(root, COUNTS) as logged:
        logged.store.put(b"k", b"2")
        for call in (logged.commit, logged.store.truncate):
            with pytest.raises(InvalidArgumentError, match="roll back, close this store, and end"):
                call()
        assert logged.changelog.end_offset == 1
        assert asked == [(root.path, "counts")] * 2
        logged.store.rollback()
        assert logged.store.get(b"k") == b"1"


@pytest.mark.spec("LGS-12")
def test_a_test_may_stop_where_the_changelog_has_something_and_the_store_has_not(
    root: ss.StateRoot,
) -> None:
    """Of a commit and of a truncation."""
    stops: list[int] = []
    with open_logged_store(root, COUNTS) as logged:
        arm("logged.appended", lambda: stops.append(logged.changelog.end_offset))
        try:
            logged.store.put(b"k", b"v")
            logged.commit()
            arm("logged.appended", lambda: stops.append(-logged.changelog.end_offset))
            logged.store.truncate()
        finally:
            disarm()

        assert stops == [1, -2]


@pytest.mark.spec("MET-10")
def test_a_logged_store_says_what_it_is_and_has_restored(root: ss.StateRoot) -> None:
    """Whether it is open, where it stands, and how many rows and changes it began with."""
    with open_logged_store(root, COUNTS) as logged:
        for number in range(3):
            logged.store.put(b"%d" % number, b"v")
        logged.commit()
        logged.snapshot()
        logged.store.put(b"tail", b"v")
        logged.commit()
    place = root.partition("counts", 0)
    shutil.rmtree(place.path / "engine")
    (place.path / "engine.json").unlink()
    with open_logged_store(root, COUNTS) as logged:
        assert logged.is_open
        report = logged.restored
        assert (report.snapshot_rows, report.changelog_rows) == (3, 1)
        measured = {each.name: each.value for each in logged.metrics()}
        assert measured["restore-total"] == 4
        assert measured["changelog-records-total"] == 0

    assert not logged.is_open


@pytest.mark.spec("LGS-1")
@pytest.mark.parametrize("in_columns", [False, True])
def test_what_is_encoded_before_its_commit_is_what_the_changelog_has(
    tmp_path: Path, *, in_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compression of the changelog, from columns where they are at hand."""
    compression: list[object] = []

    def note(name: str) -> None:
        of = getattr(encoded_commit, name)

        def noted(kind: str, rows: Any, how: object) -> Any:
            compression.append(how)
            return of(kind, rows, how)

        monkeypatch.setattr(encoded_commit, name, noted)

    note("encoded_changes")
    note("encoded_rows")
    assert DEFAULT_COMPRESSION is not Compression.NONE
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.TimestampedKeyValue("counts"), partitions=1)
    options = ChangelogOptions(compression=Compression.NONE)
    with open_logged_store(root, "counts", changelog_options=options) as logged:
        kind: Any = type(logged._bytes_store)
        logged.store.put(b"k", b"v", 5)
        if in_columns:
            given = logged._bytes_store.pending_changes()
            batch = batch_from_changes(change_schema("timestamped-key-value"), given)
            monkeypatch.setattr(kind, "pending_columns", lambda _: tuple(batch.columns))
            monkeypatch.setattr(kind, "pending_changes", lambda _: pytest.fail("not asked"))
        encoded = encoded_pending(logged)
        assert isinstance(encoded, EncodedChanges)
        assert commit_encoded(logged, Position(), encoded) == 0

    assert compression == [Compression.NONE]
    with open_logged_store(root, "counts") as logged:
        assert logged.store.get(b"k") == (b"v", 5)


@pytest.mark.spec("LGS-9")
def test_an_engine_may_lie_elsewhere_beside_a_changelog_in_files(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """On a faster disk: only in an object store has a directory another meaning."""
    with open_logged_store(root, COUNTS, directory=tmp_path / "elsewhere") as logged:
        logged.store.put(b"k", b"v")
        logged.commit()
        assert isinstance(logged.changelog, FileChangelog)

    assert (tmp_path / "elsewhere" / "engine").is_dir()
    assert not (root.partition("counts", 0).path / "engine").exists()


@pytest.mark.spec("LGS-8", "LAY-35")
def test_a_partition_that_is_gone_gets_no_engine(root: ss.StateRoot) -> None:
    """The next opening would find one, of which nobody knows that it is empty for no reason."""
    write(root)
    place = root.partition("counts", 0)
    shutil.rmtree(place.path)
    with pytest.raises(StoreMismatchError, match="says that there was one"):
        open_logged_store(root, COUNTS)

    assert not place.path.exists()


@pytest.mark.spec("LGS-8", "LAY-35")
def test_an_engine_whose_changelog_is_gone_is_missed_before_its_first_commit(
    root: ss.StateRoot,
) -> None:
    """Nothing has come from the changelog yet, but it was begun, and what it had is not known."""
    with open_logged_store(root, COUNTS):
        pass
    place = root.partition("counts", 0)
    shutil.rmtree(place.changelog)
    with pytest.raises(StoreMismatchError, match="says that there was one"):
        open_logged_store(root, COUNTS)

    assert not place.changelog.exists()


@pytest.mark.spec("LGS-8")
def test_an_engine_that_has_come_from_a_changelog_says_so(root: ss.StateRoot) -> None:
    """Whoever reads that can export it; a note that there was a changelog says more (LAY-35)."""
    write(root)
    shutil.rmtree(root.partition("counts", 0).changelog)
    shutil.rmtree(root.path / "counts" / ".begun")
    with pytest.raises(StoreMismatchError, match="export the store and import it"):
        open_logged_store(root, COUNTS)


@pytest.mark.spec("LGS-7")
@pytest.mark.parametrize(("committed", "first", "loads"), [(4, 5, False), (4, 6, True)])
def test_a_snapshot_is_read_where_one_change_is_missing(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch, committed: int, first: int, *, loads: bool
) -> None:
    """And where the changelog goes on from the store none is looked for."""
    looked: list[Path] = []

    def newest(path: Path) -> Any:
        looked.append(path)
        return SnapshotChoice(None, {})

    monkeypatch.setattr(catching_up, "newest_valid_snapshot", newest)
    monkeypatch.setattr(catching_up, "restore", lambda *_, **__: "restored")
    at: Any = SimpleNamespace(
        committed_offset=lambda _: committed, first_offset=first, end_offset=9, begun_from=None
    )
    place = root.partition("counts", 0)
    report: Any = catching_up.bring_up(at, at, place, LOG, None)

    assert report == "restored"
    assert looked == ([place.snapshots] if loads else [])


@pytest.mark.spec("RSH-7")
@pytest.mark.parametrize("check", ["check_current", "refuse_unfinished_write"])
def test_what_happens_while_the_changelog_is_opened_is_noticed(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """A reshard, or a write that was committed: the store would go on without it."""
    where: Any = ss.StateRoot if check == "check_current" else catching_up
    begin, passed = catching_up._open_changelog, getattr(where, check)
    begun: list[object] = []

    def noted(*given: Any) -> Any:
        begun.append(given)
        return begin(*given)

    def refuse(*given: Any) -> None:
        if begun:
            raise StoreLockedError("somebody was faster")
        passed(*given)

    with monkeypatch.context() as patch:
        patch.setattr(catching_up, "_open_changelog", noted)
        patch.setattr(where, check, refuse)
        with pytest.raises(StoreLockedError, match="somebody was faster") as kept:
            open_logged_store(root, COUNTS)
    write(root)

    del kept


def test_what_a_job_has_committed_is_in_the_store_that_is_opened(root: ss.StateRoot) -> None:
    """It has died behind its commit; the opening was refused, until somebody ended the write."""

    def die() -> None:
        raise KeyboardInterrupt

    write(root)
    change = pa.RecordBatch.from_pylist([{"key": b"k", "value": b"2"}], change_schema("key-value"))
    staged = stage(root.path, COUNTS, 3, "w", "t", [change], partition=0)
    arm("publish.committed", die)
    try:
        with pytest.raises(KeyboardInterrupt):
            publish(root, "counts", "w", [staged])
    finally:
        disarm()

    with open_logged_store(root, COUNTS) as logged:
        assert logged.store.get(b"k") == b"2"


@pytest.mark.spec("SRD-40")
def test_an_opening_by_the_specification_that_the_root_has_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every opening of a store with a schema wrote the root's document anew."""
    root = ss.StateRoot.create(tmp_path / "typed")
    typed = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    root.add_store(typed, partitions=1)
    monkeypatch.setattr(ss.StateRoot, "add_store", lambda *_, **__: pytest.fail("written"))
    with open_logged_store(root, typed) as logged:
        logged.store.put("k", 1)
        assert logged.commit() == 0


@pytest.mark.spec("LGS-10")
def test_an_append_that_raised_and_is_there_cannot_be_rolled_back(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the changelog has moved: what it has is replayed by the next opening."""
    with open_logged_store(root, COUNTS) as logged:
        append = logged.changelog.append

        def failing(*given: Any, **how: Any) -> Any:
            append(*given, **how)
            raise StorageError("the disk failed")

        logged.store.put(b"k", b"v")
        with monkeypatch.context() as patch:
            patch.setattr(logged.changelog, "append", failing)
            with pytest.raises(StorageError, match="the disk failed"):
                logged.commit()
        with pytest.raises(CommitConflictError, match="has, or may have, the pending writes"):
            logged.store.rollback()
        logged.commit()
        assert logged.changelog.end_offset == 2
