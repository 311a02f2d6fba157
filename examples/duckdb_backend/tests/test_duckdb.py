"""What DuckDB leaves to its callers: connections, moments, forks, lost files, files of others."""

import gc
import os
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import duckdb
import pytest
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    StoreClosedError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.spi import Durability

from statestores_duckdb import DuckDBEngine

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_COMMIT = Durability.POWER_LOSS


def test_a_page_holds_about_as_much_as_it_should(tmp_path: Path) -> None:
    """Rows of one size after rows of another are all there, in both directions."""
    rows = {b"%05d" % number: b"v" * (number % 7) * 20_000 for number in range(200)}
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply(rows, _COMMIT)

        assert list(engine.scan(b"00003", b"00180")) == sorted(rows.items())[3:180]
        assert list(engine.scan(b"", reverse=True)) == sorted(rows.items())[::-1]


def test_forgotten_scans_and_snapshots_give_their_connections_back(tmp_path: Path) -> None:
    """Begun or not, ended or not: a thousand of them need a handful of connections."""
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"%03d" % number: b"v" for number in range(100)}, _COMMIT)
        for number in range(200):
            scan = engine.scan(b"")
            if number % 2:
                next(scan)
            snapshot = engine.snapshot()
            within = snapshot.scan(b"")
            del scan, snapshot, within
        gc.collect()

        assert len(engine._database._views) < 10


def test_a_scan_outlives_the_snapshot_that_was_forgotten(tmp_path: Path) -> None:
    """It holds the moment on its own: the connection does not go to somebody else."""
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"%03d" % number: b"old" for number in range(100)}, _COMMIT)
        scan = engine.snapshot().scan(b"")
        gc.collect()
        engine.apply({b"%03d" % number: b"new" for number in range(100)}, _COMMIT)

        assert {value for _, value in scan} == {b"old"}


def test_a_key_comes_back_under_a_snapshot_that_has_seen_it_go(tmp_path: Path) -> None:
    """An index may refuse a key that an older transaction still sees; this one does not."""
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"1"}, _COMMIT)
        with engine.snapshot() as snapshot:
            for value in (None, b"2", None, b"3"):
                engine.apply({b"k": value}, _COMMIT)

            assert snapshot.get(b"k") == b"1"
            assert engine.get(b"k") == b"3"


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """A child cannot read, and closing there leaves the parent's snapshot as it was."""
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"old"}, _COMMIT)
        with engine.snapshot() as snapshot:
            child = os.fork()
            if not child:
                refused = 0
                for read in (engine.get, snapshot.get):
                    try:
                        read(b"k")
                    except StoreClosedError:
                        refused += 1
                snapshot.close()
                engine.close()
                os._exit(refused)
            _, status = os.waitpid(child, 0)
            engine.apply({b"k": b"new"}, _COMMIT)

            assert os.waitstatus_to_exitcode(status) == 2
            assert snapshot.get(b"k") == b"old"


def test_a_file_that_is_missing_is_not_made_anew(tmp_path: Path) -> None:
    """DuckDB would create an empty one, and an empty store would take the place of the lost."""
    DuckDBEngine.open(tmp_path).close()
    (tmp_path / "pairs.duckdb").unlink()
    with pytest.raises(StoreCorruptedError, match=r"pairs\.duckdb"):
        DuckDBEngine.open(tmp_path)

    assert not (tmp_path / "pairs.duckdb").exists()


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """A DuckDB file that is not ours is refused, and keeps its tables."""
    with duckdb.connect(tmp_path / "pairs.duckdb") as theirs:
        theirs.execute("create table theirs (k integer)")
    with pytest.raises(UnsupportedFormatError, match="theirs"):
        DuckDBEngine.open(tmp_path)

    with duckdb.connect(tmp_path / "pairs.duckdb") as again:
        assert again.execute("select table_name from duckdb_tables()").fetchall() == [("theirs",)]


def test_the_pairs_are_a_table_for_whoever_has_duckdb(tmp_path: Path) -> None:
    """A closed store is a file that any DuckDB of this release opens."""
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"a": b"1", b"b": b"22"}, _COMMIT)
    with duckdb.connect(tmp_path / "pairs.duckdb", read_only=True) as connection:
        rows = connection.execute("select key, octet_length(value) from pairs order by key")

        assert rows.fetchall() == [(b"a", 1), (b"b", 2)]


@pytest.mark.parametrize("character", ["?", "\\"])
def test_duckdb_still_misreads_the_paths_that_are_refused(character: str, tmp_path: Path) -> None:
    """When it takes them one day, `REFUSED_IN_PATHS` can go."""
    directory = tmp_path / f"a{character}b"
    directory.mkdir()
    with (
        pytest.raises(duckdb.Error, match="No such file"),
        duckdb.connect(directory / "pairs.duckdb") as connection,
    ):
        connection.execute("create table t (k integer)")


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ({"k": b"v"}, InvalidTypeError),
        ({b"k": "v"}, InvalidTypeError),
        ({b"": b"v"}, InvalidArgumentError),
    ],
    ids=["key", "value", "empty"],
)
def test_a_wrong_batch_is_refused_whole(
    batch: dict[bytes, bytes], error: type[Exception], tmp_path: Path
) -> None:
    """DuckDB would turn text into bytes, and take an empty key."""
    with DuckDBEngine.open(tmp_path) as engine:
        with pytest.raises(error):
            engine.apply({b"a": b"1", **batch}, _COMMIT)

        assert list(engine.scan(b"")) == []


@pytest.mark.parametrize("option", [{"memory_bytes": "1"}, {"threads": "0"}, {"log_bytes": "1"}])
def test_options_out_of_range_are_refused(option: dict[str, str], tmp_path: Path) -> None:
    """DuckDB would fail later with some of them."""
    with pytest.raises(InvalidOptionError, match=next(iter(option))):
        DuckDBEngine.open(tmp_path, option)


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_engine_is_as_it_was_after_an_interrupt_anywhere(
    tmp_path: Path, interrupts: int
) -> None:
    """Control-C between `begin` and what would have rolled back left the transaction open.

    Every batch from then on raised: "cannot start a transaction within a transaction". The same
    was so of a second one, during the rollback.
    """
    with DuckDBEngine.open(tmp_path) as engine:
        engine.apply({b"a": b"old"}, _COMMIT)
        for number in range(100):
            lines = _Interrupting({number, number + 3} if interrupts == 2 else {number})
            before, given = sys.gettrace(), b"%03d" % number
            sys.settrace(lines.trace)
            try:
                engine.apply({b"a": given, b"b": given, b"c": None}, _COMMIT)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)

            assert engine.get(b"a") in {given, b"old"}
            assert engine.get(b"b") == (given if engine.get(b"a") == given else None)
            engine.apply({b"a": b"old", b"b": None}, _COMMIT)
            if lines.seen <= number:
                break
        else:
            pytest.fail("a batch has more lines than were interrupted")


class _Interrupting:
    """Interrupts the lines of these numbers, of those in the module of the database."""

    def __init__(self, numbers: set[int]) -> None:
        self.seen = 0
        self._numbers = numbers

    def trace(self, frame: FrameType, event: str, _: object) -> "TraceFunction | None":
        """Count a line; be called for each."""
        if Path(frame.f_code.co_filename).name != "database.py":
            return None
        if event == "line":
            self.seen += 1
            if self.seen - 1 in self._numbers:
                raise KeyboardInterrupt
        return self.trace
