"""A logged store whose process is killed continues where its input says, and loses nothing."""

import random
from pathlib import Path

import pytest
from forked_programs import Forked

import statestores as ss
from statestores.logged_store import open_logged_store

ROWS = 1_400
KEYS = 97
KILLS = 6
MOST_OF_A_KILLED_WRITER = 200
INPUT = ss.TopicPartition("numbers", 0)

# Counts the numbers from the position on, with a commit every few of them; one that is to be killed
# goes no further than it was told, however late the signal comes.
WRITER = f"""
import signal
import sys
import statestores as ss

root, backend, most = sys.argv[1:]
part = ss.TopicPartition("numbers", 0)
with ss.open_logged_store(root, "counts", 0, backend=backend) as counts:
    start = counts.position.get(part, -1) + 1
    print(start, flush=True)
    for number in range(start, min({ROWS}, start + int(most))):
        key = b"%d" % (number % {KEYS})
        counts.store.put(key, b"%d" % (int(counts.store.get(key) or b"0") + 1))
        if number % 7 == 0 or number == {ROWS} - 1:
            counts.commit({{part: number}})
            print(number, flush=True)
    if number < {ROWS} - 1:
        signal.pause()
"""


@pytest.mark.spec("LGS-6")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_counts_are_exact_after_many_kills(tmp_path: Path, backend: str) -> None:
    """Every number is counted once: the count of a key is what the position says it is."""
    chance = random.Random(20_261_120)
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.KeyValue("counts"), partitions=1)
    for killed in [True] * KILLS + [False]:
        most = MOST_OF_A_KILLED_WRITER if killed else ROWS
        with Forked(WRITER, tmp_path, backend, str(most)) as writer:
            acknowledged = int(writer.stdout.readline()) - 1
            if killed:
                lines, moment_s = chance.randint(1, 20), chance.random() * 0.002
                acknowledged = int(writer.kill_after(lines, moment_s))
            writer.stdout.read()
        with open_logged_store(root, "counts", 0) as counts:
            position = counts.position.get(INPUT, -1)
            expected = {
                b"%d" % key: b"%d" % len(range(key, position + 1, KEYS))
                for key in range(min(KEYS, position + 1))
            }

            assert position >= acknowledged
            assert dict(counts.store.range()) == expected
            assert counts.committed_offset == counts.changelog.end_offset - 1
    assert position == ROWS - 1
