"""Looking at what a state root has beside its stores. Nothing is changed."""

from collections.abc import Iterator

from statestores.cli.operating.symptoms import Diagnosis, Symptom
from statestores.errors import UnsupportedFormatError
from statestores.state_root import StateRoot
from statestores.verification.beside_stores import check_beside_stores

_CODES = {
    "task": "task-damaged",
    "task commit": "task-damaged",
    "topology": "topology-damaged",
    "micro-batch": "operator-damaged",
}


def symptoms_beside_stores(wrong: Diagnosis, root: StateRoot) -> Iterator[Symptom]:
    """Yield what keeps tasks, topologies and operators of *root* from going on, and what waits."""
    for finding in check_beside_stores(root):
        if finding.is_failure:
            is_newer = isinstance(finding.error, UnsupportedFormatError)
            code = "newer-format" if is_newer else _CODES[finding.check]
            yield wrong(code, finding.path, finding.detail)
        elif finding.is_unfinished:
            yield wrong("recorded-commit", finding.path, finding.detail)
