"""``kill -9`` while a snapshot is being written: it is there whole, or not at all."""

import random
import time
from pathlib import Path

import pytest
from forked_programs import Forked

from statestores.arrow import list_snapshots, read_snapshot, remove_stale_temporaries

_KILLS = 10
_SOAK_KILLS = 200
_SEED = 20260603

# Writes snapshots without end, each of the commit after the last one.
_WRITER = """
import sys
from pathlib import Path
from statestores.arrow import write_snapshot
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue, TopicPartition

store = open_on_engine(
    load_backend("memory").open("."), KeyValue("x"), durability=Durability.PROCESS_CRASH
)
log = TopicPartition("x-changelog", 0)
offset = int(sys.argv[2])
for number in range(20_000):
    store.put(b"%06d" % number, b"x" * 50)
print("ready", flush=True)
while True:
    offset += 1
    store.put(b"offset", b"%d" % offset)
    store.commit({log: offset})
    write_snapshot(store, Path(sys.argv[1]), batch_rows=1_000, rows_per_file=2_000)
"""


def _kill_writers(directory: Path, kills: int) -> int:
    """Kill that many writers at random moments, and look after each; return the snapshots."""
    chance = random.Random(_SEED)
    checked: set[int] = set()
    for kill in range(kills):
        newest = max(list_snapshots(directory), default=0)
        with Forked(_WRITER, directory, newest) as writer:
            assert writer.stdout.readline() == "ready\n"
            while kill == 0 and not list_snapshots(directory):
                assert writer.is_running()
                time.sleep(0.01)  # on a slow machine no writer would come that far
            time.sleep(chance.uniform(0.0, 0.4))
            writer.kill()
        for offset, path in list_snapshots(directory).items():
            if offset in checked:
                continue
            snapshot = read_snapshot(path)
            snapshot.verify()
            (found,) = snapshot.batches(first_key=b"offset", last_key=b"offset")

            assert found.column("value").to_pylist() == [b"%d" % offset]
            assert snapshot.rows == 20_001
            checked.add(offset)
    return len(checked)


@pytest.mark.spec("SNP-2", "SNP-15")
def test_a_killed_writer_leaves_no_half_snapshot(tmp_path: Path) -> None:
    """What is listed is valid, and what is left over can be removed."""
    snapshots = _kill_writers(tmp_path, _KILLS)
    remove_stale_temporaries(tmp_path)

    assert snapshots > 0
    assert len(list(tmp_path.iterdir())) == snapshots


@pytest.mark.soak
@pytest.mark.spec("SNP-2", "SNP-15")
def test_many_killed_writers_leave_no_half_snapshot(tmp_path: Path) -> None:
    """The same, long enough to meet rare moments."""
    assert _kill_writers(tmp_path, _SOAK_KILLS) > 0
