"""A report as JSON, and back: what programs read, and what the support matrix is made from."""

import json
from dataclasses import asdict
from typing import Any

from statestores.errors import UnsupportedFormatError
from statestores_conformance.report.model import (
    FORMAT_VERSION,
    Failure,
    LevelResult,
    Report,
    RequirementResult,
    Status,
)


def to_json(report: Report) -> str:
    """Return *report* as a JSON document."""
    content = {"format_version": FORMAT_VERSION, "conforms": report.conforms, **asdict(report)}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def from_json(text: str) -> Report:
    """Return the report that `to_json` wrote.

    Raises:
        UnsupportedFormatError: It has another format version.
    """
    content: dict[str, Any] = json.loads(text)
    found = content.pop("format_version", None)
    if found != FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"the report has format version {found!r}, expected {FORMAT_VERSION}; "
            "run the suite again, or read it with the release that wrote it"
        )
    del content["conforms"]  # follows from the rest
    levels = tuple(
        LevelResult(name=row["name"], status=Status(row["status"]), reason=row["reason"])
        for row in content.pop("levels")
    )
    requirements = tuple(
        RequirementResult(
            **{**row, "status": Status(row["status"]), "failures": tuple(row["failures"])}
        )
        for row in content.pop("requirements")
    )
    failures = tuple(Failure(**row) for row in _with_tuples(content.pop("failures")))
    timeouts = tuple(Failure(**row) for row in _with_tuples(content.pop("timeouts", [])))
    problems = tuple(content.pop("problems"))
    return Report(
        levels=levels,
        requirements=requirements,
        failures=failures,
        timeouts=timeouts,
        problems=problems,
        **content,
    )


def _with_tuples(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of failures as they were before they were written."""
    return [{**row, "requirements": tuple(row["requirements"])} for row in rows]
