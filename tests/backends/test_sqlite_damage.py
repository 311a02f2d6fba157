"""What a SQLite file says of itself: checksums of rows and of the closed file, and damage."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statestores.errors import (
    StoreCorruptedError,
)
from statestores.spi import Durability, EngineReader

pytest.importorskip("sqlalchemy", reason="the driver of the sqlite backend is not installed")

# Behind the skip, since these are the driver or import it.

from statestores_sqlite import SQLiteEngine
from statestores_sqlite.clean_close import SEAL

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

_PAIRS = {b"%04d" % number: b"%04d" % number * 50 for number in range(1_000)}

_SEED = 6
_FLIPS = 60

_READS: dict[str, Callable[[EngineReader], object]] = {
    "get": lambda reader: reader.get(b"0500"),
    "get_many": lambda reader: reader.get_many([b"0500"]),
    "first": lambda reader: reader.first(b"0500"),
    "last": lambda reader: reader.last(b"", b"0501"),
    "scan": lambda reader: list(reader.scan(b"")),
    "reverse scan": lambda reader: list(reader.scan(b"", reverse=True)),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "engine"


@pytest.fixture
def engine(directory: Path) -> Iterator[SQLiteEngine]:
    with SQLiteEngine.open(directory) as opened:
        yield opened


@pytest.fixture
def filled(directory: Path) -> Path:
    """Give the file of a closed engine that holds a thousand pairs."""
    with SQLiteEngine.open(directory) as engine:
        engine.apply(_PAIRS, Durability.POWER_LOSS)
    return directory / "engine.db"


@pytest.fixture
def plain(directory: Path) -> Path:
    """Give the same without checksums."""
    with SQLiteEngine.open(directory, {"checksums": False}) as engine:
        engine.apply(_PAIRS, Durability.POWER_LOSS)
    return directory / "engine.db"


def _copy(filled: Path, data: bytes, *, sealed: bool) -> Path:
    """Give a directory beside that of *filled* whose file holds *data*."""
    copy = filled.parent.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    (copy / "engine.db").write_bytes(data)
    if sealed:
        shutil.copy(filled.parent / SEAL, copy)
    return copy


class TestChecksums:
    """SQLite has no checksums of its own, so each row has one, and the file when it is closed."""

    @pytest.mark.spec("ENG-14")
    def test_a_shortened_file_is_never_zeros(self, filled: Path) -> None:
        """SQLite rounds up to a page: a file that lost its last bytes gave zeros for data."""
        data = filled.read_bytes()
        for cut in (1, 8, 500, 4095, 4096, 8192):
            for sealed in (True, False):
                with pytest.raises(StoreCorruptedError, match="copy"):
                    SQLiteEngine.open(_copy(filled, data[:-cut], sealed=sealed))

    @pytest.mark.spec("ENG-14")
    @pytest.mark.parametrize("sealed", [True, False], ids=["closed", "after a crash"])
    def test_a_flipped_bit_is_an_error_or_harmless(self, filled: Path, *, sealed: bool) -> None:
        """In the header, in the beginnings of pages, which say how many rows they hold, anywhere.

        Without the look at the structure, a lower number of rows hid the last ones of a page: a
        row that is not there fails no checksum.
        """
        data = filled.read_bytes()
        dice = random.Random(_SEED)
        header = [dice.randrange(100) for _ in range(_FLIPS // 3)]
        begins = [4096 * dice.randrange(1, len(data) // 4096) + dice.randrange(12) for _ in header]
        anywhere = [dice.randrange(len(data)) for _ in header]
        refused = 0
        for place in (*header, *begins, *anywhere):
            flipped = bytearray(data)
            flipped[place] ^= 1 << dice.randrange(8)
            try:
                with SQLiteEngine.open(_copy(filled, bytes(flipped), sealed=sealed)) as engine:
                    found = dict(engine.scan(b""))
            except StoreCorruptedError:
                refused += 1
                continue

            assert found == _PAIRS, f"byte {place} was flipped"

        assert refused > _FLIPS // 3

    @pytest.mark.spec("ENG-14")
    def test_a_key_that_has_become_a_text_hides_no_row(self, directory: Path) -> None:
        """After a crash, one bit of a key's type hid it from `get`, and up to half of a page.

        SQLite sorts a text before all bytes, and its quick check does not compare the keys of a
        table without row numbers. The text was read as the bytes that it was, so its checksum was
        right; a search that met it went past the keys before it.
        """
        pairs = {b"%03d" % number: b"v" for number in range(60)}
        with SQLiteEngine.open(directory) as engine:
            engine.apply(dict(pairs), Durability.POWER_LOSS)
        file = directory / "engine.db"
        data = file.read_bytes()
        for key in (b"000", b"017", b"030", b"059"):
            flipped = bytearray(data)
            # The header of a row is its length and the types of key, value and checksum.
            flipped[data.index(key + pairs[key]) - 3] ^= 1
            with pytest.raises(StoreCorruptedError):
                SQLiteEngine.open(_copy(file, bytes(flipped), sealed=False))

    @pytest.mark.spec("ENG-14")
    def test_every_read_compares_checksums(self, engine: SQLiteEngine) -> None:
        """Also of what was changed since the file was opened."""
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        foreign = sqlite3.connect(engine._database.path + "/engine.db")
        foreign.execute("UPDATE pairs SET value = x'00' WHERE key = ?", (b"0500",))
        foreign.commit()
        foreign.close()
        with engine.snapshot() as snapshot:
            for reader in (engine, snapshot):
                for read in _READS.values():
                    with pytest.raises(StoreCorruptedError, match="0500"):
                        read(reader)

                assert reader.get(b"0501") == _PAIRS[b"0501"]

    @pytest.mark.spec("ENG-12")
    def test_a_file_without_checksums_stays_one_and_declares_it(self, directory: Path) -> None:
        """One of an older release, or one that was wanted so, whatever the option says later."""
        for options in ({"checksums": "false"}, {}):
            with SQLiteEngine.open(directory, options) as engine:
                engine.apply(_PAIRS, Durability.PROCESS_CRASH)

                assert not engine.capabilities.detects_corruption

        connection = sqlite3.connect(directory / "engine.db")
        found = connection.execute("PRAGMA user_version").fetchone()
        connection.close()

        assert found == (1,)
        assert not (directory / SEAL).exists()

    @pytest.mark.spec("ENG-31")
    def test_an_interrupted_creation_is_repeated(self, directory: Path) -> None:
        """What a crash leaves of it is a file without a table, and without a format."""
        directory.mkdir()
        connection = sqlite3.connect(directory / "engine.db")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with SQLiteEngine.open(directory) as engine:
            assert engine.capabilities.detects_corruption

    @pytest.mark.spec("ENG-14")
    def test_a_seal_is_broken_while_the_file_is_open(self, filled: Path) -> None:
        """One that outlived a crash would deny what was written before it."""
        assert (filled.parent / SEAL).exists()
        with SQLiteEngine.open(filled.parent):
            assert not (filled.parent / SEAL).exists()


class TestDamage:
    """Damage to a file without checksums: what SQLite finds by itself."""

    @pytest.mark.spec("ENG-31")
    def test_a_file_that_is_no_database_is_left_alone(self, directory: Path) -> None:
        """It is refused, byte for byte as it was."""
        directory.mkdir()
        (directory / "engine.db").write_bytes(b"something else" * 100)
        with pytest.raises(StoreCorruptedError):
            SQLiteEngine.open(directory)

        assert (directory / "engine.db").read_bytes() == b"something else" * 100

    @pytest.mark.spec("ENG-31")
    @pytest.mark.parametrize("left", ["nothing", "an empty file"])
    def test_a_log_without_its_file_is_left_alone(
        self, engine: SQLiteEngine, directory: Path, tmp_path: Path, left: str
    ) -> None:
        """SQLite would remove the log as left over, with all that is in it."""
        engine.apply(_PAIRS, Durability.POWER_LOSS)
        copy = tmp_path / "copy"
        shutil.copytree(directory, copy)
        (copy / "engine.db").unlink()
        if left == "an empty file":
            (copy / "engine.db").touch()
        log = (copy / "engine.db-wal").read_bytes()
        with pytest.raises(StoreCorruptedError, match="wal"):
            SQLiteEngine.open(copy)

        assert (copy / "engine.db-wal").read_bytes() == log

    @pytest.mark.parametrize("read", _READS.values(), ids=_READS)
    def test_a_page_of_nonsense_is_an_error(
        self, plain: Path, read: Callable[[EngineReader], object]
    ) -> None:
        """Every read that meets it says so, and closing is possible."""
        data = bytearray(plain.read_bytes())
        data[4096 * 2 :] = b"\xa5" * (len(data) - 4096 * 2)
        plain.write_bytes(data)
        with SQLiteEngine.open(plain.parent) as engine, engine.snapshot() as snapshot:
            for reader in (engine, snapshot):
                with pytest.raises(StoreCorruptedError):
                    read(reader)

    @pytest.mark.spec("ENG-14")
    def test_a_lost_end_is_found(self, plain: Path) -> None:
        """SQLite rounds up to a page: 1 to 4,095 missing bytes were read as zeros."""
        data = plain.read_bytes()
        for cut in (1, 8, 4095, 4096):
            with pytest.raises(StoreCorruptedError, match="copy"):
                SQLiteEngine.open(_copy(plain, data[:-cut], sealed=False))

    @pytest.mark.spec("ENG-12")
    def test_a_flipped_bit_in_a_value_is_not_found(self, plain: Path) -> None:
        """This is why the engine does not declare there that it detects corruption."""
        data = plain.read_bytes()
        plain.write_bytes(data.replace(b"0500" * 51, b"0500" * 50 + b"0501"))
        with SQLiteEngine.open(plain.parent) as engine:
            assert engine.get(b"0500") == b"0500" * 49 + b"0501"
            assert not engine.capabilities.detects_corruption
