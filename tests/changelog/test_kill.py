"""A writer that is killed while it appends, rolls and compacts."""

import random
from pathlib import Path

import pytest
from forked_programs import Forked

from statestores.changelog import ChangelogReader, FileChangelog
from statestores.spi import TopicPartition

KILLS = 20
KEYS = 40
INPUT = TopicPartition("numbers", 0)

# One frame for each number: the number itself under a few keys, and a value of very unequal size.
WRITER = f"""
import sys
from statestores.changelog import ChangelogOptions, FileChangelog, compact
from statestores.spi import Changes, Durability, Position, TopicPartition

path, start = sys.argv[1], int(sys.argv[2])
options = ChangelogOptions(segment_bytes=40_000)
log = FileChangelog.open(path, "key-value", options, committed_offset=start * 3 - 1)
print(log.end_offset, flush=True)
number = log.end_offset // 3
while True:
    keys = [b"%d" % ((number + step) % {KEYS}) for step in range(3)]
    values = [b"%d " % number + b"v" * (number * 7919 % 3000) for _ in range(3)]
    position = Position({{TopicPartition("numbers", 0): number}})
    durability = Durability.POWER_LOSS if number % 5 == 0 else Durability.PROCESS_CRASH
    log.append(Changes(keys, values), position=position, durability=durability)
    print(number, flush=True)
    if number % 37 == 0:
        compact(log)
    number += 1
"""


def check(path: Path, acknowledged: int) -> int:
    """Compare the log with what the writer must have written; return the next number."""
    with ChangelogReader.open(path) as reader:
        end = reader.end_offset
        number = end // 3
        last: dict[bytes, int] = {}
        covered = 0
        for frame in reader.read():
            assert frame.base_offset == covered
            covered = frame.last_offset + 1
            columns = frame.changes
            for offset, key, value in zip(frame.offsets, columns.keys, columns.values, strict=True):
                of, step = divmod(offset, 3)
                assert key == b"%d" % ((of + step) % KEYS)
                assert value == b"%d " % of + b"v" * (of * 7919 % 3000)
                last[key] = offset
        expected = {
            b"%d" % ((offset // 3 + offset % 3) % KEYS): offset
            for offset in range(max(0, end - 3 * KEYS), end)
        }

        assert end % 3 == 0
        assert covered == end
        assert number - 1 in {acknowledged, acknowledged + 1}
        assert {key: last[key] for key in expected} == expected
        assert reader.position == ({INPUT: number - 1} if number else {})
    return number


@pytest.mark.spec("LOG-2", "LOG-5", "LOG-10", "LOG-20")
def test_killed_writers_lose_nothing_that_was_acknowledged(directory: Path) -> None:
    """After each kill: every acknowledged frame, at most one more, all whole, all in place."""
    chance = random.Random(20_261_120)
    with FileChangelog.create(directory, "key-value"):
        pass
    number = 0
    for _ in range(KILLS):
        with Forked(WRITER, directory, number) as writer:
            assert int(writer.stdout.readline()) == number * 3
            lines, moment_s = chance.randint(0, 90), chance.random() * 0.003
            acknowledged = int(writer.kill_after(lines, moment_s) or number - 1)
            for line in writer.stdout.read().splitlines():
                acknowledged = int(line)
        number = check(directory, acknowledged)

    assert number > KILLS
