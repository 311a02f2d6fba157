"""What is special about LevelDB: where it trusts, its options, its lock, a full disk."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores.errors import (
    InvalidOptionError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.spi import Durability, Engine
from statestores_conformance.many_cases import for_each

plyvel = pytest.importorskip(
    "statestores_leveldb.binding", reason="the driver of the leveldb backend is not installed"
).plyvel

# Behind the skip, since it imports the driver.
from statestores_leveldb import Compression, LevelDBEngine, LevelDBOptions  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with LevelDBEngine.open(tmp_path / "engine") as opened:
        yield opened


def _write_sorted_files(directory: Path, pairs: dict[bytes, bytes | None]) -> list[Path]:
    """Write *pairs* and have LevelDB turn them into sorted files, of uncompressed blocks."""
    with LevelDBEngine.open(directory, {"compression": "none"}) as engine:
        engine.apply(pairs, Durability.POWER_LOSS)
        engine._database.compact_range()
    return sorted(directory.glob("*.ldb"))


class TestOptions:
    """Options, as they arrive from Spark and from the command line."""

    @pytest.mark.spec("ENG-13")
    def test_options_may_be_text(self, tmp_path: Path) -> None:
        """Every option can be given as a string, in any case."""
        texts = {
            "WRITE_BUFFER_BYTES": "65536",
            "cache_bytes": "0",
            "block_bytes": "1024",
            "bloom_bits": "0",
            "max_open_files": "74",
            "compression": "none",
        }
        with LevelDBEngine.open(tmp_path, texts) as engine:
            engine.apply({b"k": b"v"}, Durability.POWER_LOSS)

            assert engine.get(b"k") == b"v"

    @pytest.mark.spec("ENG-13")
    @for_each(
        ("name", "value"),
        [
            ("write_buffer_bytes", 1),
            ("cache_bytes", -1),
            ("block_bytes", 0),
            ("bloom_bits", 65),
            ("max_open_files", 73),
            ("compression", "zstd"),
            ("bloom_bits", "ten"),
        ],
    )
    def test_a_value_out_of_bounds_is_refused(
        self, tmp_path: Path, name: str, value: object
    ) -> None:
        """LevelDB would bend it to its limits in silence."""
        with pytest.raises(InvalidOptionError, match=name):
            LevelDBEngine.open(tmp_path / "engine", {name: value})

        assert not (tmp_path / "engine").exists()

    def test_the_compression_may_change_between_openings(self, tmp_path: Path) -> None:
        """It holds for new files; old ones are read as they are."""
        for number, compression in enumerate(Compression):
            with LevelDBEngine.open(tmp_path, {"compression": compression}) as engine:
                engine.apply({b"%d" % number: b"v" * 1000}, Durability.POWER_LOSS)
                engine._database.compact_range()
        with LevelDBEngine.open(tmp_path) as engine:
            assert [key for key, _ in engine.scan(b"")] == [b"0", b"1"]

    def test_the_defaults_are_in_bounds(self) -> None:
        """The options without arguments are what an engine opens with."""
        assert LevelDBOptions().bloom_bits == 10


class TestOpening:
    """Where LevelDB cannot be opened."""

    @pytest.mark.spec("ENG-28")
    def test_an_empty_path_is_refused(self) -> None:
        """It would mean the working directory, which nobody asked for."""
        with pytest.raises(StorageError, match="empty"):
            LevelDBEngine.open("")

    @pytest.mark.spec("ENG-28")
    def test_a_file_is_not_a_directory(self, tmp_path: Path) -> None:
        """A file at the path is left alone."""
        (tmp_path / "file").write_bytes(b"content")
        with pytest.raises(StorageError, match="file"):
            LevelDBEngine.open(tmp_path / "file")

        assert (tmp_path / "file").read_bytes() == b"content"

    @pytest.mark.spec("ENG-1")
    def test_a_database_that_plyvel_has_open_is_locked(self, tmp_path: Path) -> None:
        """LevelDB's own lock counts as well; its owner has no name, and the message says so."""
        database = plyvel.DB(str(tmp_path), create_if_missing=True)
        with pytest.raises(StoreLockedError, match="without statestores"):
            LevelDBEngine.open(tmp_path)
        database.close()
        with LevelDBEngine.open(tmp_path) as engine:
            assert engine.is_open

    @pytest.mark.spec("ENG-19")
    def test_an_engine_keeps_plyvel_out(self, tmp_path: Path, engine: Engine) -> None:
        """Other programs respect LevelDB's lock, so the engine holds it, too."""
        with pytest.raises(plyvel.IOError):
            plyvel.DB(str(tmp_path / "engine"))

    @pytest.mark.spec("ENG-31")
    def test_a_failed_opening_keeps_the_text_log(self, tmp_path: Path) -> None:
        """``LOG`` still tells how the trouble began, however often a supervisor tries."""
        _write_sorted_files(tmp_path, {b"k": b"v"})
        story = (tmp_path / "LOG").read_bytes()
        next(tmp_path.glob("MANIFEST-*")).write_bytes(b"damaged")
        for _ in range(3):
            with pytest.raises(StoreCorruptedError):
                LevelDBEngine.open(tmp_path)

        assert (tmp_path / "LOG").read_bytes() == story

    def test_the_text_log_of_the_last_life_is_kept(self, tmp_path: Path) -> None:
        """After an opening that succeeds, it is ``LOG.old``, as LevelDB has it."""
        LevelDBEngine.open(tmp_path).close()
        story = (tmp_path / "LOG").read_bytes()
        LevelDBEngine.open(tmp_path).close()

        assert (tmp_path / "LOG.old").read_bytes() == story
        assert not (tmp_path / "LOG.kept").exists()


class TestReverseScans:
    """plyvel leaves out the row at the lower bound when it is the only one."""

    @pytest.mark.spec("ENG-6")
    @pytest.mark.parametrize("start", [b"b", b"b\x00", b"\x00", b"\xff", b"\x01"])
    def test_the_row_at_the_lower_bound_is_there(self, engine: Engine, start: bytes) -> None:
        """Also with a neighbour just below that must not be."""
        below = start[:-1] + bytes([max(start[-1] - 1, 0)]) + b"\xff" * 20
        engine.apply({start: b"v", below: b"below"}, Durability.PROCESS_CRASH)
        rows = list(engine.scan(start, start + b"\x00", reverse=True))

        assert rows == [(start, b"v")]

    @pytest.mark.spec("ENG-6")
    def test_plyvel_alone_leaves_it_out(self, tmp_path: Path) -> None:
        """Should this fail, plyvel has been mended, and `_below` can go."""
        database = plyvel.DB(str(tmp_path), create_if_missing=True)
        database.put(b"a", b"v")
        rows = list(database.iterator(start=b"a", reverse=True))
        database.close()

        assert rows == []


class TestCommits:
    """What reaches the disk, and when."""

    @pytest.fixture
    def committed(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Give the names of the files that the engine itself waits for, as it does."""
        names: list[str] = []
        wait = os.fsync

        def record(descriptor: int) -> None:
            names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            wait(descriptor)

        monkeypatch.setattr(os, "fsync", record)
        return names

    @pytest.mark.spec("ENG-23", "ENG-27")
    def test_a_durable_batch_takes_the_earlier_ones_along(
        self, tmp_path: Path, engine: Engine, committed: list[str]
    ) -> None:
        """LevelDB waits for its newest log only; the engine waits for the older ones first."""
        engine.apply({b"a": b"1"}, Durability.PROCESS_CRASH)
        before = list(committed)
        engine.apply({b"b": b"2"}, Durability.POWER_LOSS)
        engine.apply({b"c": b"3"}, Durability.POWER_LOSS)

        assert before == []
        assert committed == [path.name for path in (tmp_path / "engine").glob("*.log")]

    @pytest.mark.spec("ENG-16", "COM-9")
    def test_a_failed_write_is_left_behind(self, tmp_path: Path) -> None:
        """After a disk that was full, the same batch is applied again and the log is readable.

        LevelDB itself goes on writing behind the half record that the failure left in its log,
        and refuses the log as damaged at the next opening.
        """
        program = textwrap.dedent(
            """
            import resource, sys
            from pathlib import Path
            from statestores.errors import StorageError
            from statestores.spi import Durability
            from statestores_leveldb import LevelDBEngine

            directory = Path(sys.argv[1])
            engine = LevelDBEngine.open(directory)
            engine.apply({b"before": b"v"}, Durability.POWER_LOSS)
            log = next(directory.glob("*.log"))
            unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 1000, unlimited[1]))
            try:
                engine.apply({b"big": b"v" * 200_000}, Durability.PROCESS_CRASH)
            except StorageError as error:
                print("refused:", type(error.__cause__).__name__)
            print(engine.get(b"big"), [key for key, _ in engine.scan(b"")])
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            engine.apply({b"big": b"v" * 200_000}, Durability.PROCESS_CRASH)
            engine.apply({b"after": b"v"}, Durability.POWER_LOSS)
            print(len(list(directory.glob("*.log"))))
            engine.close()
            """
        )
        run = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )

        assert run.stdout.splitlines() == ["refused: IOError", "None [b'before']", "1"]
        with LevelDBEngine.open(tmp_path) as engine:
            assert [key for key, _ in engine.scan(b"")] == [b"after", b"before", b"big"]


class TestEstimates:
    """The number of keys."""

    @pytest.mark.spec("ENG-30")
    def test_a_large_range_is_estimated_from_sizes(self, tmp_path: Path) -> None:
        """Beyond what is counted, the estimate of evenly sized pairs on disk is near."""
        pairs = {b"%06d" % number: b"%06d" % number * 10 for number in range(60_000)}
        _write_sorted_files(tmp_path, dict(pairs))
        with LevelDBEngine.open(tmp_path) as engine:
            whole = engine.approximate_num_keys(b"")
            half = engine.approximate_num_keys(b"010000", b"040000")

        assert 50_000 < whole < 70_000
        assert 25_000 < half < 35_000

    @pytest.mark.spec("ENG-30")
    def test_a_large_range_in_memory_is_counted(self, engine: Engine) -> None:
        """Without sizes on disk there is nothing to estimate from."""
        pairs = {b"%06d" % number: b"v" for number in range(12_000)}
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)

        assert engine.approximate_num_keys(b"") == 12_000
