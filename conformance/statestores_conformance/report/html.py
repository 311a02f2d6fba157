"""A report as one HTML page that needs nothing else."""

from html import escape

from statestores_conformance.report.badge import to_badge
from statestores_conformance.report.model import Report
from statestores_conformance.report.summary import facts

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; width: 100% }
td, th { border-bottom: 1px solid #ddd; padding: .25rem .5rem; text-align: left }
td { vertical-align: top }
pre { background: #f6f6f6; overflow: auto; padding: .5rem }
.proved { color: #1a7f37 } .failed { color: #cf222e; font-weight: bold }
.not-promised { color: #9a6700 } .not-run { color: #59636e }
"""


def to_html(report: Report) -> str:
    """Return *report* as an HTML document."""
    title = f"Conformance of {escape(report.backend)}"
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style><h1>{title}</h1>{to_badge(report)}",
        _table([], [[escape(name), escape(value)] for name, value in facts(report)]),
        "<h2>Levels</h2>",
        _table(
            ["level", "status", "reason"],
            [[row.name, _status(row.status), escape(row.reason)] for row in report.levels],
        ),
    ]
    if report.problems:
        items = "".join(f"<li>{escape(problem)}" for problem in report.problems)
        parts.append(f"<h2>Problems</h2><ul>{items}</ul>")
    if report.failures:
        parts.append("<h2>Failures</h2>")
    for failure in report.failures:
        cited = escape(", ".join(failure.requirements))
        parts.append(
            f"<h3><code>{escape(failure.test)}</code></h3>"
            f"<p>{cited}, in {escape(failure.step)}: {escape(failure.reason)}</p>"
            f"<details><summary>detail</summary><pre>{escape(failure.detail)}</pre></details>"
        )
    rows = [
        [
            f'<span id="{row.id}">{row.id}</span>',
            row.obligation,
            row.level,
            _status(row.status),
            str(row.passed),
            escape(row.text),
            escape(row.reason),
        ]
        for row in report.requirements
    ]
    heading = ["id", "", "level", "status", "tests", "requirement", "reason"]
    parts += ["<h2>Requirements</h2>", _table(heading, rows), "</html>"]
    return "\n".join(parts) + "\n"


def _status(status: str) -> str:
    return f'<span class="{status.replace(" ", "-")}">{status}</span>'


def _table(heading: list[str], rows: list[list[str]]) -> str:
    """Return a table of already escaped cells."""
    head = "".join(f"<th>{cell}" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
    return f"<table>{'<tr>' + head if heading else ''}{body}</table>"
