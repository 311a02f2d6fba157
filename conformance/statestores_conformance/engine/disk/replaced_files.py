"""Something else in the place of a file: found, never passed on as data, and never a hole."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.engine.disk.altered_files import bytes_of
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.intensity import seed
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    Pairs,
    durability_of,
    open_files_below,
    pairs_of,
)

_SEED = seed(20261127)
_BATCHES = 20
_FIRST_LIFE = 18
"""How many of the batches are applied in the first of two lives."""
_VALUE_BYTES = 400
"""The length of the one value of a batch, of which nothing can be left out: it is random."""
_LONGEST_WAIT_S = 20.0
"""Nobody comes to a pipe sooner, so that no slow opening is taken for one that waits."""
_NONSENSE = b"\xa5" * 4096
_TOLD_BY = 16
"""So many bytes of a value in a file, and the file has it."""


def _make_a_directory(file: Path) -> None:
    """Put a directory in the place of *file*."""
    file.unlink()
    file.mkdir()


class _Loss(NamedTuple):
    """What may have become of a file whose end is lost."""

    kept: Callable[[int], int]
    """How much of a length is still there."""
    instead: bytes = b""
    """What is there for each byte that is not."""

    def befall(self, file: Path) -> int:
        """Damage *file* and return how many bytes it has lost."""
        size = file.stat().st_size
        kept = max(0, self.kept(size))
        os.truncate(file, kept)
        with file.open("ab") as opened:
            opened.write(self.instead * (size - kept))
        return size - kept


_GONE: dict[str, Callable[[Path], None]] = {"is gone": Path.unlink, "is a dir": _make_a_directory}
"""What the system refuses to read. Of a directory it says not why, and of what is gone it does: no
room on the disk brings it back."""

_LOSSES = {
    "is of empty lines": _Loss(lambda _: 0, b"\n"),
    "lacks a byte": _Loss(lambda size: size - 1),
    "lacks 7 bytes": _Loss(lambda size: size - 7),
    "lacks 100 bytes": _Loss(lambda size: size - 100),
    "lacks a half": _Loss(lambda size: size // 2),
    "has zeros in its second half": _Loss(lambda size: size // 2, b"\0"),
}
"""What an editor leaves of a file, and what a system that lost the power."""


class ReplacedFileTests(EngineFixtures):
    """What an engine that finds damage does where a file is not what it was."""

    @pytest.mark.spec("ENG-14", "ENG-19", "ENG-28", "ENG-32")
    def test_what_is_in_a_file_s_place_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Nothing, a directory, or a file without its end: an error, or what was written.

        A file without its end may be a log that is torn (ENG-32), and cost batches: not more of
        them than can have been in what is lost. However short the file is: a name in a few bytes
        may be all that leads to the others. A file that is gone is never a hole, also before a
        second life, whose opening may move what a log had to other files. Nobody holds what was
        refused.
        """
        lives = _lives(engines, checking, open_engine, tmp_path)
        for source, (how, damage) in product((lives.first, lives.second), _GONE.items()):
            if source is lives.first and damage is not Path.unlink:
                continue
            refusal = StoreCorruptedError if damage is Path.unlink else StateStoreError
            for damaged in _copies(source.path, f"{how}, {source.path.name}", tmp_path):
                damage(damaged.file)
                found = damaged.content_or_error(open_engine)

                assert found == source.states[-1] or isinstance(found, refusal), damaged
        for life, (how, loss) in product((lives.second, lives.idle), _LOSSES.items()):
            for damaged in _copies(life.path, how, tmp_path):
                if life is lives.idle and not life.has_pairs(damaged.file.read_bytes()):
                    continue
                lost = loss.befall(damaged.file)
                found = damaged.content_or_error(open_engine)
                allowed = life.states[-1 - -(-lost // _VALUE_BYTES) :]

                assert found in allowed or isinstance(found, StoreCorruptedError), damaged

    @pytest.mark.spec("ENG-14", "ENG-28")
    def test_a_pipe_in_a_file_s_place_is_not_waited_for(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Nobody writes into it: an error of ours, or what was written, and no endless opening."""
        if not hasattr(os, "mkfifo"):
            pytest.skip("the system has no named pipes")
        checking.apply({b"k": b"v"}, durability_of(checking))
        checking.close()
        for damaged in _copies(engines.path(), "is a pipe", tmp_path):
            damaged.file.unlink()
            os.mkfifo(damaged.file)
            with _somebody_at(damaged.file) as waited_for:
                found = damaged.content_or_error(open_engine)

            assert not waited_for, damaged.file.name
            assert found == [(b"k", b"v")] or isinstance(found, StateStoreError), damaged

    @pytest.mark.spec("ENG-14", "ENG-31")
    def test_a_file_that_is_left_is_not_a_new_engine(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Where one file with pairs is left of all, an engine that begins anew would remove it."""
        lives = _lives(engines, checking, open_engine, tmp_path)
        for life in (lives.first, lives.second, lives.left, lives.idle):
            for name, data in bytes_of(life.path).items():
                if not life.has_pairs(data):
                    continue
                alone = tmp_path / f"{life.path.name}, {name.replace(os.sep, '-')} alone"
                (alone / name).parent.mkdir(parents=True)
                (alone / name).write_bytes(data)
                found = _content_or_error(alone, open_engine)

                # Of a process that died, the rest of the content may be in what is gone (ENG-48).
                allowed = life.states[1:] if life is lives.left else life.states[-1:]
                assert found in allowed or isinstance(found, StateStoreError), alone.name

    @pytest.mark.spec("ENG-48", "ENG-28")
    def test_a_file_that_a_living_engine_lost_is_never_a_hole(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Somebody has copied a main file without its log, or cleaned up what ends in *.log*.

        Also of an engine that was closed once, and before anything was moved from its log.
        """
        lives = _lives(engines, checking, open_engine, tmp_path)
        for life in (lives.left, lives.left_again):
            for damaged in _copies(life.path, f"lost by what was {life.path.name}", tmp_path):
                damaged.file.unlink()
                found = damaged.content_or_error(open_engine)

                assert found == life.states[-1] or isinstance(found, StoreCorruptedError), damaged

    @pytest.mark.spec("ENG-48")
    def test_a_file_that_was_lost_after_a_long_read_is_never_a_hole(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Somebody read what was there before, when the first batch of this life was applied."""
        checking.apply({b"first": b"v"}, durability_of(checking))
        checking.close()
        engine = engines.open()
        with engine.snapshot() as snapshot:
            assert snapshot.get(b"first") == b"v"
            engine.apply({b"second": b"v"}, durability_of(engine))
        engine.apply({b"third": b"v"}, durability_of(engine))
        content = pairs_of(engine)
        left = killed_copy(engines.path(), tmp_path / "left")
        for damaged in _copies(left, "lost", tmp_path):
            damaged.file.unlink()
            found = damaged.content_or_error(open_engine)

            assert found == content or isinstance(found, StoreCorruptedError), damaged

    @pytest.mark.spec("ENG-14", "ENG-28")
    def test_nonsense_without_a_file_is_our_error(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """One file of a dead process is gone, and none of the others can be read."""
        checking.apply({b"k": b"v"}, durability_of(checking))
        left = killed_copy(engines.path(), tmp_path / "left")
        for damaged in _copies(left, "all but", tmp_path):
            damaged.file.unlink()
            for name in bytes_of(damaged.directory):
                (damaged.directory / name).write_bytes(_NONSENSE)

            assert isinstance(damaged.content_or_error(open_engine), StateStoreError), damaged

    @pytest.mark.spec("ENG-47", "ENG-28")
    def test_a_file_that_is_put_back_is_read(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Whatever comes of an opening without one file, also of one that died before it wrote."""
        lives = _lives(engines, checking, open_engine, tmp_path)
        for life in (lives.second, lives.idle):
            for damaged in _copies(life.path, f"was away, {life.path.name}", tmp_path):
                away = damaged.file.rename(tmp_path / "away")
                damaged.content_or_error(open_engine)
                away.replace(damaged.file)

                assert damaged.content_or_error(open_engine) == life.states[-1], damaged


class _Life(NamedTuple):
    """The files of an engine, and its content after none, one, two... of its batches."""

    path: Path
    states: list[Pairs]

    def has_pairs(self, data: bytes) -> bool:
        """Whether *data* of a file has a value in it, or a part of one."""
        return any(value[:_TOLD_BY] in data for _, value in self.states[-1])


class _Lives(NamedTuple):
    """What an engine leaves."""

    first: _Life
    """Closed once."""
    second: _Life
    """Opened again, and closed once more."""
    left: _Life
    """As a process leaves it that dies."""
    left_again: _Life
    """As one leaves it that has opened it for a second time."""
    idle: _Life
    """As one leaves it that has opened it for a third time, and dies before its first batch."""


def _lives(engines: Engines, engine: Engine, open_engine: OpenEngine, root: Path) -> _Lives:
    """Apply batches to *engine*, and keep copies of its lives below *root*."""
    chance = random.Random(_SEED)  # noqa: S311  # repeatable
    states = [Pairs()]
    for number in range(_BATCHES):
        if number == _FIRST_LIFE:
            shutil.copytree(engines.path(), root / "left")
            engine.close()
            shutil.copytree(engines.path(), root / "first life")
            engine = engines.open()
        batch = {b"%02d" % (number * 7 % _BATCHES): chance.randbytes(_VALUE_BYTES)}
        engine.apply(batch, durability_of(engine))
        states.append(pairs_of(engine))
    shutil.copytree(engines.path(), root / "left again")
    engine.close()
    third = shutil.copytree(engines.path(), root / "third life")
    with open_engine(third):
        shutil.copytree(third, root / "idle")
    before = states[: _FIRST_LIFE + 1]
    return _Lives(
        first=_Life(root / "first life", before),
        second=_Life(engines.path(), states),
        left=_Life(root / "left", before),
        left_again=_Life(root / "left again", states),
        idle=_Life(root / "idle", states),
    )


class _Copy(NamedTuple):
    """A copy of an engine's directory, and the file in it that is to be damaged."""

    file: Path
    directory: Path

    def content_or_error(self, open_engine: OpenEngine) -> Pairs | StateStoreError:
        """Return what is in it; nobody holds it from then on."""
        return _content_or_error(self.directory, open_engine)


def _copies(engine: Path, how: str, to: Path) -> Iterator[_Copy]:
    """Yield a copy of *engine* for each file that has something in it."""
    for number, (name, data) in enumerate(sorted(bytes_of(engine).items())):
        if data:
            copy = shutil.copytree(engine, to / f"{number} {how}")
            yield _Copy(copy / name, copy)
            shutil.rmtree(copy)


@contextmanager
def _somebody_at(pipe: Path) -> Iterator[list[Path]]:
    """Come to *pipe* after a while and leave again, which ends a wait for it; note it then."""
    came: list[Path] = []

    def come() -> None:
        came.append(pipe)
        with suppress(FileNotFoundError):  # who has waited for it may have removed it
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    timer = Timer(_LONGEST_WAIT_S, come)
    timer.start()
    try:
        yield came
    finally:
        timer.cancel()
        timer.join()


def _content_or_error(engine: Path, open_engine: OpenEngine) -> Pairs | StateStoreError:
    """Return what is in *engine*, or the error of opening or reading it, with its traceback."""
    found: Pairs | StateStoreError
    try:
        with open_engine(engine) as opened:
            found = pairs_of(opened)
    except StateStoreError as error:
        found = error

    assert open_files_below(engine) == []
    return found
