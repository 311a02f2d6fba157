"""Running operations of which calls fail, all of them or some, and counting what was found.

The whole net, or a part of it, by hand: ``python tests/faults/kit/failing_runs.py BACKENDS
[OPERATIONS [KINDS]]``, each a list with commas. It prints a line for each operation.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from failing_calls import MANNERS, Fault, build
from operations import OPERATIONS

_PROGRAM = Path(__file__).with_name("failing_child.py")
_MOST_CALLS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is operated on, and how."""

    operation: str
    """The name of the operation."""

    owner: str
    """Whose it is."""

    backend: str
    """The engine."""

    kind: str
    """The kind of store."""


@dataclass(slots=True)
class Tally:
    """What the runs have come to."""

    runs: int = 0
    """Operations with a fault."""

    fired: int = 0
    """Those in which a call failed."""

    raised: int = 0
    """Those that raised an error of our tree."""

    violations: list[str] = field(default_factory=list)
    """What was wrong, in words."""

    def add(self, where: str, found: dict[str, Any]) -> None:
        """Count one run."""
        self.runs += 1
        self.fired += bool(found["fired"])
        self.raised += found["raised"] is not None
        self.violations += [f"{where} ({found['raised']}): {wrong}" for wrong in found["wrong"]]

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.fired} with a call that failed, {self.raised} errors raised, "
            f"{len(self.violations)} violations"
        )


class Runs:
    """The process that makes the runs."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self._server = server

    def make(self, subject: Subject, fault: Fault | None, going_on: str) -> dict[str, Any]:
        """Make one run, and return what it found."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {
            "operation": subject.operation,
            "owner": subject.owner,
            "backend": subject.backend,
            "kind": subject.kind,
            "fault": None if fault is None else fault.describe(),
            "going_on": going_on,
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        found: dict[str, Any] = json.loads(self._server.stdout.readline())
        return found

    def every(self, subject: Subject, tally: Tally) -> None:
        """Let each call of an operation fail in each manner, until it passes untouched."""
        self._rehearse(subject)
        for calls, manners in MANNERS.items():
            for manner in manners:
                for at in range(1, _MOST_CALLS):
                    fault = Fault(calls=calls, at=at, manner=manner)
                    if not self._each_way(subject, fault, _ways(subject), tally):
                        break

    def some(self, subject: Subject, tally: Tally, dice: random.Random, number: int) -> None:
        """Let *number* calls of an operation fail, chosen by *dice*."""
        counts = self._rehearse(subject)
        possible = [
            Fault(calls=calls, at=at, manner=manner)
            for calls, manners in MANNERS.items()
            for manner in manners
            for at in range(1, 1 + sum(counts[call] for call in calls))
        ]
        for fault in dice.sample(possible, min(number, len(possible))):
            self._each_way(subject, fault, [dice.choice(_ways(subject))], tally)

    def _rehearse(self, subject: Subject) -> dict[str, int]:
        """Run the operation untouched, and return how many calls of each class it makes."""
        found = self.make(subject, None, "reopen")
        if found["wrong"] or found["raised"]:
            raise AssertionError(f"{subject} is wrong without a fault: {found}")
        counts: dict[str, int] = found["counts"]
        return counts

    def _each_way(self, subject: Subject, fault: Fault, ways: Iterable[str], tally: Tally) -> bool:
        """Run with *fault*, going on in each way; return whether a call failed."""
        fired = False
        for going_on in ways:
            found = self.make(subject, fault, going_on)
            where = f"{_named(subject)}; {fault}; {going_on}"
            tally.add(where, found)
            fired = fired or bool(found["fired"])
            if found["raised"] is None:
                break  # there is nothing to go on from
        return fired


@contextmanager
def running(scratch: Path, backends: Iterable[str]) -> Iterator[Runs]:
    """Start the process that makes runs in *scratch*."""
    environment = {**os.environ, "LD_PRELOAD": str(build(scratch))}
    command = [sys.executable, str(_PROGRAM), str(scratch), *backends]
    with subprocess.Popen(  # our own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        yield Runs(server)
        assert server.stdin is not None
        server.stdin.close()


def subjects(
    backends: Iterable[str], operations: Iterable[str], kinds: Iterable[str]
) -> Iterator[Subject]:
    """Yield every owner's *operations* on the engines of *backends* and with stores of *kinds*."""
    for operation, backend, kind in product(operations, backends, kinds):
        for owner in OPERATIONS[operation].owners:
            if owner != "staged" or kind == "key-value":  # its rows are of this kind
                yield Subject(operation=operation, owner=owner, backend=backend, kind=kind)


def _ways(subject: Subject) -> tuple[str, ...]:
    return OPERATIONS[subject.operation].going_on


def _named(subject: Subject) -> str:
    return f"{subject.operation} of {subject.owner} {subject.kind} on {subject.backend}"


def _main(backends: str, operations: str = ",".join(OPERATIONS), kinds: str = "key-value") -> None:
    """Make every run of a part of the net, and print what was found."""
    engines = backends.split(",")
    with tempfile.TemporaryDirectory() as scratch, running(Path(scratch), engines) as runs:
        for subject in subjects(engines, operations.split(","), kinds.split(",")):
            tally = Tally()
            runs.every(subject, tally)
            print(f"{_named(subject)}: {tally}", *tally.violations, sep="\n  ", flush=True)  # noqa: T201  # the program's output


if __name__ == "__main__":
    _main(*sys.argv[1:])
