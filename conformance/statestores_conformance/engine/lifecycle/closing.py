"""Closing an engine, with and without something left open."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import pytest

from statestores.errors import StateStoreError, StoreClosedError, StoreLockedError
from statestores.spi import Durability, Engine, EngineReader
from statestores_conformance.engine.interruption import home_of, interrupt
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    open_files_below,
    pairs_of,
)

_CALLS: dict[str, Callable[[Engine], object]] = {
    "get": lambda engine: engine.get(b"k"),
    "get_many": lambda engine: engine.get_many([b"k"]),
    "first": lambda engine: engine.first(b""),
    "last": lambda engine: engine.last(b""),
    "scan": lambda engine: next(engine.scan(b"")),
    "reverse scan": lambda engine: next(engine.scan(b"", reverse=True)),
    "scan of an empty range": lambda engine: next(engine.scan(b"b", b"a"), None),
    "first of an empty range": lambda engine: engine.first(b"b", b"a"),
    "get_many of nothing": lambda engine: engine.get_many([]),
    "apply": lambda engine: engine.apply({b"k": b"w"}, durability_of(engine)),
    "apply of nothing": lambda engine: engine.apply({}, durability_of(engine)),
    # Which of two errors comes first: nobody should look for a wrong batch where the store is gone.
    "apply of what is not bytes": lambda engine: engine.apply(
        cast("dict[bytes, bytes]", {"k": "w"}), durability_of(engine)
    ),
    "get of what is not bytes": lambda engine: engine.get(cast("bytes", "k")),
    "snapshot": lambda engine: engine.snapshot(),
    "approximate_num_keys": lambda engine: engine.approximate_num_keys(b""),
}


_MANY_SCANS = 100
_LONGEST_CLOSE_S = 0.5
"""An engine that lets nobody close it while it reads its keys is waited for no longer."""
_MOST_LINES_OF_CLOSE = 60
"""An engine that takes more of its own lines for closing is interrupted in so many."""


class BrokenKeys(Sequence[bytes]):
    """Keys that cannot be read."""

    def __len__(self) -> int:
        return 2

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        raise BrokenKeysError(f"key {index} cannot be read, as it should")


class ClosingKeys(Sequence[bytes]):
    """One key, which another thread closes *engine* before it is read."""

    def __init__(self, engine: Engine, threads: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._threads = threads

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        wait([self._threads.submit(self._engine.close)], timeout=_LONGEST_CLOSE_S)
        return [b"k"][index]


class BrokenKeysError(Exception):
    """What `BrokenKeys` raise; no engine knows it."""


_Asked = TypeVar("_Asked")


def _refuses(call: Callable[[_Asked], object], asked: _Asked) -> bool:
    """Return whether *call* of *asked*, an engine or what it has given, says that it is closed."""
    try:
        call(asked)
    except StoreClosedError:
        return True
    return False


class EngineClosingTests(EngineFixtures):
    """What a closed engine says, and what it leaves."""

    @pytest.mark.spec("ENG-10")
    def test_an_engine_knows_whether_it_is_open(self, engine: Engine) -> None:
        """`is_open` holds until `close`."""
        before = engine.is_open
        engine.close()

        assert [before, engine.is_open] == [True, False]

    @pytest.mark.spec("ENG-10")
    def test_an_engine_is_closed_once(self, engine: Engine) -> None:
        """Closing again is not an error."""
        engine.close()
        engine.close()

        assert not engine.is_open

    @pytest.mark.spec("ENG-10")
    def test_an_engine_closes_itself_at_the_end_of_its_block(self, engines: Engines) -> None:
        """An engine is a context manager."""
        with engines.open() as engine:
            assert engine.is_open

        assert not engine.is_open

    @pytest.mark.spec("ENG-1", "ENG-10")
    def test_closing_again_leaves_the_next_owner_alone(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine
    ) -> None:
        """Who has the path by then keeps its lock, and no file comes or goes below it."""
        persistent_engine.apply({b"k": b"v"}, durability_of(persistent_engine))
        persistent_engine.close()
        owner = engines.open()
        files = sorted(engines.path().rglob("*"))
        persistent_engine.close()

        assert sorted(engines.path().rglob("*")) == files
        with pytest.raises(StoreLockedError):
            open_engine(engines.path())
        owner.apply({b"k": b"w"}, durability_of(owner))
        assert pairs_of(owner) == [(b"k", b"w")]

    @pytest.mark.spec("ENG-10", "ENG-19")
    def test_a_close_that_was_interrupted_can_be_repeated(
        self, engines: Engines, engine: Engine
    ) -> None:
        """Ctrl-C at any of its lines: closing again finishes it, and what was written is there.

        With a scan and a snapshot left open, as an interrupt leaves them.
        """
        home = home_of(engine)
        engine.close()
        for line in range(1, _MOST_LINES_OF_CLOSE, 2):
            opened = engines.open(f"interrupted at {line}")
            opened.apply({b"k": b"v"}, durability_of(opened))
            snapshot = opened.snapshot()
            held = [opened.scan(b""), snapshot.scan(b"")]
            interrupted = interrupt(opened.close, home, line)
            opened.close()

            assert not opened.is_open
            assert [scan for scan in held if not _refuses(next, scan)] == []
            if opened.capabilities.persistent:
                with engines.open(f"interrupted at {line}") as again:
                    assert pairs_of(again) == [(b"k", b"v")]
            if not interrupted:
                break

    @pytest.mark.spec("ENG-22")
    def test_a_closed_engine_refuses_every_call(self, engine: Engine) -> None:
        """Every read and every write raises, even those that would have nothing to do.

        It has answered the same reads before: what it keeps for the next ones is closed as well.
        """
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        assert [engine.first(b""), engine.last(b"")] == [(b"k", b"v")] * 2
        engine.close()

        assert [name for name, call in _CALLS.items() if not _refuses(call, engine)] == []

    @pytest.mark.spec("ENG-10", "ENG-22", "ENG-28")
    def test_a_read_that_meets_the_close_is_answered_or_refused(self, engines: Engines) -> None:
        """Another thread closes the engine between the call and the driver's part of it."""
        for kind in ("engine", "snapshot"):
            engine = engines.open(kind)
            engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
            reader: EngineReader = engine if kind == "engine" else engine.snapshot()
            with ThreadPoolExecutor(1) as threads:
                found: list[bytes | None] = [b"v"]
                with suppress(StoreClosedError):
                    found = reader.get_many(ClosingKeys(engine, threads))

            assert found == [b"v"]
            assert not engine.is_open

    @pytest.mark.spec("ENG-10")
    def test_a_scan_over_a_closed_engine_raises(self, engine: Engine) -> None:
        """An open scan raises at its next step; it never ends as if there were no more data.

        It was only called, or begun, or at its last pair, in either direction.
        """
        engine.apply({b"%d" % number: b"v" for number in range(5)}, Durability.PROCESS_CRASH)
        scans = {
            (steps, reverse): engine.scan(b"", reverse=reverse)
            for steps in (0, 1, 5)
            for reverse in (False, True)
        }
        for (steps, _), scan in scans.items():
            for _ in range(steps):
                next(scan)
        engine.close()

        assert [which for which, scan in scans.items() if not _refuses(next, scan)] == []

    @pytest.mark.spec("ENG-10")
    def test_a_long_scan_over_a_closed_engine_raises(self, engine: Engine) -> None:
        """Nothing that was read ahead is returned after the engine was closed."""
        engine.apply({b"%05d" % number: b"v" for number in range(5_000)}, Durability.PROCESS_CRASH)
        scan = engine.scan(b"")
        for _ in range(1_500):
            next(scan)
        engine.close()
        with pytest.raises(StoreClosedError):
            next(scan)

    @pytest.mark.spec("ENG-10")
    def test_a_snapshot_of_a_closed_engine_raises(self, engine: Engine) -> None:
        """Every read of a snapshot left open raises, and closing it is still allowed."""
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        scan = snapshot.scan(b"")
        engine.close()
        for read in (
            lambda: snapshot.get(b"k"),
            lambda: snapshot.get_many([b"k"]),
            lambda: snapshot.first(b""),
            lambda: snapshot.last(b""),
            lambda: next(snapshot.scan(b"")),
            lambda: next(scan),
        ):
            with pytest.raises(StoreClosedError):
                read()
        snapshot.close()

    @pytest.mark.spec("ENG-3", "ENG-10", "ENG-19")
    def test_what_was_left_open_does_not_keep_the_lock(
        self, engines: Engines, engine: Engine
    ) -> None:
        """With scans and snapshots still held, the closed engine can be reopened immediately.

        So it can while somebody handles the error of a read, whose traceback holds what it was in:
        an error of the caller's own comes out as it is.
        """
        engine.apply({b"%d" % number: b"v" for number in range(5)}, Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        held = [engine.scan(b""), engine.scan(b"", reverse=True), snapshot.scan(b"")]
        # So many that an engine that sorts out the finished ones has done so.
        for _ in range(_MANY_SCANS):
            list(engine.scan(b""))
            held.append(engine.scan(b""))
        for scan in held:
            next(scan)
        errors: list[BaseException] = []
        for reader in (engine, snapshot):
            with pytest.raises(BrokenKeysError) as broken:
                reader.get_many(BrokenKeys())
            errors.append(broken.value)
            for read in (reader.get, reader.get_many, reader.first, reader.last):
                try:
                    read(cast("Any", ["text"]))
                except (TypeError, StateStoreError) as error:
                    errors.append(error)
        engine.close()

        assert [scan for scan in held if not _refuses(next, scan)] == []
        assert engines.open().is_open
        assert all(error.__traceback__ for error in errors)

    @pytest.mark.spec("ENG-19")
    def test_closing_leaves_no_file_open(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """Opening and closing fifty times leaves no descriptor, with scans left open each time.

        And with snapshots: whoever has one still holds it when the engine is gone.
        """
        held = []
        snapshots = []
        for number in range(50):
            opened = open_engine(tmp_path / "again")
            opened.apply({b"%03d" % number: b"v"}, Durability.PROCESS_CRASH)
            held.append(opened.scan(b""))
            next(held[-1])
            snapshots.append(opened.snapshot())
            opened.close()

        assert open_files_below(tmp_path / "again") == []
        assert [each for each in snapshots if not _refuses(lambda old: old.get(b"000"), each)] == []
        with open_engine(tmp_path / "again") as last:
            assert len(pairs_of(last)) == len(held)
