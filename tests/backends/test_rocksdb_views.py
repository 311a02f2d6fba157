"""Views, snapshots and iterators of RocksDB: frozen, never short, and gone when the engine is."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import cast

import pytest

from statestores.errors import StoreClosedError, StoreCorruptedError
from statestores.spi import Durability, EngineReader

pytest.importorskip("rocksdict", reason="the driver of the rocksdb backend is not installed")

# Behind the skip, since it imports the driver.
from statestores_rocksdb import RocksDBEngine
from statestores_rocksdb.frozen_view import _CACHED_ROWS, _FIRST_CHUNK
from statestores_rocksdb.snapshot import RocksDBSnapshot

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

PROCESS_CRASH = Durability.PROCESS_CRASH
ROWS = 3_000
"""More than the first chunks of a scan, so that the driver's own iterator takes over."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksDBEngine]:
    with RocksDBEngine.open(tmp_path / "db") as engine:
        yield engine


def _pairs(value: bytes = b"1") -> dict[bytes, bytes]:
    return {b"%05d" % number: value for number in range(ROWS)}


def _snapshot(engine: RocksDBEngine) -> RocksDBSnapshot:
    return cast("RocksDBSnapshot", engine.snapshot())


def test_reads_between_two_batches_share_one_raw_iterator(engine: RocksDBEngine) -> None:
    """Making one costs as much as two reads."""
    engine.apply({b"a": b"1"}, PROCESS_CRASH)
    engine.first(b"")
    view = engine._view
    engine.last(b"")
    list(engine.scan(b""))
    snapshot = _snapshot(engine)

    assert view is not None
    assert engine._view is view
    assert snapshot.view is view
    snapshot.close()


def test_a_batch_ends_the_sharing(engine: RocksDBEngine) -> None:
    """What is not looked at any more is not kept: it would pin files and memory."""
    engine.apply({b"a": b"1"}, PROCESS_CRASH)
    engine.first(b"")
    engine.apply({b"a": b"2"}, PROCESS_CRASH)

    assert engine._view is None
    assert list(engine._views) == []
    assert engine.first(b"") == (b"a", b"2")


@pytest.mark.spec("ENG-9")
@pytest.mark.parametrize("reverse", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("bounds", [(b"", None), (b"00100", b"02900"), (b"00100", b"00110")])
def test_scans_of_a_snapshot_are_frozen_after_a_batch(
    engine: RocksDBEngine, bounds: tuple[bytes, bytes | None], *, reverse: bool
) -> None:
    """The driver's own snapshot iterators would show the batch."""
    engine.apply(_pairs(), PROCESS_CRASH)
    before = list(engine.scan(*bounds, reverse=reverse))
    with engine.snapshot() as snapshot:
        engine.apply(dict.fromkeys(_pairs(), None) | {b"001": b"new"}, PROCESS_CRASH)

        assert list(snapshot.scan(*bounds, reverse=reverse)) == before


@pytest.mark.spec("ENG-6")
@pytest.mark.parametrize("taken", [0, 1, 20, 32, 33, 1_000, ROWS])
@pytest.mark.parametrize("reverse", [False, True], ids=["ascending", "descending"])
def test_a_batch_in_the_middle_of_a_scan_does_not_show(
    engine: RocksDBEngine, taken: int, *, reverse: bool
) -> None:
    """Whichever way the scan is reading just then."""
    engine.apply(_pairs(), PROCESS_CRASH)
    before = list(engine.scan(b"", reverse=reverse))
    scan = engine.scan(b"", reverse=reverse)
    pairs = [next(scan) for _ in range(taken)]
    engine.apply(dict.fromkeys(_pairs(), None) | {b"9": b"new"}, PROCESS_CRASH)
    pairs.extend(scan)

    assert pairs == before


@pytest.mark.spec("ENG-6")
@pytest.mark.parametrize("reverse", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("excess", [-1, 0, 1, 100, 2_000])
def test_a_long_scan_goes_on_past_the_block_cache(
    engine: RocksDBEngine, excess: int, *, reverse: bool
) -> None:
    """Whatever the number of rows at which the next iterator takes over, and also after a batch."""
    rows = _FIRST_CHUNK + _CACHED_ROWS + excess
    content = {b"%05d" % number: b"%d" % number for number in range(rows)}
    expected = sorted(content.items(), reverse=reverse)
    engine.apply(content | {b"-": b"below", b"9": b"above"}, PROCESS_CRASH)

    assert list(engine.scan(b"0", b"8", reverse=reverse)) == expected

    scan = engine.scan(b"0", b"8", reverse=reverse)
    pairs = list(islice(scan, rows // 2))
    engine.apply({b"%05d" % rows: b"new"}, PROCESS_CRASH)
    assert [*pairs, *scan] == expected


def test_an_ingestion_in_the_middle_of_a_scan_does_not_show(engine: RocksDBEngine) -> None:
    """Ingested files need not advance the sequence number by which views are compared."""
    engine.apply(_pairs(), PROCESS_CRASH)
    scan = engine.scan(b"")
    pairs = [next(scan) for _ in range(10)]
    with engine.snapshot() as snapshot:
        engine.ingest([(b"8", b"new"), (b"9", b"new")])
        pairs.extend(scan)

        assert pairs == list(_pairs().items())
        assert snapshot.last(b"") == (b"%05d" % (ROWS - 1), b"1")
        assert engine.last(b"") == (b"9", b"new")


def _damage_table(directory: Path) -> None:
    """Flip a bit in the middle of the largest table, among its blocks of pairs."""
    table = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("stale", [False, True], ids=["present", "after a batch"])
@pytest.mark.parametrize("reverse", [False, True], ids=["ascending", "descending"])
def test_a_scan_does_not_end_early_at_damage(tmp_path: Path, *, stale: bool, reverse: bool) -> None:
    """The driver's ``items()`` ends there as if the data were over."""
    options = {"compression": "none", "bloom_bits_per_key": 0}
    with RocksDBEngine.open(tmp_path, options) as engine:
        engine.apply(_pairs(b"v" * 100), PROCESS_CRASH)
    _damage_table(tmp_path)

    with RocksDBEngine.open(tmp_path, options) as engine, engine.snapshot() as snapshot:
        if stale:
            engine.apply({b"x": b""}, PROCESS_CRASH)
        seen: deque[tuple[bytes, bytes]] = deque()
        with pytest.raises(StoreCorruptedError, match="checksum mismatch"):
            seen.extend(snapshot.scan(b"", reverse=reverse))

        assert 900 < len(seen) < ROWS


@pytest.mark.spec("ENG-14")
def test_an_error_that_is_kept_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Tracebacks hold local variables, and a driver's iterator holds RocksDB's lock.

    A caller that catches the error, closes the engine and opens it again inside of its ``except``
    block met "lock hold by current process".
    """
    with RocksDBEngine.open(tmp_path) as engine:
        engine.apply(_pairs(b"v" * 100), PROCESS_CRASH)
    _damage_table(tmp_path)
    reads: list[Callable[[EngineReader], object]] = [
        lambda reader: [reader.get(key) for key in _pairs()],
        lambda reader: reader.get_many(list(_pairs())),
        lambda reader: [reader.first(key) for key in _pairs()],
        lambda reader: [reader.last(b"", key) for key in _pairs()],
        lambda reader: list(reader.scan(b"")),
        lambda reader: list(reader.scan(b"", reverse=True)),
    ]
    errors = []
    for read in reads:
        engine = RocksDBEngine.open(tmp_path)
        snapshot = engine.snapshot()
        for reader in (engine, snapshot):
            with pytest.raises(StoreCorruptedError) as caught:
                read(reader)
            errors.append(caught)
        engine.close()

    RocksDBEngine.open(tmp_path).close()
    assert len(errors) == 2 * len(reads)


@pytest.mark.spec("ENG-10")
def test_closing_drops_what_callers_still_hold(tmp_path: Path) -> None:
    """Any driver's object left behind would keep RocksDB's lock: reopening is the proof."""
    engine = RocksDBEngine.open(tmp_path)
    engine.apply(_pairs(), PROCESS_CRASH)
    old = engine.snapshot()
    iterators = [old.scan(b""), engine.scan(b""), engine.scan(b"", reverse=True)]
    engine.apply({b"x": b""}, PROCESS_CRASH)
    new = engine.snapshot()
    iterators += [engine.scan(b"x"), engine.scan(b"", b""), new.scan(b"", reverse=True)]
    iterators += [old.scan(b"", reverse=True), engine.scan(b"")]
    for iterator in iterators[:2]:
        next(iterator)
    for _ in range(100):
        # Now the driver's own iterator is running.
        next(iterators[-1])
    engine.close()
    reopened = RocksDBEngine.open(tmp_path)

    for _ in range(2):
        for iterator in iterators:
            with pytest.raises(StoreClosedError):
                next(iterator)
    for snapshot in (old, new):
        with pytest.raises(StoreClosedError):
            snapshot.get(b"x")
    assert reopened.get(b"x") == b""
    reopened.close()


def test_closing_a_snapshot_ends_its_own_iterators_only(engine: RocksDBEngine) -> None:
    """Iterators of the engine may share the snapshot's view."""
    engine.apply(_pairs(), PROCESS_CRASH)
    snapshot = engine.snapshot()
    own, other = snapshot.scan(b""), engine.scan(b"")
    next(own)
    snapshot.close()

    with pytest.raises(StoreClosedError):
        next(own)
    assert len(list(other)) == ROWS


def test_finished_iterators_are_not_remembered(engine: RocksDBEngine) -> None:
    """An engine that is open for months makes many."""
    for _ in range(1_000):
        list(engine.scan(b""))

    assert len(engine._iterators._generators) < 200


def _read_until_closed(step: Callable[[], set[object]], unexpected: list[object]) -> None:
    """Repeat *step*, which should give one value, until the engine is closed."""
    try:
        while True:
            values = step()
            if len(values) != 1:
                unexpected.append(values)
    except StoreClosedError:
        return
    except BaseException as error:
        unexpected.append(error)
        raise


@pytest.mark.spec("ENG-11")
def test_closing_under_readers_gives_them_one_error(tmp_path: Path) -> None:
    """Readers of every kind see whole batches, then `StoreClosedError`; reopening works at once."""
    engine = RocksDBEngine.open(tmp_path)
    engine.apply(_pairs(b"0"), PROCESS_CRASH)
    keys = list(_pairs())

    def snapshot() -> set[object]:
        with engine.snapshot() as snapshot:
            return {snapshot.get(b"00000"), *(value for _, value in snapshot.scan(b""))}

    def in_order() -> set[object]:
        """What ``get`` has shown, the reads by the view show too."""
        seen = int(engine.get(b"00000") or b"-1")
        pairs = (engine.first(b""), engine.last(b""), next(engine.scan(b"")))
        return {pair is not None and int(pair[1]) >= seen for pair in pairs} | {True}

    steps: list[Callable[[], set[object]]] = [
        lambda: {value for _, value in engine.scan(b"")},
        lambda: {value for _, value in engine.scan(b"", reverse=True)},
        # The driver reads the values of one call at one instant; 256 keys are one call.
        lambda: set(engine.get_many(keys[:256])),
        snapshot,
        in_order,
    ]
    unexpected: list[object] = []
    readers = [
        threading.Thread(target=_read_until_closed, args=(step, unexpected)) for step in steps
    ]
    for reader in readers:
        reader.start()
    for number in range(60):
        engine.apply(_pairs(b"%d" % number), PROCESS_CRASH)
    engine.close()
    RocksDBEngine.open(tmp_path).close()
    for reader in readers:
        reader.join()

    assert unexpected == []


@pytest.mark.spec("ENG-10")
def test_closing_does_not_raise_over_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who closes in order to restore must get through; what was committed is in the log."""
    engine = RocksDBEngine.open(tmp_path)
    engine.apply({b"k": b"v"}, PROCESS_CRASH)
    # No table can be written into a directory that is not there.
    tmp_path.rename(tmp_path.parent / "moved")
    engine.close()

    assert "left the last writes in its log" in caplog.text
    with RocksDBEngine.open(tmp_path.parent / "moved") as moved:
        assert moved.get(b"k") == b"v"


def test_opening_and_closing_leaks_no_thread_or_file(tmp_path: Path) -> None:
    """Hundreds of partitions come and go in one process."""
    for number in range(20):
        with RocksDBEngine.open(tmp_path) as engine:
            engine.apply({b"%d" % number: b""}, PROCESS_CRASH)
            next(engine.scan(b""))
            engine.snapshot()
        threads = len(list(Path("/proc/self/task").iterdir()))
        if number == 0:
            first = threads

    assert threads <= first


def _after(damaged: bytes) -> bytes:
    """Return the key of a row soon after *damaged*, in a block that is whole."""
    return b"%06d" % (int(damaged) + 50)


MEETINGS: dict[str, Callable[[EngineReader, bytes], object]] = {
    "a scan": lambda reader, damaged: list(reader.scan(b"", damaged + b"\0")),
    "a scan back": lambda reader, damaged: list(reader.scan(b"", _after(damaged), reverse=True)),
    "the first of a range": lambda reader, damaged: reader.first(damaged),
    "the last of a range": lambda reader, damaged: reader.last(b"", damaged + b"\0"),
}


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("meeting", MEETINGS)
def test_damage_that_one_reader_meets_is_not_told_to_the_next(tmp_path: Path, meeting: str) -> None:
    """A scan met a damaged block, and the next one raised as well, over rows that are whole.

    Reads share RocksDB's iterator, which tells of damage once more at its next seek. After a
    failure the next reader has one of its own, whichever read has failed.
    """
    with RocksDBEngine.open(str(tmp_path)) as engine:
        engine.apply({b"%06d" % each: os.urandom(100) for each in range(4000)}, PROCESS_CRASH)
        engine._database.flush()
        engine._database.compact_range(None, None)
    table = max(tmp_path.glob("*.sst"), key=lambda each: each.stat().st_size)
    data = bytearray(table.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(each ^ 0xFF for each in data[middle : middle + 64])
    table.write_bytes(data)
    seen: deque[tuple[bytes, bytes]] = deque()
    with (
        RocksDBEngine.open(str(tmp_path)) as engine,
        pytest.raises(StoreCorruptedError),
    ):
        seen.extend(engine.scan(b""))
    damaged = b"%06d" % (int(seen[-1][0]) + 1)
    with RocksDBEngine.open(str(tmp_path)) as engine:
        # What is in memory and what is in the file are merged: that is what keeps the error.
        engine.apply({b"in memory": b""}, PROCESS_CRASH)
        reads: list[Callable[[], object]] = [
            lambda: len(list(engine.scan(b"000000", b"000100"))),
            lambda: engine.first(b"000000"),
            lambda: engine.last(b"003900"),
        ]
        for read in reads:
            before = read()
            with pytest.raises(StoreCorruptedError):
                MEETINGS[meeting](engine, damaged)
            assert read() == before

        assert reads[0]() == 100
