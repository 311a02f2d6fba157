"""``docs/backends.md``: what the reports of several backends say, side by side."""

from collections.abc import Sequence

from statestores_conformance.levels import LEVELS
from statestores_conformance.promises import NOT_APPLICABLE
from statestores_conformance.report.model import Report, RequirementResult, Status

_HEAD = """# Backends and what is proved of them

This page is made from the reports in [conformance/](conformance/) by `make reports`, and a test
compares them. Do not edit it. How to make such a report for a backend of your own:
[conformance.md](conformance.md).
"""

_MARKS = {
    Status.PROVED: "proved",
    Status.FAILED: "**failed**",
    Status.TIMED_OUT: "**timed out**",
    Status.NOT_PROMISED: "not promised",
    Status.NOT_RUN: "not run",
}


def to_matrix(reports: Sequence[Report]) -> str:
    """Return the page for *reports*, a column for each."""
    names = [report.backend for report in reports]
    lines = [_HEAD, *_heading("", names)]
    lines += [
        _row("", [f"![{name}](conformance/{name}.svg)" for name in names]),
        _row("level reached", [report.level or "none" for report in reports]),
        _row("stopped by", [report.stopped_by for report in reports]),
        *(_row(f"requirements {status}", _counts(reports, status)) for status in Status),
        _row("tests", [str(report.tests) for report in reports]),
        _row("run", [f"{report.profile}, seed {report.seed}" for report in reports]),
    ]
    lines += ["", "## Levels", "", *_heading("level", names, "what it means")]
    for place, level in enumerate(LEVELS):
        marks = [_MARKS[report.levels[place].status] for report in reports]
        lines.append(_row(level.name, marks, level.meaning))
    lines += ["", "A level is reached when it and all before it are proved.", ""]
    lines += ["## Promises", "", *_heading("capability", names)]
    for capability in reports[0].capabilities:
        marks = ["yes" if report.capabilities.get(capability) else "no" for report in reports]
        lines.append(_row(f"`{capability}`", marks))
    lines += ["", "What is not promised is refused, and that is tested as well.", ""]
    return "\n".join([*lines, *_requirements(reports)])


def _requirements(reports: Sequence[Report]) -> list[str]:
    """Return the rows of the requirements that some backend has not proved."""
    names = [report.backend for report in reports]
    found = [{row.id: row for row in report.requirements} for report in reports]
    rows = []
    for row in reports[0].requirements:
        results = [of_report.get(row.id) for of_report in found]
        if any(result is None or result.status is not Status.PROVED for result in results):
            marks = [_mark(result) for result in results]
            rows.append(_row(f"{row.id} ({row.obligation})", marks, row.text))
    everywhere = len(reports[0].requirements) - len(rows)
    return [
        "## Requirements that are not proved of every backend",
        "",
        *_heading("requirement", names, "what it says"),
        *rows,
        "",
        f"The other {everywhere} requirements are proved of all of them.",
        "",
    ]


def _mark(result: RequirementResult | None) -> str:
    """Return what was found, and why nothing could be: promises make some refusals pointless."""
    if result is None:
        return _MARKS[Status.NOT_RUN]
    applies = not result.reason.startswith(NOT_APPLICABLE)
    return _MARKS[result.status] if applies else result.reason


def _counts(reports: Sequence[Report], status: Status) -> list[str]:
    return [str(report.count(status)) for report in reports]


def _heading(first: str, names: Sequence[str], *last: str) -> list[str]:
    cells = [first, *names, *last]
    return [f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}"]


def _row(first: str, cells: Sequence[str], *last: str) -> str:
    whole = [first, *cells, *last]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in whole)} |"
