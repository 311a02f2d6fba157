"""The command reshard."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statestores.failpoints import arm, disarm

Run: TypeAlias = Callable[..., Any]


def _shown(succeed: Run, root: Path) -> list[Any]:
    """Return what a scan shows, but for the partitions."""
    rows = succeed("scan", root, "--store", "planes", "--limit", 0, "--json").lines
    return [{name: value for name, value in row.items() if name != "partition"} for row in rows]


@pytest.mark.spec("RSH-1", "RSH-13")
def test_a_store_gets_other_partitions_and_shows_the_same(
    kept: Path, run: Run, succeed: Run
) -> None:
    """First it is said how much there is; a reshard that dies is found by the doctor, and ended."""
    before = _shown(succeed, kept)
    planned = succeed("reshard", kept, "planes", "--partitions", 5, "--dry-run", "--json").lines[0]

    def stop() -> None:
        raise KeyboardInterrupt

    arm("reshard.noted", stop)
    try:
        run("reshard", kept, "planes", "--partitions", 5)
    finally:
        disarm()
    symptoms = run("doctor", kept, "--json").document["symptoms"]
    left = [each for each in symptoms if each["code"] == "reshard-left-over"]
    again = succeed("reshard", kept, "planes", "--partitions", 5)
    done = succeed("reshard", kept, "planes", "--partitions", 2, "--json").lines[0]

    assert (planned["before"], planned["partitions"]) == (3, 5)
    # It had been said once for each path, with the same command each time.
    assert len(left) == 1
    assert left[0]["command"] == f"statestores reshard {kept} planes --partitions 5"
    assert "has 5 partitions already" in again.err
    assert (done["before"], done["partitions"], done["expired"]) == (5, 2, 0)
    assert _shown(succeed, kept) == before
    codes = {each["code"] for each in run("doctor", kept, "--json").document["symptoms"]}
    assert codes & {"reshard-left-over", "orphan", "store-damaged", "misplaced-keys"} == set()
    assert succeed("verify", kept).code == 0


def test_a_command_that_is_told_to_end_cleans_up(kept: Path, run: Run, succeed: Run) -> None:
    """SIGTERM ends a command as Control-C does.

    It had killed it, as ``kill -9`` would: in the middle of a reshard a whole copy of the store
    stayed, and files of rows that were spilled where temporary files are.
    """
    succeed("reshard", kept, "planes", "--partitions", 2)
    before = sorted(kept.rglob("*"))

    def terminate() -> None:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)

    arm("reshard.built", terminate)
    try:
        assert run("reshard", kept, "planes", "--partitions", 5).code == 128 + signal.SIGTERM
    finally:
        disarm()

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sorted(kept.rglob("*")) == before


def test_what_is_refused_says_what_to_do(kept: Path, run: Run) -> None:
    """In one sentence, as every error."""
    outcome = run("reshard", kept, "plans", "--partitions", 5)

    assert outcome.code == 1
    assert "has no store 'plans'" in outcome.err
