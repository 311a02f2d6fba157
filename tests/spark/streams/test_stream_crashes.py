"""A store that is copied as a stream is copied once, however often the driver is killed."""

import random
from collections import Counter
from pathlib import Path

import killed_driver
import pytest
from dying_source import PUBLISHED
from killed_processes import end_a_program
from pyspark.sql import SparkSession
from store_streams import add, changes_of, make_store, needs_limits, run

KEYS = 40
SOAK_KILLS = 50
SOAK_SECONDS = 60
"""How long a driver of the soak test lives at most; it needs about a third of that to begin."""

STEPS = (
    "publish.checked",
    "publish.committed",
    "publish.appended",
    "publish.finished",
    "json.durable",
    "changelog.append.written",
    PUBLISHED,
)


def end_a_driver(log: Path, *arguments: str, after_seconds: float | None = None) -> bool:
    """Run a driver, and kill it and its Java after a while; return whether it was killed at all."""
    return end_a_program(killed_driver, log, *arguments, after_seconds=after_seconds)


def judge(source: str, target: str) -> None:
    """Compare the rows that were copied with those to copy, each of them once."""
    copied = Counter((key, value) for _, _, _, key, value in changes_of(target))

    assert copied == Counter((key, value) for _, _, _, key, value in changes_of(source))
    staging = Path(target, "s", ".writes")
    assert [path.name for path in staging.iterdir() if path.is_dir()] == []


@pytest.mark.long
@needs_limits
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """When a batch is committed and appended nowhere: nobody aborts it, and it comes again."""
    source, target, checkpoint = (str(tmp_path / name) for name in ("from", "to", "checkpoint"))
    add(make_store(source), "w", {f"k{number}": f"v{number}" for number in range(KEYS)})
    step, marker = "publish.committed", str(tmp_path / "died")

    assert end_a_driver(tmp_path / "log", source, target, checkpoint, "15", step, marker)
    assert len(changes_of(target)) == 15
    assert run(killed_driver.copy(spark, source, target, checkpoint, "15")) == [15, 15, 10]
    judge(source, target)


@needs_limits
@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_many_killed_drivers(spark: SparkSession, tmp_path: Path) -> None:
    """At any step of a commit and at any time, while the store that is copied grows."""
    source, target, checkpoint = (str(tmp_path / name) for name in ("from", "to", "checkpoint"))
    state, kills = make_store(source, partitions=3), 0
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for life in range(2 * SOAK_KILLS):
        rows = {f"k{rng.randrange(1000)}": f"{life}-{number}" for number in range(60)}
        add(state, f"w{life}", rows)
        arguments = [source, target, checkpoint, "25"]
        if rng.random() < 0.6:
            dying = [*arguments, rng.choice(STEPS), str(tmp_path / f"died-{life}")]
            kills += end_a_driver(tmp_path / "log", *dying)
        else:
            after = rng.uniform(5, SOAK_SECONDS)
            kills += end_a_driver(tmp_path / "log", *arguments, after_seconds=after)
        if kills == SOAK_KILLS:
            break

    assert kills == SOAK_KILLS, f"seed {seed}"
    run(killed_driver.copy(spark, source, target, checkpoint, "25"))
    judge(source, target)
