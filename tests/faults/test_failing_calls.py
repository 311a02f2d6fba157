"""A call to the operating system fails below the driver: what is there is one commit, whole.

`kit/failing_calls.c` stands before the C library and fails the first `fdatasync`, the second
`rename`, each `write` from the third on. Every operation is run with that, each time in a process
of its own over a fresh copy, by every kind of owner and with every engine: commits, openings,
snapshots, compactions, restores, task commits, staged writes. Afterwards the operation has raised
an error of our tree, or has happened; owner and next opening see the content of one commit, named
by offset and position; a rollback that was accepted is one; the next commit succeeds; no process
has aborted or hung, and no file is left open.
"""

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from failing_calls import why_it_cannot_be_built
from failing_runs import Runs, Subject, Tally, running, subjects
from long_runs import IS_LONG
from operations import OPERATIONS

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores_conformance.faults.crash_workload import WORKLOADS

_SEED = 892
_FAULTS = 3 if IS_LONG else 2
"""Of each operation, in a run that is not a soak run."""

_WHY_NOT = why_it_cannot_be_built()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")


def _loadable() -> list[str]:
    found = []
    for name in ("rocksdb", "leveldb", "sqlite"):
        try:
            load_backend(name)
        except MissingDriverError:
            continue
        found.append(name)
    return found


@pytest.fixture(scope="module")
def backends() -> list[str]:
    """Give the backends that write files."""
    found = _loadable()
    if not found:
        pytest.skip("no backend that writes files is installed")
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, backends: list[str]) -> Iterator[Runs]:
    """Give the process that makes the runs."""
    with running(tmp_path_factory.mktemp("failing"), backends) as runs:
        yield runs


@pytest.mark.spec(
    "COM-9", "COM-43", "COM-27", "LGS-14", "LOG-14", "LOG-15", "SNP-2", "TSK-3", "ENG-31"
)
def test_some_failed_calls_leave_one_commit(runs: Runs, backends: list[str]) -> None:
    """A few failures of each operation, chosen by a seed; backends and kinds take turns.

    Commits are tried by each owner, the rest by one of those whose operation it is.
    """
    dice, tally = random.Random(_SEED), Tally()
    turns = zip(cycle(backends), cycle(WORKLOADS), strict=False)
    for name, operation in OPERATIONS.items():
        owners = operation.owners if name == "commit" else [dice.choice(operation.owners)]
        for owner in owners:
            backend, kind = next(turns)
            subject = Subject(operation=name, owner=owner, backend=backend, kind=kind)
            runs.some(subject, tally, dice, _FAULTS)

    assert tally.violations == [], tally
    assert tally.fired > tally.runs // 2


@pytest.mark.soak
@pytest.mark.spec(
    "COM-9", "COM-43", "COM-27", "LGS-14", "LOG-14", "LOG-15", "SNP-2", "TSK-3", "ENG-31"
)
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_failed_call_leaves_one_commit(
    backends: list[str], operation: str, backend: str, tmp_path: Path
) -> None:
    """Each call of the operation fails in each manner, until it passes untouched.

    Each has a process of its own for its runs: one that was given up in the middle of a run would
    have a fault armed in those of all that follow.
    """
    if backend not in backends:
        pytest.skip(f"the driver of {backend} is not installed")
    tally = Tally()
    kinds = list(WORKLOADS) if operation == "commit" else ["key-value", "versioned"]
    with running(tmp_path, [backend]) as runs:
        for subject in subjects([backend], [operation], kinds):
            runs.every(subject, tally)
    print(f"{operation} on {backend}: {tally}")  # noqa: T201  # the figures of conformance/README.md

    assert tally.violations == [], tally
