"""Sorted files taken in as a whole, and checkpoints."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StoreClosedError,
)
from statestores.spi import Durability
from statestores_conformance.engine.disk.process_limits import file_size

pytest.importorskip("rocksdict", reason="the driver of the rocksdb backend is not installed")

# Behind the skip, since it imports the driver.
from statestores_rocksdb import RocksDBEngine, ingestion

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

PROCESS_CRASH = Durability.PROCESS_CRASH
ROWS = 20_000
_EMPTY_BATCH = 19
"""Its bytes in the log."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksDBEngine]:
    with RocksDBEngine.open(tmp_path / "db") as engine:
        yield engine


def _pairs() -> Iterator[tuple[bytes, bytes]]:
    return ((b"%06d" % number, b"%d" % number * 20) for number in range(ROWS))


def test_an_ingestion_of_many_files_is_one(
    engine: RocksDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are as large as compaction's own, and are taken in together."""
    monkeypatch.setattr(ingestion, "_FILE_BYTES", 10_000)
    taken: list[list[str]] = []
    move_into = ingestion.SortedFiles.move_into

    def count(files: ingestion.SortedFiles, database: object) -> None:
        taken.append(files._paths)
        move_into(files, database)  # type: ignore[arg-type]  # the engine passes the driver's

    monkeypatch.setattr(ingestion.SortedFiles, "move_into", count)
    engine.ingest(_pairs())

    assert [len(paths) > 3 for paths in taken] == [True]
    assert list(engine.scan(b"")) == list(_pairs())


def test_an_ingestion_without_room_for_its_note_is_done(
    engine: RocksDBEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told as refused, and its rows were there.

    Behind the files, an empty batch goes into the log, which may have room for the one before them
    and for no other. The writes that follow say that there is none.
    """
    engine.apply({b"long": b"l" * 30_000}, PROCESS_CRASH)
    (log,) = engine._path.glob("*.log")
    with file_size(log.stat().st_size + _EMPTY_BATCH):
        engine.ingest([(b"k", b"v")])

    assert "its log has no room left" in caplog.text
    with pytest.raises(StorageError):
        engine.apply({b"after": b"a"}, PROCESS_CRASH)
    engine.close()
    for _ in range(2):
        with RocksDBEngine.open(engine._path) as again:
            assert (again.get(b"k"), again.get(b"after")) == (b"v", None)


def test_a_snapshot_of_an_ingestion_survives_compaction(engine: RocksDBEngine) -> None:
    """RocksDB drops ingested rows in a compaction while there is a snapshot at sequence number 0.

    That is where a database was that had only been ingested into: after a bulk restore, for one.
    A compaction of the next rows then lost all that was restored (facebook/rocksdb#13155).
    """
    engine.ingest([(b"a", b"1"), (b"m", b"2"), (b"z", b"3")])
    with engine.snapshot() as snapshot:
        engine.apply({b"n": b"4"}, PROCESS_CRASH)
        engine._database.compact_range(None, None)

        assert list(engine.scan(b"")) == [(b"a", b"1"), (b"m", b"2"), (b"n", b"4"), (b"z", b"3")]
        assert list(snapshot.scan(b"")) == [(b"a", b"1"), (b"m", b"2"), (b"z", b"3")]


def test_a_database_that_was_only_ingested_into_leaves_sequence_number_0(tmp_path: Path) -> None:
    """Such a one may be from an earlier version of the engine; opening it is enough."""
    directory = tmp_path / "db"
    with RocksDBEngine.open(directory) as engine:
        assert engine._database.latest_sequence_number() == 1
        engine.ingest([(b"a", b"1")])
    with RocksDBEngine.open(directory) as engine:
        assert engine._database.latest_sequence_number() == 1
        assert list(engine.scan(b"")) == [(b"a", b"1")]


def test_an_ingestion_replaces_what_is_in_memory_and_on_disk(engine: RocksDBEngine) -> None:
    """The later write wins, whichever way it came."""
    engine.ingest([(b"a", b"file"), (b"b", b"file")])
    engine.apply({b"b": b"batch", b"c": b"batch"}, PROCESS_CRASH)
    engine.ingest([(b"c", b"file 2")])

    assert list(engine.scan(b"")) == [(b"a", b"file"), (b"b", b"batch"), (b"c", b"file 2")]


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([(b"b", b""), (b"a", b"")], InvalidArgumentError),
        ([(b"a", b"1"), (b"a", b"2")], InvalidArgumentError),
        ([(b"a", b"1"), ("b", b"2")], InvalidTypeError),
        ([(b"a", b"1"), (b"b", None)], InvalidTypeError),
    ],
    ids=["descending", "repeated", "text as key", "no value"],
)
def test_a_refused_ingestion_leaves_nothing(
    engine: RocksDBEngine,
    tmp_path: Path,
    pairs: list[tuple[bytes, bytes]],
    error: type[Exception],
) -> None:
    """No pair, and no file."""
    with pytest.raises(error):
        engine.ingest(pairs)

    assert engine.first(b"") is None
    assert list((tmp_path / "db").glob("ingestion-*")) == []


@pytest.mark.spec("ENG-35")
@pytest.mark.parametrize("file_bytes", [1, 64 << 20], ids=["a file each", "one file"])
@pytest.mark.parametrize("again", [1, 4_097, 9_000], ids=["first", "next chunk", "later"])
def test_keys_ascend_from_chunk_to_chunk_and_from_file_to_file(
    engine: RocksDBEngine, monkeypatch: pytest.MonkeyPatch, file_bytes: int, again: int
) -> None:
    """The driver looks at the keys of one file, and the message names the two wherever they lie."""
    monkeypatch.setattr(ingestion, "_FILE_BYTES", file_bytes)
    pairs = list(_pairs())
    pairs.insert(again, pairs[again - 1])

    with pytest.raises(
        InvalidArgumentError, match=rf"got b'{again - 1:06}' after b'{again - 1:06}'"
    ):
        engine.ingest(pairs)
    assert engine.first(b"") is None


def test_an_error_of_the_source_passes_and_leaves_nothing(
    engine: RocksDBEngine, tmp_path: Path
) -> None:
    """What the pairs come from may fail as well."""

    def failing() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"1"
        raise LookupError("the source is gone")

    with pytest.raises(LookupError, match="the source is gone"):
        engine.ingest(failing())

    assert engine.first(b"") is None
    assert list((tmp_path / "db").glob("ingestion-*")) == []


_INGEST = """
import os, sys
from statestores.spi import Durability
from statestores_rocksdb import RocksDBEngine

engine = RocksDBEngine.open(sys.argv[1])
engine.apply({b"batch": b""}, Durability.PROCESS_CRASH)
engine.ingest([(b"a", b"1"), (b"b", b"2")])

def pairs():
    yield b"c", b"3"
    os.kill(os.getpid(), 9)

engine.ingest(pairs())
"""


def test_a_crash_during_an_ingestion_leaves_nothing_of_it(tmp_path: Path) -> None:
    """What was ingested before is there, and the next opening removes the unfinished file."""
    subprocess.run([sys.executable, "-c", _INGEST, str(tmp_path)], check=False)

    assert len(list(tmp_path.glob("ingestion-*"))) == 1
    with RocksDBEngine.open(tmp_path) as engine:
        assert list(engine.scan(b"")) == [(b"a", b"1"), (b"b", b"2"), (b"batch", b"")]
    assert list(tmp_path.glob("ingestion-*")) == []


def test_a_checkpoint_is_a_database_of_that_instant(engine: RocksDBEngine, tmp_path: Path) -> None:
    """It opens beside the original, in a directory whose parents it creates."""
    engine.ingest(_pairs())
    engine.apply({b"z": b"in the log"}, PROCESS_CRASH)
    content = list(engine.scan(b""))
    engine.checkpoint(tmp_path / "copies" / "one")
    engine.apply({b"z": None, b"000001": None}, PROCESS_CRASH)

    with RocksDBEngine.open(tmp_path / "copies" / "one") as copy:
        assert list(copy.scan(b"")) == content


def test_a_checkpoint_replaces_nothing(engine: RocksDBEngine, tmp_path: Path) -> None:
    """Also an empty directory is somebody's."""
    (tmp_path / "there").mkdir()

    with pytest.raises(InvalidArgumentError, match="needs a new directory"):
        engine.checkpoint(tmp_path / "there")

    assert list((tmp_path / "there").iterdir()) == []


def test_a_checkpoint_below_a_file_is_a_storage_error(
    engine: RocksDBEngine, tmp_path: Path
) -> None:
    """The message names what cannot be created."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError, match=r"cannot create '.*file'"):
        engine.checkpoint(tmp_path / "file" / "copy")


def test_a_closed_engine_refuses_both(tmp_path: Path) -> None:
    """Before anything is read or written."""
    engine = RocksDBEngine.open(tmp_path / "db")
    engine.close()

    with pytest.raises(StoreClosedError):
        engine.ingest(iter([(b"a", b"1")]))
    with pytest.raises(StoreClosedError):
        engine.checkpoint(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_counting_is_exact_up_to_a_bound(engine: RocksDBEngine) -> None:
    """Beyond 10,000 keys it is RocksDB's estimate for the whole database."""
    engine.ingest(_pairs())

    assert engine.approximate_num_keys(b"000100", b"000150") == 50
    assert engine.approximate_num_keys(b"000000", b"009999") == 9_999
    assert 10_000 <= engine.approximate_num_keys(b"") <= 2 * ROWS
