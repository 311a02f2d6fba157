"""What LevelDB does with missing and damaged files: errors, and never wrong rows."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import FrameType

import pytest

from statestores.errors import (
    StoreCorruptedError,
)
from statestores.spi import Durability, Engine, EngineReader

plyvel = pytest.importorskip(
    "statestores_leveldb.binding", reason="the driver of the leveldb backend is not installed"
).plyvel

# Behind the skip, since it imports the driver.
from statestores_leveldb import LevelDBEngine  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

_READS: dict[str, Callable[[EngineReader], object]] = {
    "get": lambda reader: reader.get(b"0000"),
    "get_many": lambda reader: reader.get_many([b"0000"]),
    "first": lambda reader: reader.first(b""),
    "last": lambda reader: reader.last(b""),
    "scan": lambda reader: list(reader.scan(b"")),
    "reverse scan": lambda reader: list(reader.scan(b"", reverse=True)),
    "scan of one key": lambda reader: list(reader.scan(b"0000", b"0000\x00")),
    "reverse scan of one key": lambda reader: list(reader.scan(b"0000", b"0000\x00", reverse=True)),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with LevelDBEngine.open(tmp_path / "engine") as opened:
        yield opened


def _files(directory: Path) -> dict[str, bytes]:
    """Return the files that hold data, with their content."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.suffix in {".log", ".ldb"} or path.name.startswith(("MANIFEST", "CURRENT"))
    }


def _write_sorted_files(directory: Path, pairs: dict[bytes, bytes | None]) -> list[Path]:
    """Write *pairs* and have LevelDB turn them into sorted files, of uncompressed blocks."""
    with LevelDBEngine.open(directory, {"compression": "none"}) as engine:
        engine.apply(pairs, Durability.POWER_LOSS)
        engine._database.compact_range()
    return sorted(directory.glob("*.ldb"))


def _flip(path: Path, position: int) -> None:
    """Flip one bit of the file at *path*."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


class TestMissingFiles:
    """Files whose absence LevelDB does not notice."""

    @pytest.mark.spec("ENG-14", "ENG-31")
    def test_without_current_nothing_is_removed(self, tmp_path: Path) -> None:
        """LevelDB would begin an empty database and remove the old one's files."""
        _write_sorted_files(tmp_path, {b"k": b"v"})
        (tmp_path / "CURRENT").unlink()
        before = _files(tmp_path)
        with pytest.raises(StoreCorruptedError, match="CURRENT"):
            LevelDBEngine.open(tmp_path)

        assert _files(tmp_path) == before

    @pytest.mark.spec("ENG-7")
    def test_a_creation_that_a_crash_cut_short_is_repeated(self, tmp_path: Path) -> None:
        """A manifest alone, which is what such a crash leaves, has never held data."""
        LevelDBEngine.open(tmp_path).close()
        for path in tmp_path.iterdir():
            if not path.name.startswith("MANIFEST"):
                path.unlink()
        with LevelDBEngine.open(tmp_path) as engine:
            assert list(engine.scan(b"")) == []

    @pytest.mark.spec("ENG-14")
    def test_a_missing_log_is_found(self, tmp_path: Path) -> None:
        """What was not yet in a sorted file would be gone without a word."""
        with LevelDBEngine.open(tmp_path) as engine:
            engine.apply({b"k": b"v"}, Durability.POWER_LOSS)
        next(tmp_path.glob("*.log")).unlink()
        with pytest.raises(StoreCorruptedError, match="log"):
            LevelDBEngine.open(tmp_path)


class TestZeros:
    """Zeros in a log or a manifest, which LevelDB takes for room that was reserved."""

    @pytest.fixture
    def left(self, tmp_path: Path) -> Path:
        """Give what a process leaves after eighty batches of 512 bytes each."""
        with LevelDBEngine.open(tmp_path / "live") as engine:
            for number in range(80):
                engine.apply({b"%02d" % number: b"v" * 487}, Durability.POWER_LOSS)
            return shutil.copytree(tmp_path / "live", tmp_path / "left")

    @pytest.mark.spec("ENG-14", "ENG-27")
    def test_no_batches_are_missing_before_others(self, left: Path) -> None:
        """A page of zeros hid thirty batches, and the store opened with those of the next block.

        LevelDB skips the rest of a block in which a record is zeros, says nothing, and goes on with
        the next. Here each block begins with a whole batch.
        """
        (log,) = left.glob("*.log")
        data = log.read_bytes()
        log.write_bytes(data[: 10 * 512] + bytes(512) + data[11 * 512 :])
        with pytest.raises(StoreCorruptedError, match="zeros at byte 5120"):
            LevelDBEngine.open(left)

    @pytest.mark.spec("ENG-36")
    @pytest.mark.parametrize("begin", [10 * 512, 10 * 512 + 3, 64 * 512])
    def test_zeros_to_the_end_are_the_end(self, left: Path, begin: int) -> None:
        """Between two batches, within a checksum, and where a block ends."""
        (log,) = left.glob("*.log")
        data = log.read_bytes()
        log.write_bytes(data[:begin] + bytes(len(data) - begin))
        with LevelDBEngine.open(left) as engine:
            assert len(list(engine.scan(b""))) == begin // 512


class TestTwoLogs:
    """The moment in which a full log is being turned into a sorted file and a new one exists."""

    @pytest.fixture
    def two_logs(self, tmp_path: Path) -> Path:
        """Give a database with ten batches in one log and five more in the next."""
        live, left = tmp_path / "live", tmp_path / "left"
        with LevelDBEngine.open(live) as engine:
            for number in range(10):
                engine.apply({b"%02d" % number: b"old"}, Durability.POWER_LOSS)
            shutil.copytree(live, left)
            engine._database.compact_range()
            for number in range(10, 15):
                engine.apply({b"%02d" % number: b"new"}, Durability.POWER_LOSS)
            shutil.copy(next(live.glob("*.log")), left)
        return left

    @pytest.mark.spec("ENG-27")
    def test_both_are_read(self, two_logs: Path) -> None:
        """After a crash at this moment, no batch is missing."""
        with LevelDBEngine.open(two_logs) as engine:
            assert [key for key, _ in engine.scan(b"")] == [b"%02d" % n for n in range(15)]

    @pytest.mark.spec("ENG-27")
    @pytest.mark.parametrize("left_bytes", [0, 100], ids=["empty", "cut"])
    def test_an_old_log_that_lost_its_end_is_found(self, two_logs: Path, left_bytes: int) -> None:
        """A power failure may lose the end of the old log and not the new one.

        LevelDB takes the end for a torn tail and replays the new log behind it: the batches in
        between are missing, and nothing says so.
        """
        old = min(two_logs.glob("*.log"))
        os.truncate(old, left_bytes)
        shutil.copytree(two_logs, two_logs.with_name("leveldb alone"))
        with pytest.raises(StoreCorruptedError, match="begins at change"):
            LevelDBEngine.open(two_logs)

        alone = plyvel.DB(str(two_logs.with_name("leveldb alone")), paranoid_checks=True)
        found = list(alone.iterator(include_value=False))
        alone.close()
        assert found[-5:] == [b"%02d" % number for number in range(10, 15)]
        assert len(found) < 15

    @pytest.mark.spec("ENG-32")
    def test_a_new_log_that_lost_its_end_is_a_torn_tail(self, two_logs: Path) -> None:
        """The last batch is gone as a whole, and every batch before it is there."""
        new = max(two_logs.glob("*.log"))
        os.truncate(new, new.stat().st_size - 3)
        with LevelDBEngine.open(two_logs) as engine:
            assert [key for key, _ in engine.scan(b"")] == [b"%02d" % n for n in range(14)]


class TestDamagedBlocks:
    """Sorted files with a flipped bit in a block."""

    @pytest.mark.spec("ENG-14")
    @pytest.mark.parametrize("read", _READS.values(), ids=_READS)
    def test_the_only_block_is_damaged(
        self, tmp_path: Path, read: Callable[[EngineReader], object]
    ) -> None:
        """Every read that meets it raises; plyvel's iterators end as if nothing were there."""
        (file,) = _write_sorted_files(tmp_path, {b"%04d" % n: b"v" for n in range(20)})
        _flip(file, 50)
        with LevelDBEngine.open(tmp_path) as engine, engine.snapshot() as snapshot:
            for reader in (engine, snapshot):
                for _ in range(2):
                    with pytest.raises(StoreCorruptedError):
                        read(reader)

    @pytest.mark.spec("ENG-14")
    def test_plyvel_alone_finds_nothing(self, tmp_path: Path) -> None:
        """Should this fail, plyvel has learned to ask, and `RowCursor` may stop asking for it."""
        (file,) = _write_sorted_files(tmp_path, {b"%04d" % n: b"v" for n in range(20)})
        _flip(file, 50)
        database = plyvel.DB(str(tmp_path), paranoid_checks=True)
        found = list(database.iterator(start=b"", verify_checksums=True))
        database.close()

        assert found == []

    @pytest.mark.spec("ENG-14", "ENG-6")
    @pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
    @pytest.mark.parametrize("where", [0.02, 0.5, 0.9], ids=["begin", "middle", "end"])
    def test_one_of_many_blocks_is_damaged(
        self, tmp_path: Path, where: float, *, reverse: bool
    ) -> None:
        """A scan gives rows in order up to the damage and raises there: no hole, no early end."""
        pairs = [(b"%04d" % number, b"v" * 100) for number in range(1_000)]
        (file,) = _write_sorted_files(tmp_path, dict(pairs))
        _flip(file, int(file.stat().st_size * where))
        found: list[tuple[bytes, bytes]] = []
        with LevelDBEngine.open(tmp_path) as engine:
            scan = engine.scan(b"", reverse=reverse)
            with pytest.raises(StoreCorruptedError):
                found.extend(scan)

        assert found == (pairs[::-1] if reverse else pairs)[: len(found)]
        assert len(found) < len(pairs)

    @pytest.mark.spec("ENG-14")
    @pytest.mark.parametrize("left_bytes", [0, 1, 1_000, -1])
    def test_a_file_that_was_cut_off_is_damage(self, tmp_path: Path, left_bytes: int) -> None:
        """LevelDB calls it an I/O error, as if trying again could help."""
        (file,) = _write_sorted_files(tmp_path, {b"%04d" % n: b"v" for n in range(1_000)})
        os.truncate(file, left_bytes % file.stat().st_size)
        with pytest.raises(StoreCorruptedError), LevelDBEngine.open(tmp_path) as engine:
            list(engine.scan(b""))

    @pytest.mark.spec("ENG-14")
    def test_reads_beside_the_damage_go_on(self, tmp_path: Path) -> None:
        """An error does not stick to the iterator that seeks share."""
        pairs = {b"%04d" % number: b"v" * 100 for number in range(1_000)}
        (file,) = _write_sorted_files(tmp_path, dict(pairs))
        _flip(file, int(file.stat().st_size * 0.9))
        with LevelDBEngine.open(tmp_path) as engine:
            with pytest.raises(StoreCorruptedError):
                engine.last(b"", b"0920")

            assert engine.first(b"0100") == (b"0100", b"v" * 100)
            assert engine.last(b"", b"0101") == (b"0100", b"v" * 100)


def _get_text(engine: Engine) -> None:
    """Ask for what the driver refuses."""
    engine.get("0000")  # type: ignore[arg-type]


def _get_and_be_interrupted(engine: Engine) -> None:
    """Ask for a row, and have the interrupt of an impatient user arrive in the innermost frame."""

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == "verified":
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        engine.get(b"0000")
    finally:
        sys.settrace(before)


class TestClosingAfterAnError:
    """Closing while the error of a read is being handled, as every `with` does."""

    @pytest.mark.spec("ENG-10", "ENG-14")
    @pytest.mark.parametrize(
        ("fail", "error"),
        [
            (_READS["get"], StoreCorruptedError),
            (_READS["get_many"], StoreCorruptedError),
            (_get_text, TypeError),
            (_get_and_be_interrupted, KeyboardInterrupt),
        ],
        ids=["damage", "damage, many keys", "a wrong type", "an interrupt"],
    )
    def test_it_ends(
        self, tmp_path: Path, fail: Callable[[Engine], object], error: type[BaseException]
    ) -> None:
        """Opening a damaged store never did.

        The read of its description raised, and `close` waited for that read to return, which the
        traceback of the error kept alive.
        """
        (file,) = _write_sorted_files(tmp_path, {b"%04d" % n: b"v" for n in range(20)})
        if error is StoreCorruptedError:
            _flip(file, 50)
        engine = LevelDBEngine.open(tmp_path)
        closing = Thread(target=engine.close, daemon=True)
        with pytest.raises(error) as kept:
            fail(engine)
        closing.start()
        closing.join(20)

        assert kept.value.__traceback__ is not None
        assert not closing.is_alive()
