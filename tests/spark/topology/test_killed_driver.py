"""A topology on Spark computes everything once, however often the driver is killed."""

import os
import random
from collections import Counter
from pathlib import Path

import killed_topology_driver
import pytest
from killed_processes import end_a_program
from stateful_words import counted, give_words, last_files_of, state_of
from topology_words import LastCounts

SOAK_KILLS = 20
SOAK_SECONDS = 60

STEPS = (
    "json.durable",
    "json.renamed",
    "publish.checked",
    "publish.committed",
    "publish.appended",
    "publish.finished",
    "changelog.append.written",
)


def end_a_driver(tmp_path: Path, *dying: str, after_seconds: float | None = None) -> bool:
    """Run a driver, which may be killed; return whether it was."""
    places = [str(tmp_path / name) for name in ("words", "state", "out", "checkpoint")]
    return end_a_program(
        killed_topology_driver, tmp_path / "log", *places, *dying, after_seconds=after_seconds
    )


def judge(tmp_path: Path) -> None:
    """Compare the stores of all parts and the output with the words."""
    truth = counted(tmp_path / "words", last_files_of(tmp_path / "checkpoint"))
    assert LastCounts(tmp_path / "out").counts() == truth
    counts = {word: number for batch in truth for word, number in batch.items()}
    state = tmp_path / "state"
    assert state_of(state, "counts") == counts
    assert {key: row for key, row in state_of(state, "of-counts").items() if row} == dict(
        Counter(counts.values())
    )
    for store in ("counts", "of-counts"):
        staging = state / store / ".writes"
        assert [path.name for path in staging.iterdir() if path.is_dir()] == []


@pytest.mark.long
@pytest.mark.spec("SPK-2")
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_between_two_parts_goes_on(tmp_path: Path) -> None:
    """In the second micro-batch, when one part has committed and the next one has not."""
    for number in range(2):
        give_words(tmp_path / "words", number, ["a", "b", "ä", "a"])

    assert end_a_driver(tmp_path, "publish.checked", "9", str(tmp_path / "died"))
    assert not end_a_driver(tmp_path)
    judge(tmp_path)


@pytest.mark.soak
@pytest.mark.spec("SPK-2")
@pytest.mark.timeout(3 * 3600)
def test_many_killed_drivers(tmp_path: Path) -> None:
    """At any step of a commit of any part and at any time, while words go on coming."""
    seed = int(os.environ.get("STATESTORES_SOAK_SEED", random.randrange(1 << 32)))
    wanted = int(os.environ.get("STATESTORES_SOAK_KILLS", SOAK_KILLS))
    rng, kills = random.Random(seed), 0
    for life in range(4 * wanted):
        for number in range(2 * life, 2 * life + 2):
            words = [f"w{rng.randrange(200)}" for _ in range(rng.randrange(300))]
            give_words(tmp_path / "words", number, words)
        if rng.random() < 0.8:
            dying = [rng.choice(STEPS), str(rng.randint(1, 12)), str(tmp_path / f"died-{life}")]
            kills += end_a_driver(tmp_path, *dying)
        else:
            kills += end_a_driver(tmp_path, after_seconds=rng.uniform(5, SOAK_SECONDS))
        if kills >= wanted:
            break

    assert kills >= wanted, f"seed {seed}"
    end_a_driver(tmp_path)
    judge(tmp_path)
