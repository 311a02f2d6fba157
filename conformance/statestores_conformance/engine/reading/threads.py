"""Reading an engine from many threads while one applies batches."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import pairwise

import pytest

from statestores.errors import StoreClosedError
from statestores.spi import Durability, Engine, EngineReader, EngineSnapshot
from statestores_conformance.engine.interruption import act_within, home_of
from statestores_conformance.subjects.engines import EngineFixtures, Engines
from statestores_conformance.subjects.reading_threads import READERS, reading_threads

_BATCHES = 100
_KEYS = [b"%03d" % number for number in range(40)]
_LARGE = b"large" * (2 * 1024 * 1024)
_CLOSINGS = 3
_REPEATED = 4
"""How often a key is in a request that takes some time."""
"""How often an engine is closed while others read it: a read may just not be where it harms."""
_PATIENCE_SECONDS = 60.0
"""Only a reader that waits for ever reaches it."""


def _scan(reader: EngineReader) -> set[bytes | None]:
    return {value for _, value in reader.scan(b"0", b"1")}


def _reverse_scan(reader: EngineReader) -> set[bytes | None]:
    return {value for _, value in reader.scan(b"0", b"1", reverse=True)}


def _get_many(reader: EngineReader) -> set[bytes | None]:
    return set(reader.get_many(_KEYS))


def _gets(reader: EngineReader) -> set[bytes | None]:
    return {reader.get(key) for key in _KEYS}


def _ends(reader: EngineReader) -> set[bytes | None]:
    ends = (reader.first(b"0", b"1"), reader.last(b"0", b"1"))
    return {pair[1] if pair else None for pair in ends}


_FEW = {b"%03d" % number: b"v" for number in range(20)}
_PAIRS = sorted(_FEW.items())
_MOST_LINES = 200
"""More lines of its own than an engine takes for a read, or to begin one."""
_LET_IN_SECONDS = 0.05
"""Whoever is kept out for so long is let in when the read is over."""

_Read = Callable[[Engine, EngineSnapshot], object]

_READS: dict[str, tuple[_Read, object]] = {
    "get": (lambda engine, _: engine.get(_PAIRS[0][0]), b"v"),
    "first": (lambda engine, _: engine.first(b""), _PAIRS[0]),
    "scan": (lambda engine, _: engine.scan(b""), None),
    "snapshot": (lambda engine, _: engine.snapshot(), None),
    "scan of a snapshot": (lambda _, snapshot: snapshot.scan(b""), None),
}
"""Reads and what they give, where it is not something to go on with."""


def _closed_at(line: int, read: _Read, expected: object, engines: Engines, home: str) -> bool:
    """Let another thread close an engine at *line* of a *read*; return whether it has so many."""
    engine = engines.open("closed between")
    if engine.get(_PAIRS[0][0]) is None:
        engine.apply(dict(_FEW), Durability.PROCESS_CRASH)
    snapshot = engine.snapshot()
    closing: list[Future[None]] = []
    got: list[object] = []
    with ThreadPoolExecutor(1) as elsewhere:

        def close() -> None:
            closing.append(elsewhere.submit(engine.close))
            wait(closing, _LET_IN_SECONDS)

        with suppress(StoreClosedError):
            act_within(lambda: got.append(read(engine, snapshot)), home, line, close)
    for each in closing:
        each.result()
    if not closing:
        engine.close()
    for found in got:
        if isinstance(found, EngineSnapshot):
            with pytest.raises(StoreClosedError):
                found.get(b"k")
        elif isinstance(found, Iterator):
            with pytest.raises(StoreClosedError):
                next(found)
        else:
            assert found == expected
    assert engines.files_left_open() == []
    return bool(closing)


@pytest.mark.level("concurrent")
class EngineThreadTests(EngineFixtures):
    """Each batch sets all keys to one number, so a reader can tell whether it saw a whole one."""

    def _read_while_writing(self, engine: Engine, read: Callable[[], None]) -> None:
        """Apply batches in this thread while others repeat *read*, each at least once."""
        engine.apply(dict.fromkeys(_KEYS, b"%06d" % 0), Durability.PROCESS_CRASH)
        with reading_threads(read):
            for number in range(1, _BATCHES):
                batch = dict.fromkeys(_KEYS, b"%06d" % number)
                engine.apply({**batch, b"x%d" % number: b""}, Durability.PROCESS_CRASH)

    @pytest.mark.spec("ENG-11")
    @pytest.mark.parametrize("scan", [_scan, _reverse_scan], ids=["forward", "reverse"])
    def test_a_scan_sees_whole_batches(
        self, engine: Engine, scan: Callable[[EngineReader], set[bytes | None]]
    ) -> None:
        """All pairs of a scan come from the same batch."""

        def read() -> None:
            assert len(scan(engine)) == 1

        self._read_while_writing(engine, read)

    @pytest.mark.spec("ENG-5", "ENG-11")
    def test_an_end_is_a_pair_of_one_batch(self, engine: Engine) -> None:
        """Key and value are found together: each batch deletes the only key and puts another."""

        def read() -> None:
            for pair in (engine.first(b"k"), engine.last(b""), engine.last(b"k", b"l")):
                assert pair is not None
                assert pair[0][1:] == pair[1]

        numbers = [b"%03d" % number for number in range(3 * _BATCHES)]
        engine.apply({b"k" + numbers[0]: numbers[0]}, Durability.PROCESS_CRASH)
        with reading_threads(read):
            for before, number in pairwise(numbers):
                batch = {b"k" + before: None, b"k" + number: number}
                engine.apply(batch, Durability.PROCESS_CRASH)

    @pytest.mark.parametrize(
        "kind",
        [_scan, _reverse_scan, _get_many, _gets, _ends],
        ids=["scan", "reverse", "get_many", "get", "first-last"],
    )
    @pytest.mark.spec("ENG-9", "ENG-11")
    def test_a_snapshot_is_of_one_batch(
        self, engine: Engine, kind: Callable[[EngineReader], set[bytes | None]]
    ) -> None:
        """Every read of one snapshot sees the same batch, repeatedly."""

        def read() -> None:
            with engine.snapshot() as snapshot:
                assert len(kind(snapshot) | kind(snapshot)) == 1

        self._read_while_writing(engine, read)

    @pytest.mark.spec("ENG-11")
    def test_a_value_never_goes_back(self, engine: Engine) -> None:
        """A thread that keeps reading a key sees its numbers ascend."""
        seen = threading.local()

        def read() -> None:
            value = engine.get(_KEYS[0])

            assert value is not None
            assert value >= getattr(seen, "value", b"")
            seen.value = value

        self._read_while_writing(engine, read)

    @pytest.mark.spec("ENG-8", "ENG-11")
    def test_what_one_thread_applied_all_threads_see(self, engine: Engine) -> None:
        """A read that begins after `apply` returned sees the batch, in any thread."""
        with ThreadPoolExecutor(READERS) as threads:
            for number in range(50):
                value = b"%d" % number
                engine.apply({b"k": value}, Durability.PROCESS_CRASH)
                reads = [threads.submit(engine.get, b"k") for _ in range(READERS)]

                assert [read.result() for read in reads] == [value] * READERS

    @pytest.mark.spec("ENG-10", "ENG-11")
    def test_closing_while_others_read_ends_their_reads(self, engines: Engines) -> None:
        """Readers get whole answers until `close`, and `StoreClosedError` from then on.

        Of the engine and of a snapshot that is left open, of a value that takes long to read, and
        of many. And the engine is closed then, and no reader holds it.
        """
        for number in range(_CLOSINGS):
            name = f"engine-{number}"
            self._close_while_others_read(engines.open(name))

            assert engines.open(name).is_open

    @pytest.mark.spec("ENG-10", "ENG-11", "ENG-19")
    def test_a_close_between_any_two_lines_of_a_read_ends_it(
        self, engines: Engines, engine: Engine
    ) -> None:
        """It gives what was there, or raises; what it gives to go on with is closed.

        Another thread closes the engine at each line of the read in turn, unless the read keeps it
        out for as long as it lasts. Nobody holds the engine then.
        """
        home = home_of(engine)
        engine.close()
        for name, (read, expected) in _READS.items():
            line = 1
            while _closed_at(line, read, expected, engines, home):
                line += 1

                assert line < _MOST_LINES, f"{name} does not end"

    @staticmethod
    def _close_while_others_read(engine: Engine) -> None:
        engine.apply({**dict.fromkeys(_KEYS, b"v"), b"large": _LARGE}, Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        under_way = threading.Semaphore(0)

        def read_until_closed(reader: EngineReader) -> bool:
            while True:
                try:
                    assert [key for key, _ in reader.scan(b"", b"1")] == _KEYS
                    assert reader.get(_KEYS[0]) == b"v"
                    assert reader.get_many([b"large"] * _REPEATED) == [_LARGE] * _REPEATED
                    for _ in range(2):
                        assert reader.get(b"large") == _LARGE
                        under_way.release()
                except StoreClosedError:
                    return True

        with ThreadPoolExecutor(READERS) as threads:
            readers = [
                threads.submit(read_until_closed, (snapshot, engine)[number % 2])
                for number in range(READERS)
            ]
            try:
                for _ in readers:
                    assert under_way.acquire(timeout=_PATIENCE_SECONDS)
            finally:
                engine.close()

            assert all(reader.result() for reader in readers)
