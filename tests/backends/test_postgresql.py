"""What is special about a server: where it is, whose table it is, and that it can go away."""

import json
import os
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from forked_programs import run

from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.spi import Durability

pytest.importorskip("sqlalchemy", reason="the driver for PostgreSQL is not installed")

# Behind the skip, as all here is about a server.
from statestores_sqlite import PostgreSQLEngine, SQLiteEngine

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def engine(postgresql_url: str, tmp_path: Path) -> Iterator[PostgreSQLEngine]:
    with PostgreSQLEngine.open(tmp_path / "engine") as opened:
        yield opened


@pytest.fixture
def query(postgresql_server: Any) -> Iterator[Any]:
    """Ask the server something, past the engine."""
    import psycopg2  # noqa: PLC0415  # the server's fixture skips without it

    with closing(
        psycopg2.connect(
            host=str(postgresql_server.directory), user="statestores", dbname="postgres"
        )
    ) as connection:
        connection.autocommit = True

        def ask(text: str) -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute(text)
                return list(cursor.fetchall())

        yield ask


class TestUrls:
    """How the server is found."""

    def test_the_sqlite_backend_takes_a_url(self, postgresql_url: str, tmp_path: Path) -> None:
        """With the option it is the same engine on a server, and says what it promises there."""
        with SQLiteEngine.open(tmp_path, {"URL": postgresql_url}) as engine:
            engine.apply({b"k": b"v"}, Durability.POWER_LOSS)

            assert isinstance(engine, PostgreSQLEngine)
            assert not engine.capabilities.native_checkpoint

    def test_a_directory_remembers_that_its_pairs_are_on_a_server(
        self, postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the URL it is refused; an empty SQLite file would look like lost data."""
        SQLiteEngine.open(tmp_path, {"url": postgresql_url}).close()
        SQLiteEngine.open(tmp_path).close()
        monkeypatch.delenv("STATESTORES_POSTGRESQL_URL")
        with pytest.raises(InvalidOptionError, match="STATESTORES_POSTGRESQL_URL"):
            SQLiteEngine.open(tmp_path)

        assert not (tmp_path / "engine.db").exists()

    def test_a_directory_with_a_file_has_no_table(
        self, postgresql_url: str, tmp_path: Path
    ) -> None:
        """The pairs in the file would be hidden."""
        SQLiteEngine.open(tmp_path).close()
        with pytest.raises(StoreMismatchError, match="file"):
            SQLiteEngine.open(tmp_path, {"url": postgresql_url})

    @pytest.mark.spec("ENG-13")
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "sqlite:///file.db",
            "mysql://u:secret@h/d",
            "postgresql+asyncpg://u:secret@h/d",
            "no url: secret",
        ],
    )
    def test_other_urls_are_refused_without_their_password(self, tmp_path: Path, url: str) -> None:
        """Only PostgreSQL through psycopg2 is known; the message repeats no secret."""
        with pytest.raises(InvalidOptionError) as refused:
            PostgreSQLEngine.open(tmp_path / "engine", {"url": url})

        assert "postgresql" in str(refused.value)
        assert "secret" not in str(refused.value)
        assert not (tmp_path / "engine").exists()

    @pytest.mark.spec("ENG-28", "ENG-19")
    def test_a_server_that_is_not_there_is_our_error(self, tmp_path: Path) -> None:
        """The driver's error is the cause, and the directory is free again."""
        pytest.importorskip("psycopg2", reason="the driver for PostgreSQL is not installed")
        url = f"postgresql://nobody:secret@/none?host={tmp_path}"
        for _ in range(2):
            with pytest.raises(StorageError) as refused:
                PostgreSQLEngine.open(tmp_path / "engine", {"url": url})

        assert type(refused.value.__cause__).__module__ == "psycopg2"
        assert "secret" not in str(refused.value)

    def test_a_missing_driver_says_what_to_install(
        self, tmp_path: Path, subtests: pytest.Subtests
    ) -> None:
        """A file is read and written without SQLAlchemy and psycopg2: they are missed only here."""
        program = """
            import sys
            from statestores.errors import MissingDriverError
            from statestores.registry import load_backend
            from statestores.spi import Durability

            directory, package = sys.argv[1:]
            sys.modules[package] = None
            with load_backend("sqlite").open(f"{directory}/file") as engine:
                engine.apply({b"k": b"v"}, Durability.POWER_LOSS)
                assert list(engine.scan(b"")) == [(b"k", b"v")]
            url = {"url": "postgresql://nobody@/none"}
            try:
                load_backend("postgresql").open(f"{directory}/server", url)
            except MissingDriverError as error:
                print(error)
            """
        for package in ("sqlalchemy", "psycopg2"):
            with subtests.test(package=package):
                ended = run(textwrap.dedent(program), tmp_path / package, package)

                assert ended.stderr == ""
                assert f"{package!r}" in ended.stdout
                assert "pip install 'statestores[postgresql]'" in ended.stdout

    def test_settings_of_the_server_do_not_matter(
        self, postgresql_url: str, tmp_path: Path
    ) -> None:
        """Neither how it writes bytes, nor that it would not wait for its disk."""
        url = f"{postgresql_url}&options=-c%20bytea_output%3Descape%20-c%20synchronous_commit%3Doff"
        value = bytes(range(256))
        with SQLiteEngine.open(tmp_path, {"url": url}) as engine:
            engine.apply({value: value}, Durability.PROCESS_CRASH)
            writer: Any = engine._database
            with writer._writer.begin():
                waits = writer._writer.exec_driver_sql("SHOW synchronous_commit").scalar()

            assert list(engine.scan(b"")) == [(value, value)]
            assert waits == "on"


class TestTables:
    """Which table an engine has, and that it has it alone."""

    @pytest.mark.spec("ENG-1")
    def test_two_directories_may_name_one_table_in_turn(
        self, postgresql_url: str, tmp_path: Path
    ) -> None:
        """The table is locked by itself; the message names the owner. Then it is found again."""
        table = {"table": f"shared_{os.getpid()}"}
        with PostgreSQLEngine.open(tmp_path / "one", table) as one:
            one.apply({b"k": b"v"}, Durability.POWER_LOSS)
            with pytest.raises(StoreLockedError, match=f"in process {os.getpid()} on "):
                PostgreSQLEngine.open(tmp_path / "two", table)
        with PostgreSQLEngine.open(tmp_path / "two", table) as two:
            assert two.get(b"k") == b"v"

    @pytest.mark.spec("ENG-19")
    def test_the_lock_ends_with_close_and_not_a_moment_later(
        self, engine: PostgreSQLEngine, tmp_path: Path
    ) -> None:
        """The server takes a moment to notice the end of a session, and the lock must not wait."""
        engine.close()
        for _ in range(20):
            PostgreSQLEngine.open(tmp_path / "engine").close()

    @pytest.mark.spec("ENG-1", "ENG-31")
    def test_a_table_that_is_locked_stays_free_of_the_second(
        self, postgresql_url: str, tmp_path: Path
    ) -> None:
        """The refused directory can be opened with a table of its own name, once it is free."""
        table = {"table": f"again_{os.getpid()}"}
        with PostgreSQLEngine.open(tmp_path / "one", table), pytest.raises(StoreLockedError):
            PostgreSQLEngine.open(tmp_path / "two", table)
        PostgreSQLEngine.open(tmp_path / "two", table).close()

        assert json.loads((tmp_path / "two" / "postgresql.json").read_text()) == table

    def test_another_table_than_before_is_refused(
        self, engine: PostgreSQLEngine, tmp_path: Path
    ) -> None:
        """The content would be another without anybody having written it."""
        engine.close()
        with pytest.raises(StoreMismatchError, match="other"):
            PostgreSQLEngine.open(tmp_path / "engine", {"table": "other"})

    @pytest.mark.spec("ENG-13")
    @pytest.mark.parametrize("name", ["", "two words", "1st", 'quote"', "x; DROP", "n" * 64])
    def test_a_name_that_would_need_quoting_is_refused(self, tmp_path: Path, name: str) -> None:
        """Nothing but letters, digits and underscores goes into a statement."""
        with pytest.raises(InvalidOptionError, match="table"):
            PostgreSQLEngine.open(tmp_path / "engine", {"url": "postgresql:///x", "table": name})

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"name": "x"}', '{"table": 5}', '{"table": "a b"}']
    )
    def test_a_damaged_name_is_refused(
        self, postgresql_url: str, tmp_path: Path, text: str
    ) -> None:
        """The file is left as it is."""
        (tmp_path / "postgresql.json").write_text(text)
        with pytest.raises(StoreCorruptedError, match="table"):
            PostgreSQLEngine.open(tmp_path)

        assert (tmp_path / "postgresql.json").read_text() == text

    @pytest.mark.spec("ENG-38", "ENG-16")
    def test_a_key_beyond_the_index_is_refused(self, engine: PostgreSQLEngine) -> None:
        """PostgreSQL takes some 2,700 bytes that cannot be compressed; nothing is applied."""
        key = os.urandom(4_000)
        with pytest.raises(InvalidArgumentError, match="2,600"):
            engine.apply({b"other": b"v", key: b"v"}, Durability.PROCESS_CRASH)
        engine.apply({os.urandom(2_600): b"v"}, Durability.PROCESS_CRASH)

        assert engine.approximate_num_keys(b"") == 1

    def test_a_batch_of_many_bytes_is_one_transaction(self, engine: PostgreSQLEngine) -> None:
        """It takes several statements, by number of rows and by size."""
        batch = {b"%05d" % number: b"v" for number in range(2_500)}
        batch |= {b"large%d" % number: b"v" * 9_000_000 for number in range(3)}
        engine.apply(batch, Durability.POWER_LOSS)
        engine.apply(dict.fromkeys(batch), Durability.POWER_LOSS)

        assert engine.approximate_num_keys(b"") == 0


def _ours() -> str:
    """Return what sessions of this process are selected by."""
    return f"FROM pg_stat_activity WHERE application_name LIKE 'statestores {os.getpid()}@%'"


class TestSessions:
    """Connections to the server."""

    def test_closing_ends_every_session(self, engine: PostgreSQLEngine, query: Any) -> None:
        """With a scan, a snapshot and an idle reader open."""
        engine.apply({b"%d" % number: b"v" for number in range(100)}, Durability.PROCESS_CRASH)
        held = [engine.scan(b""), engine.snapshot().scan(b"")]
        for scan in held:
            next(scan)
        engine.get(b"k")
        sessions = f"SELECT count(*) {_ours()}"
        before = query(sessions)
        engine.close()
        # The server ends a session a moment after the client has gone.
        while query(sessions) != [(0,)]:
            pass

        assert before == [(4,)]

    @pytest.mark.spec("ENG-16", "ENG-28")
    def test_a_lost_connection_is_not_replaced_behind_the_back(
        self, engine: PostgreSQLEngine, query: Any, tmp_path: Path
    ) -> None:
        """With the session the lock is lost, so the engine writes no more; reopened, it does."""
        engine.apply({b"%d" % number: b"v" for number in range(100)}, Durability.POWER_LOSS)
        scan, snapshot = engine.scan(b""), engine.snapshot()
        next(scan)
        query(f"SELECT pg_terminate_backend(pid) {_ours()}")
        for _ in range(2):
            with pytest.raises(StorageError):
                engine.apply({b"lost": b"v"}, Durability.POWER_LOSS)
        with pytest.raises(StorageError):
            list(scan)
        with pytest.raises(StorageError):
            snapshot.get(b"1")
        engine.close()
        with PostgreSQLEngine.open(tmp_path / "engine") as reopened:
            reopened.apply({b"later": b"v"}, Durability.POWER_LOSS)

            assert reopened.get(b"lost") is None
            assert reopened.approximate_num_keys(b"") == 101

    def test_reads_find_another_connection(self, engine: PostgreSQLEngine, query: Any) -> None:
        """A reader that was lost is an error once, and the next read has a new one."""
        engine.apply({b"k": b"v"}, Durability.POWER_LOSS)
        engine.get(b"k")
        query(f"SELECT pg_terminate_backend(pid) {_ours()} AND query LIKE 'SELECT value%'")
        with pytest.raises(StorageError):
            engine.get(b"k")

        assert engine.get(b"k") == b"v"
