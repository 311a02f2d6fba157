"""The files of a partition, and stores of old that keep opening."""

import fcntl
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores import opening
from statestores.errors import (
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnknownBackendError,
    UnsupportedFormatError,
)
from statestores.files import durable_json
from statestores.files.directory_lock import DirectoryLock
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.self_description import read_description
from statestores.semantics.rows.layout import DATA, END, FORMAT_ROW, HISTORY
from statestores.serdes.descriptions import specification_from_description
from statestores.spi import Capabilities, Durability, WriteBatch
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_2 = Path(__file__).parent / "golden-format-2"
BACKENDS = ["leveldb", "rocksdb", "sqlite"]


@pytest.mark.spec("LAY-17")
@pytest.mark.parametrize("backend", [*BACKENDS, "sqlite-checksums"])
def test_a_golden_key_value_store_opens(tmp_path: Path, backend: str) -> None:
    """Content, offset, position and serdes are those that were written."""
    shutil.copytree(GOLDEN / backend / "counts", tmp_path / "counts")

    with ss.open_existing(tmp_path / "counts") as store:
        assert store.specification == ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        assert isinstance(store, ss.KeyValueStore)
        assert dict(store.range()) == {"": 3, "b\0ü": 2}
        assert store.committed_offsets() == {ss.TopicPartition("counts-changelog", 0): 3}
        assert store.position == {ss.TopicPartition("words", 0): 12}


@pytest.mark.spec("LAY-17", "TKV-7", "TTL-12")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_timestamped_store_opens(tmp_path: Path, backend: str) -> None:
    """Timestamps, stream time and what has expired are those that were written."""
    shutil.copytree(GOLDEN / backend / "seen", tmp_path / "seen")
    seen = ss.TimestampedKeyValue("seen", ttl_ms=1_000, key=ss.utf8, value=ss.utf8)

    with ss.open_store(tmp_path / "seen", seen) as store:
        assert list(store.range()) == [
            ("", ("1", 100)),
            ("b\0ü", ("6", 1_060)),
            ("undated", ("5", None)),
        ]
        assert store.get("old") is None
        assert store.stream_time_ms == 1_060
        assert store.committed_offsets() == {ss.TopicPartition("seen-changelog", 0): 6}
        assert store.position == {ss.TopicPartition("events", 0): 12}
        store.put("new", "7", 1_100)

        assert store.get("") is None, "it has expired by now"


@pytest.mark.spec("LAY-17")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_versioned_store_opens(tmp_path: Path, backend: str) -> None:
    """History, deletions and stream time are those that were written."""
    shutil.copytree(GOLDEN / backend / "rates", tmp_path / "rates")
    rates = ss.Versioned("rates", history_retention_ms=1_000, value=ss.json)

    with ss.open_store(tmp_path / "rates", rates) as store:
        assert [tuple(version) for version in store.history(b"EUR")] == [
            ({"usd": 1.08}, 1_000, 1_200),
            ({"usd": 1.09}, 1_200, 1_500),
            ({"usd": 1.1}, 1_500, None),
        ]
        assert store.get(b"EUR\0") is None
        assert store.stream_time_ms == 1_600
        assert store.put(b"EUR\0", {}, 1_550).valid_to_ms == 1_600


@pytest.mark.spec("LAY-17", "LAY-19", "LAY-20", "LAY-21")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_window_store_opens(tmp_path: Path, backend: str) -> None:
    """Duplicates, their next number and stream time are those that were written."""
    shutil.copytree(GOLDEN / backend / "hits", tmp_path / "hits")
    hits = ss.Window(
        "hits", retention_ms=1_000, window_size_ms=10, retain_duplicates=True, value=ss.json
    )

    with ss.open_store(tmp_path / "hits", hits) as store:
        windows = [(window.key, window.start_ms, window.value) for window in store.fetch_all()]

        assert windows == [
            (b"E\0", 100, {"n": 1}),
            (b"E\0", 100, {"n": 2}),
            (b"U", 1_060, {"n": 4}),
        ]
        assert store.stream_time_ms == 1_060
        assert not store.put(b"U", {}, 60)
        assert store.put(b"U", {}, 61)
        assert store.pending_changes().sequences == [4]


@pytest.mark.spec("LAY-17", "LAY-19", "LAY-20", "LAY-21")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_session_store_opens(tmp_path: Path, backend: str) -> None:
    """Sessions and stream time are those that were written."""
    shutil.copytree(GOLDEN / backend / "visits", tmp_path / "visits")

    with ss.open_existing(tmp_path / "visits") as store:
        assert store.specification == ss.Session("visits", retention_ms=1_000, key=ss.utf8)
        assert isinstance(store, ss.SessionStore)
        assert [tuple(session) for session in store.find_all_sessions()] == [
            ("ann", 90, 100, b"1"),
            ("b\0ü", 90, 110, b"2"),
        ]
        assert store.stream_time_ms == 1_060
        assert store.committed_offsets() == {ss.TopicPartition("visits-changelog", 0): 4}


@pytest.mark.spec("LAY-17", "LAY-2", "LAY-20", "WIN-18", "SES-18")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["hits", "visits"])
def test_what_format_1_has_written_expires(tmp_path: Path, backend: str, name: str) -> None:
    """The store gets format 2 with its first group; rows of both forms go when their time comes."""
    engine = load_backend(backend)
    shutil.copytree(GOLDEN / backend / name / "engine", tmp_path / "engine")
    with engine.open(tmp_path / "engine") as opened:
        specification = specification_from_description(read_description(opened) or {})
        store: Any = open_on_engine(opened, specification, durability=Durability.PROCESS_CRASH)
        old, version = dict(opened.scan(HISTORY, END)), opened.get(FORMAT_ROW)
        assert version == b"1"
        _put_raw(store, 30, 2_000)
        store.commit({})
        mixed = examine_rows(opened)
        assert opened.get(FORMAT_ROW) == b"2"
        for time_ms in (2_500, 9_000):
            _put_raw(store, 1, time_ms)
            store.commit({})
        left = dict(opened.scan(DATA, END))

        assert mixed is not None
        assert mixed.problems == []
        assert not old.keys() & left.keys()
        assert len(left) == 2


def _put_raw(store: Any, count: int, time_ms: int) -> None:
    """Put *count* rows of bytes that expire by *time_ms*."""
    for number in range(count):
        if isinstance(store, ss.SessionStore):
            store.put(b"%d" % number, time_ms, time_ms, b"1")
        else:
            store.put(b"%d" % number, b"1", time_ms)


@pytest.mark.spec("LAY-17", "LAY-20", "LAY-21", "LAY-30", "LAY-31", "WIN-20")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_window_store_of_format_2_opens(tmp_path: Path, backend: str) -> None:
    """What is visible is found, and the removal of a group goes on where it stood."""
    shutil.copytree(GOLDEN_2 / backend / "clicks", tmp_path / "clicks")
    clicks = ss.Window("clicks", retention_ms=1_000, window_size_ms=10, value=ss.json)
    visible = [(b"k%d" % number, 500, {"n": number}) for number in range(30)]
    with ss.open_store(tmp_path / "clicks", clicks) as store:
        found = [(each.key, each.start_ms, each.value) for each in store.fetch_all()]
        assert found == sorted([*visible, (b"last", 1_150, {"n": 0})])
        assert store.stream_time_ms == 1_150
        assert store.committed_offsets() == {ss.TopicPartition("clicks-changelog", 0): 231}
        for _ in range(4):
            store.commit({})
    with load_backend(backend).open(tmp_path / "clicks" / "engine") as engine:
        examined = examine_rows(engine)

        assert examined is not None
        assert examined.problems == []
        assert sum(1 for _ in engine.scan(DATA, HISTORY)) == 31
        assert sum(1 for _ in engine.scan(HISTORY, END)) == 2


@pytest.mark.spec("LAY-17", "LAY-30", "SES-10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_golden_session_store_of_format_2_opens(tmp_path: Path, backend: str) -> None:
    """A name of a session that was removed does no harm."""
    shutil.copytree(GOLDEN_2 / backend / "trips", tmp_path / "trips")
    with ss.open_existing(tmp_path / "trips") as store:
        assert isinstance(store, ss.SessionStore)
        assert len(list(store.find_all_sessions())) == 29
        assert list(store.find_sessions("ü0")) == []
        store.put("ü0", 5_000, 5_000, b"")
        store.commit({})
    with load_backend(backend).open(tmp_path / "trips" / "engine") as engine:
        assert sum(1 for _ in engine.scan(DATA, END)) == 2


@pytest.mark.spec("LAY-10")
def test_a_partition_names_its_backend(tmp_path: Path) -> None:
    """The file says which, later openings need not, and another backend is refused."""
    counts = ss.KeyValue("counts")
    with ss.open_store(tmp_path, counts, backend="sqlite") as store:
        store.put(b"k", b"v")
        store.commit({})

    assert json.loads((tmp_path / "engine.json").read_bytes()) == {"format": 1, "backend": "sqlite"}
    with ss.open_store(tmp_path, counts) as store:
        assert store.get(b"k") == b"v"
    with pytest.raises(StoreMismatchError, match="'sqlite', not 'leveldb'"):
        ss.open_store(tmp_path, counts, backend="leveldb")


@pytest.mark.spec("LAY-10")
def test_an_engine_in_memory_leaves_no_file(tmp_path: Path) -> None:
    """There would be nothing to open with it."""
    with ss.open_store(tmp_path / "s", ss.KeyValue("s"), backend="memory"):
        assert not (tmp_path / "s").exists()


@pytest.mark.spec("LAY-10")
@for_each(
    ("content", "error"),
    [
        (b"", StoreCorruptedError),
        (b"[]", StoreCorruptedError),
        (b'{"format": 1}', StoreCorruptedError),
        (b'{"format": 2, "backend": "sqlite"}', UnsupportedFormatError),
    ],
)
def test_a_backend_file_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    """Guessing another backend would begin an empty store beside the old one."""
    (tmp_path / "engine.json").write_bytes(content)

    with pytest.raises(error):
        ss.open_store(tmp_path, ss.KeyValue("s"))

    assert [path.name for path in tmp_path.iterdir()] == ["engine.json"]


@pytest.mark.spec("COM-13")
def test_a_mismatch_names_the_directory(tmp_path: Path) -> None:
    """A flipped bit in `statestores.json` was told with the name of the store alone."""
    ss.open_store(tmp_path / "s", ss.KeyValue("s"), backend="sqlite").close()
    with pytest.raises(StoreMismatchError, match="differs") as refused:
        ss.open_store(tmp_path / "s", ss.KeyValue("other"))

    assert str(tmp_path / "s") in str(refused.value)


@pytest.mark.spec("LAY-10")
def test_a_flipped_backend_name_is_told_with_its_file(tmp_path: Path) -> None:
    """The error said that no backend is registered as 'sqlitf', which nobody had asked for."""
    ss.open_store(tmp_path, ss.KeyValue("s"), backend="sqlite").close()
    file = tmp_path / "engine.json"
    file.write_bytes(file.read_bytes().replace(b"sqlite", b"sqlitf"))
    with pytest.raises(UnknownBackendError, match="'sqlitf'") as refused:
        ss.open_store(tmp_path, ss.KeyValue("s"))

    assert str(file) in str(refused.value)


def _remove_engine(engine: Path) -> None:
    shutil.rmtree(engine)


def _remove_files(engine: Path) -> None:
    for file in engine.iterdir():
        file.unlink()


def _empty_files(engine: Path) -> None:
    for file in engine.iterdir():
        file.write_bytes(b"")


@pytest.mark.spec("LAY-23")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
@pytest.mark.parametrize("lose", [_remove_engine, _remove_files, _empty_files])
def test_a_store_that_lost_its_engine_is_not_begun_anew(
    tmp_path: Path, backend: str, lose: Callable[[Path], None]
) -> None:
    """The store opened as an empty one: a driver makes the files that it does not find."""
    with ss.open_store(tmp_path, ss.KeyValue("s"), backend=backend) as store:
        store.put(b"k", b"v")
        store.commit({})
    lose(tmp_path / "engine")
    for _ in range(2):  # also when the first attempt has left new files
        with pytest.raises(StoreCorruptedError) as refused:
            ss.open_store(tmp_path, ss.KeyValue("s"))
        with pytest.raises(StoreCorruptedError):
            ss.open_existing(tmp_path)

        assert str(tmp_path) in str(refused.value)


@pytest.mark.spec("LAY-23")
def test_a_store_without_a_commit_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one whose creation a crash has cut short, wherever: its description is there first."""
    specification = ss.KeyValue("s")
    ss.open_store(tmp_path / "whole", specification, backend="sqlite").close()
    ss.open_store(tmp_path / "whole", specification).close()

    def die(path: Path, content: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "write_json", die)
    with pytest.raises(KeyboardInterrupt):
        ss.open_store(tmp_path / "cut", specification, backend="sqlite")
    monkeypatch.undo()
    with ss.open_store(tmp_path / "cut", specification, backend="sqlite") as store:
        assert list(store.range()) == []


@pytest.mark.spec("LAY-23")
def test_the_description_is_on_disk_before_its_backend_is_noted(tmp_path: Path) -> None:
    """Else a power failure could leave the note alone, and a new store would count as lost."""
    applied = []

    class Watched(MemoryEngine):
        capabilities = Capabilities(durable_commit=True)

        def apply(self, batch: WriteBatch, durability: Durability) -> None:
            applied.append(durability)
            super().apply(batch, durability)

    engine = Watched.open("")
    open_on_engine(engine, ss.KeyValue("s"), durability=Durability.PROCESS_CRASH).close()

    assert applied == [Durability.POWER_LOSS]


@pytest.mark.spec("LAY-10")
def test_opening_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    """``open_existing`` only opens."""
    with pytest.raises(StoreNotFoundError, match="check the path"):
        ss.open_existing(tmp_path / "nothing")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("LAY-18")
def test_a_file_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves the old content under the name, and no litter."""
    path = tmp_path / "file.json"
    durable_json.write_json(path, {"old": True})

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        durable_json.write_json(path, {"new": True})

    assert durable_json.read_json(path) == {"old": True}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]


def test_a_small_file_is_read_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python asked the system for the longest that such a file may be, for each that was read.

    That was 256 MiB, a dozen times for each store that was opened: most of the time of a read, and
    where the address space of a process is limited, no store could be opened. A file that grows
    while it is read is still read to its end.
    """
    path = tmp_path / "small.json"
    durable_json.write_json(path, {"small": True})
    tracemalloc.start()
    found = durable_json.read_json(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found == {"small": True}
    assert peak < 1 << 20

    seen = path.stat()
    durable_json.write_json(path, {"large": "x" * 100_000})
    monkeypatch.setattr("os.fstat", lambda descriptor: seen)

    assert durable_json.read_json(path) == {"large": "x" * 100_000}


@pytest.mark.spec("LAY-12")
def test_the_mark_of_a_truncation_empties_the_store_at_opening() -> None:
    """Every row of data, history and offsets goes, and then the mark itself."""
    engine = load_backend("memory").open("unused")
    specification = ss.Versioned("s", history_retention_ms=100)
    store = open_on_engine(engine, specification)
    store.put(b"k", b"1", 1)
    store.put(b"k", b"2", 2)
    store.advance_position({ss.TopicPartition("in", 0): 4})
    store.commit({ss.TopicPartition("s-changelog", 0): 1})
    engine.apply({b"\x00truncating": b""}, Durability.POWER_LOSS)

    open_on_engine(engine, specification)

    assert [key for key, _ in engine.scan(b"\x00")] == [b"\x00format", b"\x00specification"]


@pytest.mark.spec("ENG-1")
def test_a_lock_on_a_file_that_has_gone_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory went with its lock, while the next owner had opened the file and not locked it.

    It then held a lock that nobody saw, and whoever came after it got the directory as well. So it
    did where the directory got another name.
    """
    ways: list[Callable[[Path], object]] = [
        shutil.rmtree,
        lambda path: path.rename(path.with_name("going")),
    ]
    for number, go in enumerate(ways):
        directory = tmp_path / str(number)
        before = DirectoryLock.acquire(directory)

        def after_its_owner(
            descriptor: int,
            how: int,
            go: Callable[[Path], object] = go,
            directory: Path = directory,
            before: DirectoryLock = before,
        ) -> None:
            monkeypatch.undo()
            go(directory)
            before.release()
            fcntl.flock(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", after_its_owner)
        lock = DirectoryLock.acquire(directory)
        try:
            with pytest.raises(StoreLockedError, match=f"in process {os.getpid()} on"):
                DirectoryLock.acquire(directory)
        finally:
            lock.release()
