"""What LMDB leaves to its callers: the map, the table of readers, forks, files of others."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import lmdb
import pytest
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.spi import Durability
from statestores_conformance.engine.interruption import home_of, interrupt

from statestores_lmdb import LMDBEngine
from statestores_lmdb.database import Database

_SMALL_MAP = {"map_bytes": str(1024 * 1024)}
_MOST_LINES = 200
"""More than a batch takes."""
_MORE_THAN_THE_MAP = b"v" * (3 * 1024 * 1024)


def test_the_map_grows_with_its_content(tmp_path: Path) -> None:
    """A batch larger than the map is applied all the same, and found again."""
    with LMDBEngine.open(tmp_path, _SMALL_MAP) as engine:
        for number in range(4):
            batch = {b"%d" % number: _MORE_THAN_THE_MAP}
            engine.apply(batch, Durability.POWER_LOSS)
    with LMDBEngine.open(tmp_path, _SMALL_MAP) as engine:
        assert [key for key, _ in engine.scan(b"")] == [b"0", b"1", b"2", b"3"]


def test_the_map_grows_before_it_is_full(tmp_path: Path) -> None:
    """Half a map ahead, so that a scan which is opened later is not in the way."""
    with LMDBEngine.open(tmp_path, _SMALL_MAP) as engine:
        for number in range(40):
            engine.apply({b"%02d" % number: b"v" * 100_000}, Durability.PROCESS_CRASH)
            scan = engine.scan(b"")
            engine.apply({b"x": b"%d" % number}, Durability.PROCESS_CRASH)

            assert next(scan)[0] == b"00"
            del scan


def test_a_map_does_not_grow_under_a_snapshot(tmp_path: Path) -> None:
    """Growing would end the snapshot: the batch is refused, whole, and taken once it is closed."""
    with LMDBEngine.open(tmp_path, _SMALL_MAP) as engine:
        engine.apply({b"k": b"old"}, Durability.PROCESS_CRASH)
        grow = partial(
            engine.apply, {b"k": b"new", b"l": _MORE_THAN_THE_MAP}, Durability.PROCESS_CRASH
        )
        with engine.snapshot() as snapshot:
            with pytest.raises(StorageError, match="map_bytes") as refused:
                grow()

            assert type(refused.value.__cause__) is lmdb.MapFullError
            assert list(snapshot.scan(b"")) == list(engine.scan(b"")) == [(b"k", b"old")]
        grow()

        assert engine.get_many([b"k", b"l"]) == [b"new", _MORE_THAN_THE_MAP]


def test_an_interrupt_after_the_commit_shows_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that was cached from before would say that nothing became of it."""
    with LMDBEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"old"}, Durability.PROCESS_CRASH)
        assert engine.get(b"k") == b"old"
        write = Database._write_once

        def write_and_interrupt(database: Database, batch: Mapping[bytes, bytes | None]) -> None:
            write(database, batch)
            raise KeyboardInterrupt

        monkeypatch.setattr(Database, "_write_once", write_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.apply({b"k": b"new"}, Durability.PROCESS_CRASH)

        assert engine.get(b"k") == b"new"


def test_an_interrupt_while_the_view_is_forgotten_shows_the_batch(tmp_path: Path) -> None:
    """It came in the very line that was to forget what had been read before.

    Reads said that nothing became of the batch, and the next one brought it along.
    """
    with LMDBEngine.open(tmp_path) as engine:
        for line in range(1, _MOST_LINES):
            engine.apply({b"k": b"old"}, Durability.PROCESS_CRASH)
            assert engine.get(b"k") == b"old"
            change = partial(engine.apply, {b"k": b"new"}, Durability.PROCESS_CRASH)
            interrupted = interrupt(change, home_of(engine), line)
            found = engine.get(b"k")
            engine.apply({b"other": b"v"}, Durability.PROCESS_CRASH)

            assert engine.get(b"k") == found, f"interrupted at line {line}"
            if not interrupted:
                break


def test_scans_of_one_commit_share_a_view(tmp_path: Path) -> None:
    """Any number of scans are open at once; only commits that are held open are counted."""
    with LMDBEngine.open(tmp_path, {"max_views": 2}) as engine:
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        scans = [engine.scan(b"") for _ in range(100)]
        engine.apply({b"k": b"w"}, Durability.PROCESS_CRASH)
        scans += [engine.scan(b"") for _ in range(100)]
        engine.apply({b"k": b"x"}, Durability.PROCESS_CRASH)
        with pytest.raises(StorageError, match="max_views"):
            engine.get(b"k")

        assert {value for scan in scans for _, value in scan} == {b"v", b"w"}
        assert engine.get(b"k") == b"x"


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """A child cannot read, and closing there leaves the parent's snapshot as it was."""
    with LMDBEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"old"}, Durability.PROCESS_CRASH)
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
            for number in range(50):
                engine.apply({b"%d" % number: b"v" * 5_000}, Durability.PROCESS_CRASH)

            assert os.waitstatus_to_exitcode(status) == 2
            assert list(snapshot.scan(b"")) == [(b"k", b"old")]


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """An LMDB file that is not ours is refused, and not one byte of it changes."""
    with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"theirs", b"data")
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(UnsupportedFormatError, match="another program"):
        LMDBEngine.open(tmp_path)

    assert (tmp_path / "data.mdb").read_bytes() == before


def test_a_file_that_is_not_lmdb_is_damage(tmp_path: Path) -> None:
    """Garbage where the file should be is our error, and stays where it is."""
    (tmp_path / "data.mdb").write_bytes(b"\xa5" * 16_384)
    with pytest.raises(StoreCorruptedError):
        LMDBEngine.open(tmp_path)

    assert (tmp_path / "data.mdb").read_bytes() == b"\xa5" * 16_384


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
    """What LMDB cannot store is refused before anything is."""
    with LMDBEngine.open(tmp_path) as engine:
        with pytest.raises(error):
            engine.apply({b"a": b"1", **batch}, Durability.PROCESS_CRASH)

        assert list(engine.scan(b"")) == []


@pytest.mark.parametrize("option", [{"map_bytes": "1"}, {"max_views": "0"}, {"readahead": "maybe"}])
def test_options_out_of_range_are_refused(option: dict[str, str], tmp_path: Path) -> None:
    """LMDB would bend some, and fail later with the others."""
    with pytest.raises(InvalidOptionError, match=next(iter(option))):
        LMDBEngine.open(tmp_path, option)
