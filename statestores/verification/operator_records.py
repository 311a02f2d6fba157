"""Checks of what operators of Spark's queries keep beside their stores: the last micro-batch.

What keeps a query from going on is found here, as its next start would read it. The query may run
meanwhile.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.object_log.catching_up import catch_up
from statestores.object_log.driver import run
from statestores.reading.locations import changelog_end
from statestores.root_document import OPERATORS_DIRECTORY
from statestores.staging.operator_file import RECORD_FILE, BatchRecord, read_record
from statestores.staging.operator_record import OperatorNames
from statestores.staging.operator_steps import find_anchor, find_last
from statestores.staging.staged_rows import check_staged
from statestores.staging.write_intent import read_intent, write_directory
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage
from statestores.verification.findings import Finding, Status

_RECORD = "micro-batch"


def check_operator_records(root: StateRoot) -> Iterator[Finding]:
    """Check the last micro-batch of each operator on *root*; yield a finding for each (TSK-23).

    An operator that has committed none has none. Nothing is changed, carried out or locked.
    """
    if root.storage is None:
        yield from _check_directories(root)
    else:
        yield from _check_objects(root, root.storage)


def _check_directories(root: StateRoot) -> Iterator[Finding]:
    operators = root.path / OPERATORS_DIRECTORY
    try:
        with reporting("read", operators):
            directories = sorted(each for each in operators.glob("*") if each.is_dir())
    except StateStoreError as error:
        yield Finding(_RECORD, operators, Status.DAMAGED, str(error), error)
        return
    for directory in directories:
        place = directory / RECORD_FILE
        try:
            found = _examined(root, directory)
        except StateStoreError as error:
            yield _damaged(place, error)
            continue
        if found is not None:
            record, behind = found
            yield _whole(place, f"{record.number} of the query {record.query!r}", behind)


def _examined(root: StateRoot, directory: Path) -> tuple[BatchRecord, list[str]] | None:
    """Return the record in *directory*, and which stores do not have it yet; ``None`` if none is.

    Raises:
        StateStoreError: A query could not go on from it.
    """
    seen = _seen(root, directory)
    while seen is not None:
        record, behind = seen
        try:
            _check_record(root, directory, record, behind)
        except StateStoreError:
            again = _seen(root, directory)
            if again == seen:
                raise
            seen = again  # a query has gone on meanwhile
        else:
            break
    return seen


def _seen(root: StateRoot, directory: Path) -> tuple[BatchRecord, list[str]] | None:
    record = read_record(directory)
    if record is None:
        return None
    intents = {name: read_intent(root.home(name)) for name in record.stores}
    behind = [
        name
        for name, intent in intents.items()
        if intent is None or not record.batch.is_in(intent.batches)
    ]
    return record, behind


def _check_record(root: StateRoot, directory: Path, record: BatchRecord, behind: list[str]) -> None:
    """Accept a *record* that every store has, or can still get from what is staged for it.

    What it has emitted may be gone, once a sink has it.

    Raises:
        StateStoreError: It is not so.
    """
    if record.operator != directory.name:
        raise StoreCorruptedError(
            f"{str(directory / RECORD_FILE)!r} is the record of {record.operator!r}, and lies "
            f"where that of {directory.name!r} is looked for; put it back from a copy"
        )
    for name, changes in record.stores.items():
        if name in behind:
            check_staged(write_directory(root.home(name), record.write_id), changes.files)
        record.check_ends(name, _ends(root, name), is_done=name not in behind)
    emitted = directory / record.write_id
    check_staged(emitted, [each for each in record.outputs if (emitted / each.name).exists()])


def _ends(root: StateRoot, store: str) -> dict[int, int]:
    """Return where the changelogs of *store* end."""
    entry = root.store(store)
    return {
        number: changelog_end(root.partition(store, number), entry.specification)
        for number in range(entry.partitions)
    }


def _check_objects(root: StateRoot, storage: ObjectStorage) -> Iterator[Finding]:
    prefix = f"{OPERATORS_DIRECTORY}/"
    try:
        operators = sorted({each.name.split("/")[1] for each in storage.list(prefix)})
    except StateStoreError as error:
        place = f"{storage.url}/{OPERATORS_DIRECTORY}"
        yield Finding(_RECORD, place, Status.DAMAGED, str(error), error)
        return
    for operator in operators:
        names = OperatorNames(operator, storage.url)
        place = f"{storage.url}/{prefix}{operator}"
        try:
            anchor = run(find_anchor(names), storage)
            if anchor is None:
                continue  # its first driver has chosen none yet
            last = run(find_last(names, root.object_log(anchor).names, ()), storage).record
            if last is None:
                continue
            behind = []
            for name, part in last.stores.items():
                view = run(catch_up(root.object_log(name).names, ()), storage)
                if part.staged and view.batches.get(names.stream, -1) < last.number:
                    behind.append(name)
        except StateStoreError as error:
            yield _damaged(place, error)
            continue
        yield _whole(place, f"record {last.number}", behind)


def _damaged(place: Path | str, error: StateStoreError) -> Finding:
    return Finding(_RECORD, place, Status.DAMAGED, str(error), error)


def _whole(place: Path | str, what: str, behind: Iterable[str]) -> Finding:
    """Say *what* is whole at *place*, and which stores are *behind* it."""
    names = ", ".join(repr(name) for name in behind)
    words = f"; {names} not yet: the next start of the query carries it out" if names else ""
    return Finding(_RECORD, place, Status.OK, what + words, is_unfinished=bool(names))
