"""Engines that are closed under readers, in an interrupt, or with a strange seal."""

import json
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from forked_programs import run

import statestores as ss
from statestores.errors import InvalidOptionError, StoreCorruptedError
from statestores_memory import MemoryEngine

SPECIFICATION = ss.KeyValue("s")

CLOSED_UNDER_READERS = """
import sys, threading
import statestores as ss
from statestores.errors import StoreClosedError

def read(facade):
    try:
        while True:
            facade.get_many([b"a", b"b"])
            list(facade.range(b"a", b"c"))
    except StoreClosedError:
        pass

sys.setswitchinterval(1e-5)
for number in range(int(sys.argv[3])):
    store = ss.open_store(sys.argv[1], ss.KeyValue("s"), backend=sys.argv[2],
                          durability=ss.Durability.PROCESS_CRASH)
    store.put_all([(b"a", b"%d" % number), (b"b", b"%d" % number)])
    store.commit({})
    threads = [threading.Thread(target=read, args=(store.read_only(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    store.read_only().get(b"a")
    store.close()
    for thread in threads:
        thread.join()
print("all closed")
"""
ROUNDS = 40


@pytest.mark.spec("ENG-9", "ENG-19")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_a_store_is_closed_under_its_readers(backend: str, tmp_path: Path) -> None:
    """LevelDB ended the process: a reader and the engine let the same snapshot go at one moment."""
    finished = run(CLOSED_UNDER_READERS, tmp_path / "s", backend, ROUNDS)

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "all closed\n", "")


def interrupted(operation: Callable[[], object], file: str, function: str) -> bool:
    """Run *operation*, interrupt it at a call of *function* of *file*; return whether it came."""

    def interrupt(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == function and code.co_filename.endswith(file):
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        operation()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


@pytest.mark.spec("ENG-10", "ENG-19")
@pytest.mark.parametrize(
    ("backend", "file", "function"),
    [
        ("rocksdb", "statestores_rocksdb/iterators.py", "close"),
        ("rocksdb", "statestores_rocksdb/engine.py", "_close_database"),
        ("leveldb", "statestores_leveldb/reads.py", "_drop_seeker"),
    ],
)
def test_a_close_that_was_interrupted_can_be_finished(
    backend: str, file: str, function: str, tmp_path: Path
) -> None:
    """The second close did nothing, and the process that had the store could not open it again."""
    store = ss.open_store(tmp_path / "s", SPECIFICATION, backend=backend)
    store.put(b"k", b"v")
    store.commit({})
    engine = store._engine  # type: ignore[attr-defined]  # which the store closes once

    assert interrupted(store.close, file, function)
    engine.close()
    with ss.open_store(tmp_path / "s", SPECIFICATION) as reopened:
        assert reopened.get(b"k") == b"v"


@pytest.mark.spec("ENG-7")
def test_a_batch_that_was_interrupted_in_memory_is_not_there_in_part() -> None:
    """A deleted key stayed among the sorted ones: each scan from then on was a raw `KeyError`."""
    for calls in range(20):
        with MemoryEngine.open("unused") as engine:
            engine.apply(
                {b"a%d" % number: b"v" for number in range(3)}, ss.Durability.PROCESS_CRASH
            )
            before = list(engine.scan(b""))
            batch = {b"a1": None, b"a2": b"w", b"b": b"1"}
            left = [calls]

            def interrupt(frame: FrameType, event: str, _: Any, left: list[int] = left) -> None:
                if not frame.f_code.co_filename.endswith("memory/content.py") or event == "return":
                    return
                left[0] -= 1
                if left[0] < 0:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

            sys.setprofile(interrupt)
            try:
                engine.apply(batch, ss.Durability.PROCESS_CRASH)
            except KeyboardInterrupt:
                assert list(engine.scan(b"")) == before
            else:
                break
            finally:
                sys.setprofile(None)

    assert calls > 3


@pytest.mark.spec("ENG-14")
def test_damage_that_an_opening_finds_is_damage(tmp_path: Path) -> None:
    """SQLite's checks after a crash raised `StorageError`: our errors are OSErrors too."""
    with ss.open_store(tmp_path / "s", SPECIFICATION, backend="sqlite") as store:
        store.put(b"k", b"a value that can be found in the file")
        store.commit({})
    file = tmp_path / "s" / "engine" / "engine.db"
    (file.parent / "CLOSED.json").unlink()  # as after a crash
    file.write_bytes(file.read_bytes().replace(b"a value", b"b value"))

    with pytest.raises(StoreCorruptedError, match="checksum"):
        ss.open_store(tmp_path / "s", SPECIFICATION)


@pytest.mark.spec("LAY-24")
@pytest.mark.parametrize("backend", ["rocksdb", "sqlite"])
def test_a_strange_seal_is_none(backend: str, tmp_path: Path) -> None:
    """One that is nested too deep was a `RecursionError`, and a pipe was waited for without end."""
    for change in (lambda path: path.write_text("[" * 100_000), os.mkfifo):
        with ss.open_store(tmp_path / "s", SPECIFICATION, backend=backend) as store:
            store.put(b"k", b"v")
            store.commit({})
        seal = tmp_path / "s" / "engine" / "CLOSED.json"
        seal.unlink()
        change(seal)
        with ss.open_store(tmp_path / "s", SPECIFICATION) as store:
            assert store.get(b"k") == b"v"


@pytest.mark.spec("ENG-14")
def test_a_manifest_that_has_grown_since_its_seal_is_none_of_a_damaged_store(
    tmp_path: Path,
) -> None:
    """Once in a thousand closes with readers, RocksDB wrote to its manifest after it was closed.

    The store was refused as damaged from then on. What is appended has checksums of RocksDB's own;
    what the seal is for is a manifest that lacks something, or has something else.
    """
    with ss.open_store(tmp_path / "s", SPECIFICATION, backend="rocksdb") as store:
        store.put(b"k", b"v")
        store.commit({})
    engine = tmp_path / "s" / "engine"
    sealed = json.loads((engine / "CLOSED.json").read_text())
    whole = (engine / sealed["manifest"]).read_bytes()
    shorter = {**sealed, "bytes": 10, "crc32": zlib.crc32(whole[:10])}
    (engine / "CLOSED.json").write_text(json.dumps(shorter))
    with ss.open_store(tmp_path / "s", SPECIFICATION) as store:
        assert store.get(b"k") == b"v"


@pytest.mark.spec("ENG-13")
@pytest.mark.parametrize(
    "options",
    [
        {"max_background_jobs": "100000"},
        {"write_buffer_bytes": str(2**62)},
        {"max_open_files": str(2**40)},
    ],
)
def test_options_that_no_machine_has_are_refused(options: dict[str, str], tmp_path: Path) -> None:
    """A hundred thousand threads ended the process, and 2^62 bytes were a raw `OverflowError`."""
    with pytest.raises(InvalidOptionError, match="must be from"):
        ss.open_store(tmp_path / "s", SPECIFICATION, backend="rocksdb", options=options)
