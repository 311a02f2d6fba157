"""Engines that nobody closes: their process ends as usual, or nobody has them any more.

A process that is killed runs nothing more. One that ends runs what an engine, or its driver, has
for that; so does one that drops an engine. None of it may cost what was applied.
"""

import gc
import json
import shutil
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from statestores.errors import StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.engine.disk.altered_files import bytes_of
from statestores_conformance.engine.disk.process_limits import file_size
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    OpenEngine,
    durability_of,
    open_into,
    pairs_of,
)
from statestores_conformance.subjects.openers import options_of

_BEFORE = {b"before-%02d" % number: b"v" * 100 for number in range(20)}
_PAIR = {b"last": b"l"}
_MUCH = {b"much-%03d" % number: b"m" * 50_000 for number in range(70)}
"""More than some engines leave in a log."""
_LITTLE_ROOM = 1_000
"""Less than the pages of a file have."""
_ENDS = [(_PAIR, None), (_MUCH, _LITTLE_ROOM)]
"""What is applied at the end of a life, and how long a file may become when that is over."""
_PATIENCE_SECONDS = 60.0

_END = """
import json, os, shutil, sys
from statestores.registry import load_backend
from statestores.spi import Durability

name, path, left, options, forks = json.loads(sys.argv[1])
engine, idle = (load_backend(name).open(place, options) for place in (path, left))
engine.apply({b"0": b"v"}, Durability.PROCESS_CRASH)
if forks:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
# So much that what a log has is moved to other files, and then what is in the log alone.
for number in range(1, 3):
    many = {b"%d-%03d" % (number, row): b"v" * 30_000 for row in range(100)}
    engine.apply(many, Durability.PROCESS_CRASH)
engine.apply({b"5": b"v"}, Durability.PROCESS_CRASH)
snapshot = engine.snapshot()
held = [engine.scan(b""), snapshot.scan(b"")]
print(json.dumps([next(scan)[0].decode() for scan in held]))
shutil.copytree(path, f"{path}, before its end")
"""
"""A program that ends with two engines open; with *forks*, after a child that has ended so."""
_END_KEYS = [
    b"0",
    *sorted(b"%d-%03d" % (number, row) for number in range(1, 3) for row in range(100)),
    b"5",
]


@pytest.mark.level("crash-proof")
class EngineUnclosedTests(EngineFixtures):
    """What is there when somebody has forgotten to close an engine.

    The engine's class must be importable, and its options are those that `options_of` finds.
    """

    @pytest.mark.spec("ENG-8", "ENG-19", "ENG-27")
    def test_a_process_that_ends_without_closing_loses_nothing(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Every batch is there, and the lock is free.

        So it is with an engine that the process has opened after a dead one, and only opened.
        """
        path, left = _end(persistent_engine, open_engine, tmp_path, forks=False)
        for place, keys in ((path, _END_KEYS), (left, sorted(_BEFORE))):
            _check_life(place, keys, open_engine)

    @pytest.mark.spec("ENG-8", "ENG-37", "ASM-9")
    def test_a_child_that_ends_takes_nothing_from_its_parent(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """It was forked with the engine open, and ends as a process does that knows nothing of it.

        What the parent has applied is there, before it and after it, and before the parent ends.
        """
        path, _ = _end(persistent_engine, open_engine, tmp_path, forks=True)
        for place in (path.with_name(f"{path.name}, before its end"), path):
            _check_life(place, _END_KEYS, open_engine)

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-37", "ENG-48")
    def test_a_file_that_is_lost_after_an_end_is_never_a_hole(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """That of a child, which has a copy of what the engine writes with, and its parent's own.

        Whatever either does at its end, a file that has a batch in it is missed.
        """
        promised = _detects(persistent_engine)
        skip_unless_promised("detects_corruption", made=promised)
        path, _ = _end(persistent_engine, open_engine, tmp_path, forks=True)
        for place in (path.with_name(f"{path.name}, before its end"), path):
            _check_losses(place, _END_KEYS, open_engine, promised=promised)

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-8", "ENG-48")
    def test_an_engine_that_is_dropped_loses_nothing(
        self,
        persistent_engine: Engine,
        open_engine: OpenEngine,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        """Nobody has it any more, and it is collected; also when there is no room on the disk.

        No requirement says that its lock and its files are let go of: a copy is opened. Where there
        was room, a file that is missing is noticed.
        """
        root = tmp_path_factory.mktemp("dropped")
        _leave(open_engine, root / "left")
        for number, (batch, room) in enumerate(_ENDS):
            path = shutil.copytree(root / "left", root / f"life {number}")
            opened: list[Engine] = []
            open_into(opened, open_engine, path)
            opened[0].apply(dict(batch), durability_of(opened[0]))
            with nullcontext() if room is None else file_size(room):
                opened.clear()
                gc.collect()
            copy = shutil.copytree(path, root / f"copy of {path.name}")
            keys = sorted(_BEFORE | batch)
            if room is None:
                _check_losses(copy, keys, open_engine, promised=_detects(persistent_engine))
            _check_life(copy, keys, open_engine)


def _detects(engine: Engine) -> bool:
    return engine.capabilities.detects_corruption


def _leave(open_engine: OpenEngine, left: Path) -> None:
    """Have in *left* what a dead process leaves that has applied `_BEFORE`."""
    living = left.with_name(f"{left.name}, living")
    with open_engine(living) as engine:
        engine.apply(dict(_BEFORE), durability_of(engine))
        shutil.copytree(living, left)


def _end(engine: Engine, open_engine: OpenEngine, root: Path, *, forks: bool) -> tuple[Path, Path]:
    """Run `_END`; return what was written in it, and what was only opened."""
    path, left = root / "written", root / "left"
    _leave(open_engine, left)
    call = json.dumps(
        [import_path_of(engine), str(path), str(left), options_of(open_engine), forks]
    )
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", _END, call],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["0", "0"]
    return path, left


def _check_losses(
    left: Path, keys: list[bytes], open_engine: OpenEngine, *, promised: bool
) -> None:
    """Open copies of *left*, each without one file, if a refusal is *promised*: no hole."""
    files = {name: data for name, data in bytes_of(left).items() if "lock" not in name.lower()}
    for name in sorted(files) if promised else ():
        if not any(data for other, data in files.items() if other != name):
            continue  # with it everything is gone, as where a volume was not mounted
        copy = shutil.copytree(left, left.with_name(f"{left.name}, a loss"))
        (copy / name).unlink()
        with suppress(StoreCorruptedError), open_engine(copy) as opened:
            assert [key for key, _ in pairs_of(opened)] == keys, name
        shutil.rmtree(copy)


def _check_life(place: Path, keys: list[bytes], open_engine: OpenEngine) -> None:
    """Open *place*, which has *keys*, add one, and open it again."""
    for batch, expected in (({b"~": b"v"}, keys), ({}, [*keys, b"~"])):
        with open_engine(place) as engine:
            assert [key for key, _ in pairs_of(engine)] == expected, place.name
            engine.apply(dict(batch), durability_of(engine))
