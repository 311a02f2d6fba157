"""Processes that fork: while an engine or a store is open, or after one was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statestores.spi import Engine
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.promises import skip_because_promised, skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, OpenEngine
from statestores_conformance.subjects.openers import options_of

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

_AFTERWARDS = """
import json, os, sys
from pathlib import Path
from statestores.errors import StoreClosedError
from statestores.registry import load_backend
from statestores.spi import Durability

name, path, options = json.loads(sys.argv[1])
backend = load_backend(name)

def fill(directory):
    # More than drivers keep in memory, and nothing that they could compress.
    engine = backend.open(directory, options)
    for number in range(24):
        engine.apply({b"%d" % number: os.urandom(1 << 20)}, Durability.PROCESS_CRASH)
    engine.close()

fill(Path(path, "parent"))
child = os.fork()
if child == 0:
    try:
        fill(Path(path, "child"))
        again = backend.open(Path(path, "child"), options)
        print(json.dumps(len([None for row in again.scan(b"")])), flush=True)
        again.close()
    except StoreClosedError:
        print(json.dumps("refused"), flush=True)
    sys.exit(0)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
"""
"""A program that uses a driver, and is forked when it has closed what it had open."""

_COPIES = """
import json, os, signal, sys, threading, time
from statestores.registry import load_backend
from statestores.spi import Durability

name, path, options = json.loads(sys.argv[1])
engine = load_backend(name).open(path, options)
engine.apply({b"a": b"0", b"b": b"0"}, Durability.PROCESS_CRASH)

def write():
    number = 0
    while True:
        number += 1
        value = b"%d" % number
        many = {b"%d" % key: value for key in range(200)}
        engine.apply({b"a": value, **many, b"b": value}, Durability.PROCESS_CRASH)

def read():
    while True:
        engine.get_many([b"a", b"b"])
        engine.snapshot().close()

for work in (write, read, read):
    threading.Thread(target=work, daemon=True).start()
wrong = 0
for number in range(40):
    time.sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        first, second = engine.get_many([b"a", b"b"])
        kept = engine.snapshot()
        engine.apply({b"a": b"mine", b"b": None}, Durability.PROCESS_CRASH)
        whole = first == second == kept.get(b"a") == kept.get(b"b") == kept.get(b"100")
        keys = [key for key, _ in engine.scan(b"a")]
        os._exit(0 if (whole or first == b"0") and keys == [b"a"] else 1)
    wrong += os.waitpid(child, 0)[1] != 0
print(json.dumps(wrong), flush=True)
os._exit(0)
"""
"""A program that is forked while other threads are in calls of an engine in memory."""


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

    @pytest.mark.spec("ENG-44", "ASM-9")
    def test_a_child_does_not_wait_for_threads_of_the_driver(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """It opens an engine of its own and fills it, or is told that it cannot."""
        answer, code = _run(_AFTERWARDS, persistent_engine, open_engine, tmp_path / "forked")

        assert answer in {24, "refused"}
        assert code == 0

    @pytest.mark.level("concurrent")
    @pytest.mark.spec("ENG-43", "ASM-9")
    def test_a_forked_child_has_a_whole_copy_of_what_is_in_memory(
        self, engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Of forty, while one thread writes and two read, each has whole batches and goes on."""
        skip_because_promised("persistent", made=engine.capabilities.persistent)

        assert _run(_COPIES, engine, open_engine, tmp_path / "forked") == [0]


def _fork(
    engine: Engine, open_engine: OpenEngine, path: Path, what: str
) -> tuple[dict[str, Any], list[str], int]:
    """Return what the child was told, the keys, and how it ended."""
    skip_unless_promised("persistent", made=engine.capabilities.persistent)
    answers, keys, code = _run(_FORK, engine, open_engine, path, what)
    return answers, keys, code


def _run(
    program: str, engine: Engine, open_engine: OpenEngine, path: Path, *more: str
) -> list[Any]:
    """Run *program*, which forks; return what it says, a line each."""
    arguments = [import_path_of(engine), str(path), *more, options_of(open_engine)]
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    with subprocess.Popen(  # noqa: S603  # our own program
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, errors = running.communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # the child hangs, not only its parent
            raise
    assert running.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]
