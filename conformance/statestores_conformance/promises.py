"""Promises that a backend may make, and how the run reports those that it does not make.

A test that needs a promise is skipped by name, never passed by an early return, and the run ends
with the list of promises that were not made.
"""

from collections import Counter

import pytest

PREFIX = "promise not made: "
"""How the reason of such a skip begins; reports look for it."""

NOT_APPLICABLE = "does not apply: "
"""Likewise for tests of how something is refused that the backend does not refuse."""


def skip_unless_promised(promise: str, *, made: bool) -> None:
    """Skip the running test, naming *promise*, unless it is *made*."""
    if not made:
        pytest.skip(PREFIX + promise)


def skip_because_promised(promise: str, *, made: bool) -> None:
    """Skip the running test of how a missing promise is refused, if *promise* is *made*."""
    if made:
        pytest.skip(f"{NOT_APPLICABLE}promises {promise}")


def report_promises_not_made(reporter: pytest.TerminalReporter) -> None:
    """Write for each test class which promises it did not make, and how many tests were skipped."""
    missing: Counter[tuple[str, str]] = Counter()
    for report in reporter.stats.get("skipped", []):
        where = report.longrepr
        reason = where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else ""
        if reason.startswith(PREFIX):
            # The author's class, whatever the group of tests inside it.
            subject = "::".join(report.nodeid.split("::")[:2])
            missing[subject, reason.removeprefix(PREFIX)] += 1
    if missing:
        reporter.section("promises not made")
        for (subject, promise), tests in sorted(missing.items()):
            noun = "test" if tests == 1 else "tests"
            reporter.write_line(f"{subject}: {promise} ({tests} {noun} skipped)")
