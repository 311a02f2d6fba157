"""``kill -9`` of a run from files to files: no line is lost or counted twice, no row doubled."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from edge_lives import run_all, write_orders
from forked_nursery import ForkedNursery

_PROGRAM = Path(__file__).parents[1] / "kit" / "edge_lives.py"
_PATIENCE_SECONDS = 60.0
_LINES_PER_LIFE = 60
_SEED = 65
_FAILPOINTS = (
    "task.recorded",
    "task.output-appended",
    "task.carried-out",
    "sink.recorded",
    "sink.copied",
    "sink.published",
    "changelog.removed",
    "changelog.segment.renamed",
)


def _lives(directory: Path, rounds: int) -> None:
    """Kill one life after the other, and judge what they have written."""
    dice = random.Random(_SEED)
    lines = 0
    with ForkedNursery(_PROGRAM) as nursery:
        for turn in range(rounds):
            for failpoint in (*_FAILPOINTS, None):
                write_orders(directory, lines, _LINES_PER_LIFE)
                lines += _LINES_PER_LIFE
                at = dice.randint(1, 2 + turn)
                nursery.start({"directory": str(directory), "failpoint": failpoint, "at": at})
                code: int | None
                if failpoint is None:
                    time.sleep(dice.uniform(0.02, 0.3))
                    code = nursery.kill()
                else:
                    code = nursery.wait(_PATIENCE_SECONDS)
                    assert rounds > 1 or code == -signal.SIGKILL, failpoint
                assert code in (0, -signal.SIGKILL), nursery.errors()
    run_all(directory)
    rows = pq.read_table(directory / "out").to_pylist()
    places = Counter((row["partition"], row["offset"]) for row in rows)

    assert max(places.values()) == 1
    assert len(rows) == lines
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    for user in range(7):
        totals, total = [], 0
        for number in range(user, lines, 7):
            total += number
            totals.append(total)
        assert [row["value"] for row in rows if row["key"] == f"user-{user}"] == totals


@pytest.mark.crash
@pytest.mark.spec("PRC-59", "PRC-60", "PRC-64", "PRC-67")
def test_from_files_to_files_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """At the failpoints of sources, sinks and removals, and at any time."""
    _lives(tmp_path / "lives", 1)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.crash
@pytest.mark.spec("PRC-59", "PRC-60", "PRC-64", "PRC-67")
def test_from_files_to_files_nothing_is_lost_or_doubled_often(tmp_path: Path) -> None:
    """Over one state that grows."""
    _lives(tmp_path / "lives", 20)
