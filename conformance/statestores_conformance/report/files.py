"""Reports as files: the extension of the name decides the form."""

from collections.abc import Callable
from pathlib import Path

from statestores.errors import InvalidOptionError
from statestores_conformance.report.badge import to_badge
from statestores_conformance.report.html import to_html
from statestores_conformance.report.json_form import to_json
from statestores_conformance.report.junit import to_junit
from statestores_conformance.report.markdown import to_markdown
from statestores_conformance.report.model import Report

FORMS: dict[str, Callable[[Report], str]] = {
    ".json": to_json,
    ".md": to_markdown,
    ".html": to_html,
    ".xml": to_junit,
    ".svg": to_badge,
}
"""The form for each extension."""


def check_name(path: Path) -> None:
    """Raise unless the extension of *path* is that of a form.

    Raises:
        InvalidOptionError: The message lists the known extensions.
    """
    if path.suffix not in FORMS:
        known = ", ".join(FORMS)
        raise InvalidOptionError(f"{str(path)!r} is of no known form; known extensions: {known}")


def write_report(report: Report, path: Path) -> None:
    """Write *report* to *path*, in the form of its extension; an existing file is replaced.

    Raises:
        InvalidOptionError: The extension is of no form.
    """
    check_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A reason may contain a lone surrogate, which is not UTF-8.
    path.write_text(FORMS[path.suffix](report), "utf-8", errors="backslashreplace")
