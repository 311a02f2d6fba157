"""Engines that are opened again and again, and processes that fork while one is open."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, OpenEngine, pairs_of
from statestores_conformance.subjects.openers import options_of

_CYCLES = 50
_MANY_CYCLES = 500
_WARM_UP = 10
"""After this many cycles, the driver has the memory that it keeps for the life of the process."""

_GROWTH_BYTES = 24 * 1024 * 1024
"""How much the process may have grown, whatever the number of cycles: allocators keep something."""

_PATIENCE_SECONDS = 60.0

_FORK = """
import json, os, sys
from statestores.errors import StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue

name, path, what, options = json.loads(sys.argv[1])
opened = engine = load_backend(name).open(path, options)
engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH) if what == "engine" else None
calls = {
    "get": lambda: engine.get(b"k"),
    "get_many": lambda: engine.get_many([b"k"]),
    "first": lambda: engine.first(b""),
    "last": lambda: engine.last(b""),
    "scan": lambda: list(engine.scan(b"")),
    "apply": lambda: engine.apply({b"child": b"c"}, Durability.PROCESS_CRASH),
    "snapshot": lambda: engine.snapshot(),
}
if what == "store":
    opened = store = open_on_engine(engine, KeyValue("s"), durability=Durability.PROCESS_CRASH)
    facade = store.read_only()
    store.put(b"k", b"v")
    store.commit({})
    store.put(b"pending", b"p")
    calls = {
        "get": lambda: store.get(b"k"),
        "put": lambda: store.put(b"child", b"c"),
        "range": lambda: list(store.range()),
        "commit": lambda: store.commit({}),
        "rollback": lambda: store.rollback(),
        "truncate": lambda: store.truncate(),
        "facade": lambda: facade.get(b"k"),
    }
ours, theirs = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(theirs[1])
    answers = {"is_open": opened.is_open}
    for call, use in calls.items():
        try:
            answers[call] = repr(use())
        except StoreClosedError:
            answers[call] = "refused"
    opened.close()
    os.write(ours[1], json.dumps(answers).encode() + b"\\n")
    os.read(theirs[0], 1)
    sys.exit(0)
os.close(ours[1])
with os.fdopen(ours[0]) as answers:
    print(answers.readline(), end="", flush=True)
if what == "engine":
    engine.apply({b"parent": b"p"}, Durability.PROCESS_CRASH)
else:
    store.put(b"parent", b"p")
    store.commit({})
opened.close()
again = load_backend(name).open(path, options)
print(json.dumps([key.decode("latin-1") for key, _ in again.scan(b"")]), flush=True)
again.close()
os.close(theirs[1])
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
"""
"""A program whose child uses what its parent has open, lives on for a while, then just ends."""


@pytest.mark.level("durable")
class EngineLifetimeTests(EngineFixtures):
    """What is left of an engine after it has been closed, many times over."""

    @pytest.mark.spec("ENG-19", "ENG-10")
    def test_opening_and_closing_leaks_nothing(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """Fifty lives, with scans and snapshots left open in each: no descriptor, no memory."""
        _live_often(open_engine, tmp_path / "again", _CYCLES)

    @pytest.mark.soak
    @pytest.mark.spec("ENG-19", "ENG-10")
    def test_opening_and_closing_for_long_leaks_nothing(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """The same five hundred times, within the same bounds."""
        _live_often(open_engine, tmp_path / "again", _MANY_CYCLES)


def _live_often(open_engine: OpenEngine, directory: Path, cycles: int) -> None:
    """Open, write and close the engine in *directory* that often, and watch the process."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("the process cannot see its own descriptors here: there is no /proc/self/fd")
    held: list[Any] = []
    descriptors = memory = 0
    for number in range(cycles):
        engine = open_engine(directory)
        engine.apply({b"%05d" % number: b"v" * 1_000}, Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        held[:] = [engine.scan(b""), engine.scan(b"", reverse=True), snapshot, snapshot.scan(b"")]
        next(held[0])
        engine.close()
        if number == _WARM_UP:
            descriptors, memory = _descriptors(), _resident_bytes()

    assert _descriptors() <= descriptors
    assert _resident_bytes() - memory < _GROWTH_BYTES
    with open_engine(directory) as engine:
        assert [key for key, _ in pairs_of(engine)] == [b"%05d" % n for n in range(cycles)]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.level("crash-proof")
class ForkTests(EngineFixtures):
    """A child that is forked while an engine or a store is open.

    The engine's class must be importable, and its options are those that `options_of` finds.
    """

    @pytest.mark.spec("ENG-37", "ASM-9")
    def test_a_forked_child_lets_go_of_the_engine(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Every call is refused, its end harms nobody, and the parent can even reopen meanwhile."""
        answers, keys, code = _fork(persistent_engine, open_engine, tmp_path / "forked", "engine")

        assert answers.pop("is_open") is False
        assert set(answers.values()) == {"refused"}
        assert keys == ["k", "parent"]
        assert code == 0

    @pytest.mark.spec("COM-44", "ASM-9")
    def test_a_forked_child_lets_go_of_the_store(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The store is closed in the child, facades too; pending writes stay with the parent."""
        answers, keys, code = _fork(persistent_engine, open_engine, tmp_path / "forked", "store")

        assert answers.pop("is_open") is False
        assert set(answers.values()) == {"refused"}
        assert [key for key in keys if "child" in key] == []
        assert len([key for key in keys if "parent" in key or "pending" in key]) == 2
        assert code == 0


def _fork(
    engine: Engine, open_engine: OpenEngine, path: Path, what: str
) -> tuple[dict[str, Any], list[str], int]:
    """Run the program that forks; return what the child was told, the keys, and how it ended."""
    skip_unless_promised("persistent", made=engine.capabilities.persistent)
    arguments = [import_path_of(engine), str(path), what, options_of(open_engine)]
    command = [sys.executable, "-c", _FORK, json.dumps(arguments)]
    with subprocess.Popen(  # noqa: S603  # our own program
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            output, errors = program.communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)  # the child hangs, not only its parent
            raise
    lines = output.splitlines()

    assert len(lines) == 3, errors
    answers, keys, code = map(json.loads, lines)
    return answers, keys, code
