"""Words are counted once, however often the driver and the workers are killed."""

import os
import random
import signal
import threading
from pathlib import Path

import killed_stateful_driver
import psutil
import pytest
from killed_processes import end_a_program
from killed_stateful_driver import SINK
from stateful_words import Files, counted, give_words, last_files_of, state_of

SOAK_KILLS = 50
SOAK_SECONDS = 60
"""How long a driver of the soak test lives at most; it needs about a third of that to begin."""

STEPS = (
    "json.durable",
    "json.renamed",
    "publish.checked",
    "publish.committed",
    "publish.appended",
    "publish.finished",
    "changelog.append.written",
    SINK,
)


def end_a_driver(tmp_path: Path, *dying: str, after_seconds: float | None = None) -> bool:
    """Run a driver, which may be killed; return whether it was."""
    places = [str(tmp_path / name) for name in ("words", "state", "out", "checkpoint")]
    return end_a_program(
        killed_stateful_driver, tmp_path / "log", *places, *dying, after_seconds=after_seconds
    )


def judge(tmp_path: Path) -> None:
    """Compare state and output with the words."""
    truth = counted(tmp_path / "words", last_files_of(tmp_path / "checkpoint"))
    assert Files(tmp_path / "out").counts() == truth
    assert state_of(tmp_path / "state") == {
        word: number for batch in truth for word, number in batch.items()
    }
    staging = tmp_path / "state" / "counts" / ".writes"
    assert [path.name for path in staging.iterdir() if path.is_dir()] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_between_commit_and_sink_goes_on(tmp_path: Path) -> None:
    """Its state is committed and its output is nowhere: the next one emits it, and counts on."""
    for number in range(2):
        give_words(tmp_path / "words", number, ["a", "b", "ä"])

    assert end_a_driver(tmp_path, SINK, "1", str(tmp_path / "died"))
    assert state_of(tmp_path / "state") == {"a": 2, "b": 2, "ä": 2}
    assert len(Files(tmp_path / "out").counts()) == 1
    assert not end_a_driver(tmp_path)
    judge(tmp_path)


def kill_workers(stop: threading.Event, rng: random.Random, killed: list[int]) -> None:
    """Kill a Python worker of a driver below this process, now and then."""
    while not stop.wait(rng.uniform(5, 15)):
        workers = [
            process
            for process in psutil.Process().children(recursive=True)
            if process.is_running() and "pyspark.worker" in _command(process)
        ]
        # The daemon is the parent of those that compute.
        own = [process for process in workers if _command(process.parent()) == _command(process)]
        if own:
            victim = rng.choice(own)
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)


def _command(process: psutil.Process | None) -> list[str]:
    try:
        return [] if process is None else list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_many_killed_drivers_and_workers(tmp_path: Path) -> None:
    """At any step of a commit and at any time, while words go on coming."""
    seed = int(os.environ.get("STATESTORES_SOAK_SEED", random.randrange(1 << 32)))
    rng, kills, stop, workers = random.Random(seed), 0, threading.Event(), list[int]()
    wanted = int(os.environ.get("STATESTORES_SOAK_KILLS", SOAK_KILLS))
    killer = threading.Thread(target=kill_workers, args=(stop, random.Random(seed), workers))
    killer.start()
    try:
        for life in range(4 * wanted):
            for number in range(3 * life, 3 * life + 3):
                words = [f"w{rng.randrange(200)}" for _ in range(rng.randrange(300))]
                give_words(tmp_path / "words", number, words)
            if rng.random() < 0.7:
                dying = [rng.choice(STEPS), str(rng.randint(1, 4)), str(tmp_path / f"died-{life}")]
                kills += end_a_driver(tmp_path, *dying)
            else:
                kills += end_a_driver(tmp_path, after_seconds=rng.uniform(5, SOAK_SECONDS))
            if kills + len(workers) >= wanted:
                break
    finally:
        stop.set()
        killer.join()

    assert kills + len(workers) >= wanted, f"seed {seed}"
    end_a_driver(tmp_path)
    judge(tmp_path)
