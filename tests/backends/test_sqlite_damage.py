"""What a SQLite file says of itself: checksums of rows and of the closed file, and damage."""

import gc
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from statestores.errors import (
    StoreCorruptedError,
)
from statestores.spi import Durability, EngineReader
from statestores_sqlite import SQLiteEngine, sqlite_file
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


def _content(directory: Path) -> dict[bytes, bytes]:
    with SQLiteEngine.open(directory) as engine:
        return dict(engine.scan(b""))


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


class TestALogThatIsGone:
    """SQLite takes a file without its log for all that there was."""

    @pytest.mark.spec("ENG-48")
    def test_a_copy_of_the_file_alone_is_refused(
        self, engine: SQLiteEngine, directory: Path
    ) -> None:
        """As people back up a database: it opened as an empty store, and nothing was said.

        Nothing is made beside it, so the log may still be put there.
        """
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        copy = directory.with_name("copy")
        copy.mkdir()
        shutil.copy(directory / "engine.db", copy)
        for _ in range(2):
            with pytest.raises(StoreCorruptedError, match="db-wal"):
                SQLiteEngine.open(copy)

            assert not (copy / "engine.db-wal").exists()

        shutil.copy(directory / "engine.db-wal", copy)

        assert _content(copy) == _PAIRS

    @pytest.mark.spec("ENG-48")
    def test_a_log_that_is_gone_after_a_checkpoint_is_refused(
        self, engine: SQLiteEngine, directory: Path
    ) -> None:
        """Part of the batches is in the file by then, and looked like a whole store."""
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        engine._database._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        engine.apply({b"later": b"v"}, Durability.PROCESS_CRASH)
        copy = shutil.copytree(directory, directory.with_name("copy"))
        (copy / "engine.db-wal").unlink()
        with pytest.raises(StoreCorruptedError, match="db-wal"):
            SQLiteEngine.open(copy)

    @pytest.mark.spec("ENG-7", "ENG-48")
    def test_a_process_may_die_at_each_step_of_the_mark(self, directory: Path) -> None:
        """What is there at each line opens, with the batch or, before it was applied, without."""
        copies: list[Path] = []

        def copy(frame: FrameType, event: str, _: object) -> Any:
            if not frame.f_code.co_filename.endswith("needed_log.py"):
                return None
            if event == "line":
                copies.append(
                    shutil.copytree(directory, directory.with_name(f"copy {len(copies)}"))
                )
            return copy

        for batch in ({b"first": b"v"}, {b"second": b"v"}):
            with SQLiteEngine.open(directory) as engine:
                sys.settrace(copy)
                try:
                    engine.apply(dict(batch), Durability.PROCESS_CRASH)
                    engine.close()
                finally:
                    sys.settrace(None)
        states: tuple[dict[bytes, bytes], ...] = (
            {},
            {b"first": b"v"},
            {b"first": b"v", b"second": b"v"},
        )

        assert len(copies) > len(states)
        assert all(_content(each) in states for each in copies)

    @pytest.mark.spec("ENG-18", "ENG-48")
    @pytest.mark.parametrize("died", [False, True], ids=["its own", "a dead process's"])
    def test_an_engine_that_nobody_closes_leaves_no_mark(
        self, directory: Path, *, died: bool
    ) -> None:
        """SQLite moves the log and removes it, when the connection is collected."""
        engine = SQLiteEngine.open(directory)
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        left = shutil.copytree(directory, directory.with_name("left"))
        if died:
            engine.close()
            engine = SQLiteEngine.open(left)
        del engine
        gc.collect()

        assert not (left if died else directory).joinpath("engine.db-wal").exists()
        assert _content(left if died else directory) == _PAIRS

    @pytest.mark.spec("ENG-17", "ENG-48")
    def test_an_opening_that_fails_leaves_a_log(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite moves and removes it there as well, and the next opening would miss it."""
        with SQLiteEngine.open(directory) as engine:
            engine.apply(_PAIRS, Durability.PROCESS_CRASH)
            left = shutil.copytree(directory, directory.with_name("left"))

        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(sqlite_file, "check_rows", interrupt)
            with pytest.raises(KeyboardInterrupt):
                SQLiteEngine.open(left)

        assert _content(left) == _PAIRS

    @pytest.mark.spec("ENG-33", "ENG-48")
    def test_a_checkpoint_has_no_mark(self, engine: SQLiteEngine, directory: Path) -> None:
        """It is whole without a log, and nobody has sealed it."""
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        engine.checkpoint(directory.with_name("copy"))

        assert _content(directory.with_name("copy")) == _PAIRS


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
