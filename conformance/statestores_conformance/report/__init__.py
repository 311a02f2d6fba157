"""What a run found out, and the forms in which it is written."""

from statestores_conformance.report.files import FORMS, write_report
from statestores_conformance.report.json_form import from_json, to_json
from statestores_conformance.report.model import (
    FORMAT_VERSION,
    Failure,
    LevelResult,
    Report,
    RequirementResult,
    Status,
)

__all__ = [
    "FORMAT_VERSION",
    "FORMS",
    "Failure",
    "LevelResult",
    "Report",
    "RequirementResult",
    "Status",
    "from_json",
    "to_json",
    "write_report",
]
