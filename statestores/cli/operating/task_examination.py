"""Looking at what the tasks of a state root keep beside their stores. Nothing is changed."""

from collections.abc import Iterator

from statestores.cli.operating.symptoms import Diagnosis, Symptom
from statestores.errors import UnsupportedFormatError
from statestores.state_root import StateRoot
from statestores.verification.task_records import check_task_records


def damaged_tasks(wrong: Diagnosis, root: StateRoot) -> Iterator[Symptom]:
    """Yield what keeps a task of *root* from being opened, though its stores are whole."""
    for finding in check_task_records(root):
        if finding.is_failure:
            is_newer = isinstance(finding.error, UnsupportedFormatError)
            code = "newer-format" if is_newer else "task-damaged"
            yield wrong(code, finding.path, finding.detail)
