"""A report as one HTML page that needs nothing else: requirements are found by words and status."""

import re
from collections.abc import Sequence
from html import escape

from statestores_conformance.report.badge import to_badge
from statestores_conformance.report.model import Failure, Report
from statestores_conformance.report.summary import facts
from statestores_conformance.requirements import load_requirements

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; width: 100% }
td, th { border-bottom: 1px solid #ddd; padding: .25rem .5rem; text-align: left }
td { vertical-align: top }
pre { background: #f6f6f6; overflow: auto; padding: .5rem }
.proved { color: #1a7f37 } .failed { color: #cf222e; font-weight: bold }
.timed-out { color: #bc4c00; font-weight: bold }
.not-promised { color: #9a6700 } .not-run { color: #59636e }
tr:target { background: #fff8c5 } input { font: inherit; padding: .25rem .5rem; width: 24rem }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } a { color: #4493f8 }
  pre { background: #161b22 } td, th { border-color: #30363d } tr:target { background: #3b2e00 }
  .proved { color: #3fb950 } .failed { color: #f85149 }
}
"""

_FILTER = """
<p><label>Show only rows with <input id="words" type="search" placeholder="ENG failed"></label>
<script>
const rows = document.querySelectorAll("#requirements tr[id]");
document.getElementById("words").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
});
</script>
"""
"""A row is shown when it has every word that is typed."""

_CODE = re.compile("`([^`]+)`")


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
    parts += _failures("Failures", report.failures)
    parts += _failures("Timed out", report.timeouts)
    parts += ["<h2>Requirements</h2>", _FILTER, _requirements(report), "</html>"]
    return "\n".join(parts) + "\n"


def _failures(heading: str, failures: Sequence[Failure]) -> list[str]:
    """Return what is said of each of *failures*, with links to the requirements."""
    parts = [f"<h2>{heading}</h2>"] if failures else []
    for failure in failures:
        cited = ", ".join(f'<a href="#{name}">{name}</a>' for name in failure.requirements)
        parts.append(
            f"<h3><code>{escape(failure.test)}</code></h3>"
            f"<p>{cited}, in {escape(failure.step)}: {_prose(failure.reason)}</p>"
            f"<details><summary>detail</summary><pre>{escape(failure.detail)}</pre></details>"
        )
    return parts


def _requirements(report: Report) -> str:
    """Return the table of requirements; each row can be linked to, and says its chapter."""
    chapters = {row.id: row.chapter for row in load_requirements()}
    rows = []
    for row in report.requirements:
        chapter = escape(f"spec/{chapters[row.id]}" if row.id in chapters else "")
        cells = [
            f'<a href="#{row.id}" title="{chapter}">{row.id}</a>',
            row.obligation,
            row.level,
            _status(row.status),
            str(row.passed),
            _prose(row.text),
            _prose(row.reason),
        ]
        rows.append(f'<tr id="{row.id}">' + "".join(f"<td>{cell}" for cell in cells))
    names = ("id", "", "level", "status", "tests", "requirement", "reason")
    head = "".join(f"<th>{name}" for name in names)
    return f'<table id="requirements"><tr>{head}{"".join(rows)}</table>'


def _prose(text: str) -> str:
    """Return *text* as HTML; what is between backquotes is code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _status(status: str) -> str:
    return f'<span class="{status.replace(" ", "-")}">{status}</span>'


def _table(heading: list[str], rows: list[list[str]]) -> str:
    """Return a table of already escaped cells."""
    head = "".join(f"<th>{cell}" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
    return f"<table>{'<tr>' + head if heading else ''}{body}</table>"
