"""Memory while writing and restoring a snapshot does not grow with the number of rows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from statestores.errors import StateStoreError
from statestores.registry import load_backend

_MEBIBYTE = 1024 * 1024

_SMALL_ROWS = 250_000
_LARGE_ROWS = 750_000
_ALLOWED_GROWTH = 50 * _MEBIBYTE  # the 500,000 rows between them are 115 MiB in Python

_MANY_ROWS = 5_000_000
_ALLOWED = 300 * _MEBIBYTE
_ALLOWED_FOR_IMPORT = 500 * _MEBIBYTE  # versions are sorted, and their times kept

# Without caches that would fill up with more rows, and look like growth.
_LEAN = {"block_cache_bytes": "1048576", "write_buffer_bytes": "4194304"}

# One step in one process, because the highest memory of a process never goes down: each is forked
# from one that has everything imported, and used nothing of it. Prints how much each step took
# above that one.
_STEPS = """
import json
import os
import resource
import sys
from statestores.arrow import export_file, import_file, read_snapshot, restore, write_snapshot
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue, TopicPartition, Versioned

kind, directory, rows, options, *steps = sys.argv[1:]
if kind == "key-value":
    specification = KeyValue("x")
else:
    specification = Versioned("x", history_retention_ms=1 << 40)

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def store(name):
    engine = load_backend("rocksdb").open(directory + "/" + name, json.loads(options))
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)

def snapshot():
    return read_snapshot(directory + "/snapshots/00000000000000000001")

def run(step):
    if step == "fill":
        with store("original") as original:
            for start in range(0, int(rows), 10_000):
                numbers = range(start, start + 10_000)
                keys = [b"%012d" % (number * 7919 % int(rows) // 4) for number in numbers]
                values = [b"%012d" % number + b"v" * 88 for number in numbers]
                if kind == "key-value":
                    keys = [b"%012d" % (number * 7919) for number in numbers]
                    original.put_many(keys, values)
                else:
                    original.put_many(keys, values, list(numbers))
                original.commit({})
            original.commit({TopicPartition("x-changelog", 0): 1})
    elif step == "write":
        with store("original") as original:
            assert write_snapshot(original, directory + "/snapshots").rows == int(rows)
    elif step == "verify":
        snapshot().verify()
    elif step == "restore":
        with store("copy") as copy:
            assert restore(copy, snapshot=snapshot()).snapshot_rows == int(rows)
    elif step == "export":
        with store("original") as original:
            assert export_file(original, directory + "/rows.parquet") == int(rows)
    else:
        with store("imported") as imported:
            assert import_file(imported, directory + "/rows.parquet") == int(rows)

for step in steps:
    child = os.fork()
    if child == 0:
        before = memory()
        run(step)
        print(step, memory() - before, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(step + " failed")
"""


def _measure(
    kind: str, directory: Path, rows: int, steps: tuple[str, ...], options: dict[str, str]
) -> dict[str, int]:
    """Return the bytes that each of *steps* took for a store of that many rows."""
    directory.mkdir()
    command = [sys.executable, "-c", _STEPS, kind, str(directory), str(rows)]
    command += [json.dumps(options), "fill", *steps]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    measured = dict(line.split() for line in finished.stdout.splitlines())
    return {step: int(measured[step]) for step in steps}


@pytest.fixture(autouse=True)
def _rocksdb() -> None:
    """Skip where the engine that keeps its rows out of memory is missing."""
    try:
        load_backend("rocksdb")
    except StateStoreError as error:
        pytest.skip(str(error))


@pytest.mark.long
@pytest.mark.spec("SNP-16")
def test_three_times_the_rows_take_as_much_memory(tmp_path: Path) -> None:
    """Writing, verifying, restoring and exporting work on a batch at a time."""
    kind = "key-value"
    steps = ("write", "verify", "restore", "export")
    small = _measure(kind, tmp_path / "small", _SMALL_ROWS, steps, _LEAN)
    large = _measure(kind, tmp_path / "large", _LARGE_ROWS, steps, _LEAN)

    growth = {step: large[step] - small[step] for step in steps}
    assert {step: grown for step, grown in growth.items() if grown > _ALLOWED_GROWTH} == {}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.spec("SNP-16")
@pytest.mark.parametrize("kind", ["key-value", "versioned"])
def test_five_million_rows_take_less_than_300_mebibytes(kind: str, tmp_path: Path) -> None:
    """Above the process with everything imported; the engine's caches are counted."""
    steps = ("write", "verify", "restore", "export", "import")
    taken = _measure(kind, tmp_path / "many", _MANY_ROWS, steps, {})

    assert taken.pop("import") <= _ALLOWED_FOR_IMPORT
    assert {step: size for step, size in taken.items() if size > _ALLOWED} == {}
