"""What is special about SQLite: options, a full disk, connections, copies."""

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    StorageError,
    StoreLockedError,
    UnsupportedFormatError,
)
from statestores.spi import Durability
from statestores_sqlite import SQLiteEngine, sqlite_file
from statestores_sqlite.clean_close import SEAL
from statestores_sqlite.log_limit import LogLimit

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

_PAIRS = {b"%04d" % number: b"%04d" % number * 50 for number in range(1_000)}


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


class TestOptions:
    """Options, as they arrive from Spark and from the command line."""

    @pytest.mark.spec("ENG-13")
    def test_options_may_be_text(self, directory: Path) -> None:
        """They reach SQLite as pages and kibibytes."""
        with SQLiteEngine.open(
            directory, {"cache_bytes": "1048576", "WAL_BYTES": "65536"}
        ) as engine:
            found = [_pragma(engine, "cache_size"), _pragma(engine, "wal_autocheckpoint")]

        assert found == [-1024, 16]

    @pytest.mark.spec("ENG-13")
    @pytest.mark.parametrize(
        ("name", "value"),
        [("cache_bytes", 0), ("cache_bytes", -5), ("wal_bytes", 1), ("wal_bytes", "much")],
    )
    def test_a_value_out_of_bounds_is_refused(
        self, directory: Path, name: str, value: object
    ) -> None:
        """SQLite would read it as "none" or "no limit"."""
        with pytest.raises(InvalidOptionError, match=name):
            SQLiteEngine.open(directory, {name: value})

        assert not directory.exists()


class TestOpening:
    """Where SQLite cannot be opened."""

    @pytest.mark.spec("ENG-28")
    def test_an_empty_path_is_refused(self) -> None:
        """It would mean the working directory, which nobody asked for."""
        with pytest.raises(StorageError, match="empty"):
            SQLiteEngine.open("")

    @pytest.mark.spec("ENG-28")
    def test_a_directory_in_place_of_the_file_is_our_error(self, directory: Path) -> None:
        """What SQLite says about it is the cause."""
        (directory / "engine.db").mkdir(parents=True)
        with pytest.raises(StorageError) as refused:
            SQLiteEngine.open(directory)

        assert isinstance(refused.value.__cause__, sqlite3.Error)

    def test_a_newer_format_is_refused(self, filled: Path) -> None:
        """A file that a later release wrote differently is left alone."""
        connection = sqlite3.connect(filled)
        connection.execute("PRAGMA user_version = 3")
        connection.execute(f"PRAGMA application_id = {0x53545303}")
        connection.close()
        (filled.parent / SEAL).unlink()
        with pytest.raises(UnsupportedFormatError, match="3"):
            SQLiteEngine.open(filled.parent)


class TestCommits:
    """What a commit waits for, and what happens when it fails."""

    @pytest.mark.spec("ENG-8", "COM-12")
    def test_the_durability_is_that_of_each_batch(self, engine: SQLiteEngine) -> None:
        """FULL waits for the log at each commit; NORMAL does not, and never damages."""
        found = []
        for durability in (*Durability, *Durability):
            engine.apply({b"k": b"v"}, durability)
            found.append(_pragma(engine, "synchronous"))

        assert found == [2, 1, 2, 1]

    @pytest.mark.spec("ENG-23")
    def test_an_empty_durable_batch_writes_once(
        self, engine: SQLiteEngine, directory: Path
    ) -> None:
        """SQLite waits for the disk only when it writes, so the batch has to write something."""
        log = directory / "engine.db-wal"
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        logs = [log.read_bytes()]
        for durability in (Durability.PROCESS_CRASH, Durability.POWER_LOSS, Durability.POWER_LOSS):
            engine.apply({}, durability)
            logs.append(log.read_bytes())

        assert logs[0] == logs[1] != logs[2] == logs[3]

    @pytest.mark.spec("ENG-7", "ENG-16")
    def test_an_interrupted_transaction_is_not_a_part_of_the_next(
        self, engine: SQLiteEngine
    ) -> None:
        """Ctrl-C in the middle of a batch, and again before it is rolled back.

        The story: one Ctrl-C was enough to leave the transaction open, in a connection that
        SQLAlchemy had let go of, and each later commit found the file locked.
        """
        engine.apply({b"a": b"1"}, Durability.PROCESS_CRASH)
        database = engine._database
        assert isinstance(database, sqlite_file.SQLiteFile)
        database._driver.execute("DELETE FROM pairs").close()  # what the second one leaves
        engine.apply({b"b": b"1"}, Durability.POWER_LOSS)

        assert list(engine.scan(b"")) == [(b"a", b"1"), (b"b", b"1")]
        assert _pragma(engine, "synchronous") == 2

    @pytest.mark.spec("ENG-16", "COM-9")
    def test_a_full_disk_applies_nothing(self, directory: Path) -> None:
        """The batch is refused as a whole, and applied when there is room again."""
        program = textwrap.dedent(
            """
            import resource, sys
            from statestores.errors import StorageError
            from statestores.spi import Durability
            from statestores_sqlite import SQLiteEngine

            engine = SQLiteEngine.open(sys.argv[1])
            engine.apply({b"before": b"v"}, Durability.POWER_LOSS)
            unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, unlimited[1]))
            batch = {b"before": None} | {b"%d" % number: b"v" * 1000 for number in range(500)}
            try:
                engine.apply(batch, Durability.PROCESS_CRASH)
            except StorageError as error:
                print("refused:", type(error.__cause__).__name__)
            print([key for key, _ in engine.scan(b"")])
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            engine.apply(batch, Durability.PROCESS_CRASH)
            print(engine.approximate_num_keys(b""))
            engine.close()
            """
        )
        run = subprocess.run(
            [sys.executable, "-c", program, str(directory)],
            capture_output=True,
            text=True,
            check=True,
        )

        assert run.stdout.splitlines() == ["refused: OperationalError", "[b'before']", "500"]
        with SQLiteEngine.open(directory) as engine:
            assert engine.approximate_num_keys(b"") == 500

    @pytest.mark.spec("ENG-16")
    def test_a_foreign_transaction_is_waited_for_and_then_named(
        self, engine: SQLiteEngine, directory: Path
    ) -> None:
        """Whoever writes past statestores' lock makes a batch fail, which may be tried again."""
        _pragma(engine, "busy_timeout = 10")
        foreign = sqlite3.connect(directory / "engine.db")
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError, match="without statestores") as refused:
            engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        foreign.rollback()
        foreign.close()
        engine.apply({b"k": b"w"}, Durability.PROCESS_CRASH)

        assert refused.value.retryable
        assert engine.get(b"k") == b"w"


class TestConnections:
    """How many connections there are, and that they are used again."""

    def test_reads_one_after_the_other_share_a_connection(self, engine: SQLiteEngine) -> None:
        """Of every kind, and also when a scan or a snapshot was not read to its end."""
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        for _ in range(20):
            engine.get(b"0001")
            next(engine.scan(b""))
            engine.scan(b"", reverse=True)
            engine.snapshot().close()

        assert len(engine._pool._idle) == 1

    def test_a_connection_that_met_an_error_is_not_used_again(self, engine: SQLiteEngine) -> None:
        """Whatever state it is in, the next read has another one."""
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        with pytest.raises(StorageError):
            engine.get([])  # type: ignore[arg-type]  # what the driver refuses

        assert engine._pool._idle == []
        assert engine.get(b"k") == b"v"

    def test_readers_cannot_write(self, engine: SQLiteEngine) -> None:
        """A connection that reads refuses everything else."""
        engine.get(b"k")
        (reader,) = engine._pool._idle
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM pairs")

    def test_the_log_shrinks_when_nobody_looks_at_it(self, directory: Path) -> None:
        """A snapshot keeps the log growing; after it, the log is used from its start again."""
        with SQLiteEngine.open(directory, {"wal_bytes": "65536"}) as engine:
            log = directory / "engine.db-wal"
            engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
            with engine.snapshot():
                for number in range(300):
                    engine.apply({b"%d" % number: b"v" * 1000}, Durability.PROCESS_CRASH)
                grown = log.stat().st_size
            for number in range(300):
                engine.apply({b"%d" % number: b"w" * 1000}, Durability.PROCESS_CRASH)

            assert grown > 1_000_000
            assert log.stat().st_size < 200_000

    def test_a_large_commit_leaves_no_large_log(self, directory: Path) -> None:
        """SQLite kept the log as long as it ever was: 28 MB of it beside a file as large."""
        with SQLiteEngine.open(directory) as engine:
            log = directory / "engine.db-wal"
            rows = {b"%06d" % number: b"v" * 1000 for number in range(20_000)}
            engine.apply(rows, Durability.PROCESS_CRASH)

            assert log.stat().st_size == 0
            assert engine.get(b"019999") == b"v" * 1000

    def test_a_reader_does_not_hold_up_the_commit_that_cuts_the_log(self, directory: Path) -> None:
        """It would wait five seconds for each open snapshot. The log is cut when that is closed."""
        rows = {b"%04d" % number: b"v" * 1000 for number in range(2000)}
        with SQLiteEngine.open(directory, {"wal_bytes": "65536"}) as engine:
            log = directory / "engine.db-wal"
            engine.apply({b"k": b"old"}, Durability.PROCESS_CRASH)
            with engine.snapshot() as snapshot:
                waiting = engine._database._driver  # type: ignore[attr-defined]
                for _ in range(3):
                    engine.apply({**rows, b"k": b"new"}, Durability.PROCESS_CRASH)
                (timeout,) = waiting.execute("PRAGMA busy_timeout").fetchone()
                seen = snapshot.get(b"k")
                held = log.stat().st_size
            engine.apply(rows, Durability.PROCESS_CRASH)

            assert (seen, timeout) == (b"old", 5000)
            assert held > 2_000_000
            assert log.stat().st_size == 0

    def test_a_log_that_cannot_be_moved_fails_no_commit(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The batch is in the log, durably: the full disk is met by a commit that needs it."""
        rows = {b"%04d" % number: b"v" * 1000 for number in range(2000)}
        with SQLiteEngine.open(directory, {"wal_bytes": "65536"}) as engine:

            def fail(limit: LogLimit) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            monkeypatch.setattr(LogLimit, "_cut", fail)
            engine.apply(rows, Durability.PROCESS_CRASH)

            assert engine.get(b"0000") == b"v" * 1000


class TestCheckpoints:
    """Copies."""

    @pytest.mark.spec("ENG-33")
    def test_a_copy_is_compact_and_alone(self, engine: SQLiteEngine, tmp_path: Path) -> None:
        """It is one file without the space of deleted pairs, also while a scan is open."""
        engine.apply(_PAIRS, Durability.PROCESS_CRASH)
        engine.apply(dict.fromkeys(list(_PAIRS)[1:]), Durability.PROCESS_CRASH)
        scan = engine.scan(b"")
        engine.checkpoint(tmp_path / "deep" / "copy")
        list(scan)

        (copied,) = (tmp_path / "deep").rglob("*.*")
        assert copied.relative_to(tmp_path) == Path("deep/copy/engine.db")
        assert copied.stat().st_size == 4096 * 2

    @pytest.mark.spec("ENG-33")
    def test_a_copy_overwrites_nothing(self, engine: SQLiteEngine, tmp_path: Path) -> None:
        """A path where there is something is refused, even an empty directory."""
        (tmp_path / "there").mkdir()
        with pytest.raises(InvalidArgumentError, match="there"):
            engine.checkpoint(tmp_path / "there")

        assert list((tmp_path / "there").iterdir()) == []

    def test_a_copy_that_fails_leaves_nothing(
        self, engine: SQLiteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither the directory nor a part of it under another name."""

        def fail(path: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(sqlite_file, "make_durable", fail)
        with pytest.raises(StorageError, match="space"):
            engine.checkpoint(tmp_path / "copy")

        assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def _pragma(engine: SQLiteEngine, text: str) -> object:
    """Return what the writing connection answers to a PRAGMA."""
    database = engine._database
    assert isinstance(database, sqlite_file.SQLiteFile)
    answer: object = database._driver.execute(f"PRAGMA {text}").fetchone()[0]
    return answer


@pytest.mark.spec("ENG-19")
def test_a_close_that_fails_lets_go_of_the_lock(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store could not be opened again before the process had ended."""
    failures = [sqlite3.OperationalError("disk I/O error")]

    class FailingConnection(sqlite3.Connection):
        """A connection of the driver that is closed, and at first says that it could not be."""

        def close(self) -> None:
            super().close()
            if failures:
                raise failures.pop()

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailingConnection))
    engine = SQLiteEngine.open(directory)
    monkeypatch.undo()
    engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
    with pytest.raises(StorageError, match="disk I/O error"):
        engine.close()
    engine.close()

    with SQLiteEngine.open(directory) as again:
        assert again.get(b"k") == b"v"


@pytest.mark.spec("ENG-14")
def test_a_seal_is_of_what_was_committed(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The connection that closes saw what a failed batch had left, and sealed by that.

    An empty file was sealed, which has to be none of a store whose file is put back; and one whose
    rows the batch would have deleted was not: nobody would find a row missing from it.
    """
    for kept in ({}, {b"kept": b"v"}):
        with subtests.test(rows=len(kept)):
            engine = SQLiteEngine.open(tmp_path / f"{len(kept)}")
            engine.apply(kept, Durability.PROCESS_CRASH)
            database = engine._database
            assert isinstance(database, sqlite_file.SQLiteFile)
            database._driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000)
            puts = {b"put": b"v"} if not kept else {}
            with pytest.raises(InvalidArgumentError, match="too big"):
                engine.apply(
                    {**dict.fromkeys(kept), **puts, b"large": bytes(2_000)},
                    Durability.PROCESS_CRASH,
                )
            engine.close()

            assert (tmp_path / f"{len(kept)}" / SEAL).exists() is bool(kept)
