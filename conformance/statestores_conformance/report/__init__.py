"""What a run found out, and the forms in which it is written down."""

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
    "Failure",
    "LevelResult",
    "Report",
    "RequirementResult",
    "Status",
]
