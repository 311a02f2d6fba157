"""Kills in thousands, for an evening: ``python -m statestores_conformance.kills rocksdb sqlite``.

Four in five come at random, one in five at a named failpoint. It prints a line for each backend and
kind as it goes, a table of all at the end, and fails when there is any violation.
"""

import argparse
import sys
import time

from statestores_conformance.faults.crash import run_kills
from statestores_conformance.faults.crash_workload import WORKLOADS

_ROUND = 50
_FAILPOINT_EVERY = 5
"""One round in this many is of failpoints."""


def main(arguments: list[str] | None = None) -> int:
    """Kill as often as *arguments* say; return 1 if there was any violation, else 0."""
    parser = argparse.ArgumentParser(prog="python -m statestores_conformance.kills")
    parser.add_argument("backends", nargs="+", metavar="BACKEND", help="a name, or module:Class")
    parser.add_argument("--kills", type=int, default=1_000, help="for each backend and kind")
    parser.add_argument("--seed", type=int, default=1035)
    parser.add_argument("--kind", action="append", choices=list(WORKLOADS), help="all by default")
    chosen = parser.parse_args(arguments)
    rows = [
        (backend, kind, *_kill(backend, kind, chosen.kills, chosen.seed))
        for backend in chosen.backends
        for kind in chosen.kind or WORKLOADS
    ]
    print("\n| backend | kind | kills | at failpoints | seconds | violations |")  # noqa: T201
    print("|---|---|---|---|---|---|")  # noqa: T201
    for backend, kind, kills, named, seconds, violations in rows:
        print(  # noqa: T201
            f"| {backend} | {kind} | {kills:,} | {named:,} | {seconds:,.0f} | {violations} |"
        )
    return int(any(row[-1] for row in rows))


def _kill(backend: str, kind: str, kills: int, seed: int) -> tuple[int, int, float, int]:
    """Return how many kills there were, how many of them at failpoints, seconds, and violations."""
    began = time.monotonic()
    done = named = violations = 0
    while done < kills:
        number = min(_ROUND, kills - done)
        at_failpoints = (done // _ROUND) % _FAILPOINT_EVERY == _FAILPOINT_EVERY - 1
        report = run_kills(
            backend,
            number,
            seed + done,
            kind=kind,
            failpoints=WORKLOADS[kind].failpoints if at_failpoints else (),
        )
        done += number
        named += number if at_failpoints else 0
        violations += len(report.violations)
        for violation in report.violations:
            print(f"{backend}, {kind}: {violation}", flush=True)  # noqa: T201
        print(f"{backend}, {kind}: {done:,} kills, {violations} violations", flush=True)  # noqa: T201
    return done, named, time.monotonic() - began, violations


if __name__ == "__main__":
    sys.exit(main())
