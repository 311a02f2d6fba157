"""A report as Markdown, for a pull request or a repository."""

from statestores_conformance.report.model import Report
from statestores_conformance.report.summary import facts


def to_markdown(report: Report) -> str:
    """Return *report* as a Markdown document."""
    lines = [f"# Conformance of `{_cell(report.backend)}`", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in facts(report)]
    lines += ["", "## Levels", "", "| level | status | reason |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.status} | {_cell(row.reason)} |" for row in report.levels]
    if report.problems:
        lines += ["", "## Problems", "", *(f"- {_cell(problem)}" for problem in report.problems)]
    if report.failures:
        lines += ["", "## Failures", ""]
        for failure in report.failures:
            cited = ", ".join(failure.requirements)
            lines += [
                (
                    f"- `{_cell(failure.test)}` ({cited}), in {_cell(failure.step)}: "
                    f"{_cell(failure.reason)}"
                )
            ]
    if report.timeouts:
        lines += ["", "## Timed out", ""]
        lines += [
            f"- `{_cell(each.test)}` ({', '.join(each.requirements)}), in {_cell(each.step)}: "
            f"{_cell(each.reason)}"
            for each in report.timeouts
        ]
    lines += ["", "## Requirements", ""]
    lines += [
        "| id | | level | status | tests | requirement | reason |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.id} | {row.obligation} | {row.level} | {row.status} | {row.passed} "
        f"| {_cell(row.text)} | {_cell(row.reason)} |"
        for row in report.requirements
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Return *text* such that it cannot end its cell; it comes from third-party code."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
