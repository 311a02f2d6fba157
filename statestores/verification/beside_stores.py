"""Checks of what lies in a state root beside its stores: of tasks, of a topology, of operators."""

from collections.abc import Iterator

from statestores.errors import StateStoreError
from statestores.root_document import TOPOLOGY_NOTE
from statestores.state_root import StateRoot
from statestores.topology_note import noted_topology
from statestores.verification.findings import Finding, Status
from statestores.verification.operator_records import check_operator_records
from statestores.verification.task_records import check_task_records

_NOTE = "topology"


def check_beside_stores(root: StateRoot) -> Iterator[Finding]:
    """Check what *root* has beside its stores; yield a finding for each thing (TSK-22, TSK-23).

    Nothing is changed, carried out or locked.
    """
    yield from _check_topology(root)
    yield from check_task_records(root)
    yield from check_operator_records(root)


def _check_topology(root: StateRoot) -> Iterator[Finding]:
    """Check what a topology has noted of itself, as its next run would read it."""
    storage = root.storage
    name = TOPOLOGY_NOTE.as_posix()
    place = root.path / name if storage is None else f"{storage.url}/{name}"
    try:
        note = noted_topology(root.path if storage is None else storage)
    except StateStoreError as error:
        words = f"{error}; put it back from a copy, for without it the topology does not run"
        yield Finding(_NOTE, place, Status.DAMAGED, words, error)
        return
    if note is not None:
        yield Finding(_NOTE, place, Status.OK, f"the state {note.state!r}")
