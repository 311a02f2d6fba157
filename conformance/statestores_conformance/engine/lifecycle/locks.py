"""Opening: directories that are missing, directories that are taken, options that are wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import InvalidOptionError, StateStoreError, StoreLockedError
from statestores.files.directory_lock import LOCK_FILE
from statestores.spi import Durability, Engine
from statestores_conformance.engine.interruption import home_of, interrupt
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    open_into,
    pairs_of,
)
from statestores_conformance.subjects.openers import options_of

_HOLD = """
import json, sys
from statestores.registry import load_backend
name, path, options = json.loads(sys.argv[1])
engine = load_backend(name).open(path, options)
print("open", flush=True)
sys.stdin.read()
"""
"""A program that opens an engine and holds it until its standard input ends."""

_TRY = """
import json, sys
from statestores.errors import StoreLockedError
from statestores.registry import load_backend
name, paths, options = json.loads(sys.argv[1])
for path in paths:
    try:
        load_backend(name).open(path, options)
    except StoreLockedError:
        print("locked")
    else:
        print("open")
"""
"""A program that tries to open an engine by several names."""

_MOST_LINES_OF_OPEN = 300
"""An engine that takes more of its own lines for opening is interrupted in so many."""


def import_path_of(engine: Engine) -> str:
    """Return ``module:Class`` of *engine*, by which another process finds it."""
    return f"{type(engine).__module__}:{type(engine).__qualname__}"


def hold_elsewhere(
    engine: Engine, path: Path, options: Mapping[str, Any]
) -> "subprocess.Popen[str]":
    """Start a process that holds the engine at *path* open; it ends with its standard input."""
    arguments = json.dumps([import_path_of(engine), str(path), options])
    owner = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-c", _HOLD, arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    return owner


class EngineOpeningTests(EngineFixtures):
    """Where an engine opens, and with which options."""

    @pytest.mark.spec("ENG-17")
    def test_opening_creates_what_is_missing(self, open_engine: OpenEngine, tmp_path: Path) -> None:
        """The directory and its parents need not exist; what is opened is empty."""
        with open_engine(tmp_path / "not" / "yet" / "there") as engine:
            assert pairs_of(engine) == []

    @pytest.mark.spec("ENG-17")
    def test_opening_takes_an_empty_directory(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """A directory that exists and is empty is where an engine may be created."""
        (tmp_path / "empty").mkdir()
        with open_engine(tmp_path / "empty") as engine:
            assert pairs_of(engine) == []

    @pytest.mark.spec("ENG-17", "ENG-19")
    def test_an_opening_that_was_interrupted_can_be_repeated(
        self, engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Ctrl-C between its lines: the next opening finishes what that has made of a new engine.

        Nobody holds it. A descriptor may stay open where its number was all that there was of it.
        """
        home = home_of(engine)
        beside = tmp_path.with_name(f"{tmp_path.name}-interrupted")
        for line in range(1, _MOST_LINES_OF_OPEN, 2):
            path = beside / str(line)
            opened: list[Engine] = []
            interrupted = interrupt(partial(open_into, opened, open_engine, path), home, line)
            for each in opened:
                each.close()
            with open_engine(path) as again:
                assert pairs_of(again) == []
                again.apply({b"k": b"v"}, durability_of(again))
                assert pairs_of(again) == [(b"k", b"v")]
            if not interrupted:
                break

    @pytest.mark.spec("ENG-13")
    def test_an_unknown_option_is_refused_by_name(
        self, engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """A mistyped option is an error that names it, not a default that works."""
        options = {**options_of(open_engine), "no_such_option": "1"}
        with pytest.raises(InvalidOptionError, match="no_such_option"):
            type(engine).open(tmp_path / "refused", options)

    @pytest.mark.spec("ENG-13", "ENG-19")
    def test_a_refused_option_leaves_no_lock(
        self, engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """After the error, the same directory opens with the right options."""
        options = {**options_of(open_engine), "no_such_option": "1"}
        with pytest.raises(InvalidOptionError):
            type(engine).open(tmp_path / "refused", options)
        with open_engine(tmp_path / "refused") as opened:
            assert opened.is_open

    @pytest.mark.spec("ENG-28")
    def test_a_directory_that_cannot_be_made_is_our_error(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """If a file is in the way, the error is from the tree and not the driver's."""
        (tmp_path / "file").write_bytes(b"in the way")
        with pytest.raises(StateStoreError):
            open_engine(tmp_path / "file" / "engine")

        assert (tmp_path / "file").read_bytes() == b"in the way"


class EngineLockTests(EngineFixtures):
    """The exclusive lock of a persistent engine."""

    @pytest.fixture
    def owner(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine
    ) -> Iterator["subprocess.Popen[str]"]:
        """Give another process that holds the engine open."""
        persistent_engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        persistent_engine.close()
        options = options_of(open_engine)
        with hold_elsewhere(persistent_engine, engines.path(), options) as owner:
            try:
                yield owner
            finally:
                owner.kill()

    @pytest.mark.spec("ENG-1")
    def test_a_second_opening_in_one_process_is_refused(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """The error names this process, its host and a time, and can be retried."""
        with pytest.raises(StoreLockedError) as refused:
            engines.open()

        assert str(os.getpid()) in str(refused.value)
        assert socket.gethostname() in str(refused.value)
        assert refused.value.retryable

    @pytest.mark.spec("ENG-1")
    def test_a_refused_opening_does_not_disturb_the_owner(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """The owner goes on reading and writing, and still holds the lock."""
        for number in range(3):
            with pytest.raises(StoreLockedError):
                engines.open()
            persistent_engine.apply({b"%d" % number: b"v"}, Durability.PROCESS_CRASH)

        assert pairs_of(persistent_engine) == [(b"%d" % number, b"v") for number in range(3)]

    @pytest.mark.spec("ENG-1")
    def test_an_opening_in_another_process_is_refused(
        self, engines: Engines, owner: "subprocess.Popen[str]"
    ) -> None:
        """The error names the process that holds the engine.

        One whose lock file was removed, or that uses the driver without ours, cannot be named; if
        the driver has a lock of its own, its refusal is told as what it is.
        """
        with pytest.raises(StoreLockedError, match=str(owner.pid)):
            engines.open()
        (engines.path() / LOCK_FILE).unlink(missing_ok=True)
        with suppress(StoreLockedError):
            engines.open().close()

    @pytest.mark.spec("ENG-1", "ENG-19")
    def test_the_lock_ends_with_close(
        self, engines: Engines, owner: "subprocess.Popen[str]"
    ) -> None:
        """Once the owner has ended normally, the next opening succeeds."""
        owner.communicate("")

        assert pairs_of(engines.open()) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-1")
    def test_the_lock_of_a_killed_process_is_not_stale(
        self, engines: Engines, owner: "subprocess.Popen[str]"
    ) -> None:
        """Nobody has to remove a lock file after ``kill -9``."""
        owner.send_signal(signal.SIGKILL)
        owner.wait()

        assert pairs_of(engines.open()) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-1")
    def test_a_directory_has_one_owner_whatever_it_is_called(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """By a link to it or to what it is in, or by a way round: it is the same directory.

        What is refused here lets nobody in from another process: a lock of `fcntl` is gone once its
        process closes any descriptor of the file.
        """
        path = engines.path()
        (tmp_path / "link").symlink_to(path)
        (tmp_path / "above").symlink_to(tmp_path)
        (tmp_path / "by").mkdir()
        names = [
            path,
            tmp_path / "link",
            tmp_path / "above" / path.name,
            tmp_path / "by/.." / path.name,
        ]
        for name in names:
            with pytest.raises(StoreLockedError):
                open_engine(name)
        options = options_of(open_engine)
        arguments = json.dumps([import_path_of(persistent_engine), list(map(str, names)), options])
        tried = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _TRY, arguments], capture_output=True, text=True, check=False
        )

        assert tried.stdout.split() == ["locked"] * len(names), tried.stderr
        assert persistent_engine.is_open

    @pytest.mark.spec("ENG-1")
    def test_an_owner_does_not_lock_its_neighbours(
        self, engines: Engines, persistent_engine: Engine
    ) -> None:
        """The lock is on one directory: another beside it, or inside its parent, is free."""
        assert engines.open("neighbour").is_open
        assert persistent_engine.is_open
