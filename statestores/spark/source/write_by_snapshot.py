"""Batch writes that leave snapshots: which ones do, what tasks stage for them, and how they count.

In a directory the rows of such a write are in no changelog: the store is the next generation of
partitions, each a snapshot. In an object store the log has them, and has snapshots beside it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from statestores.errors import CommitConflictError, InvalidOptionError, StateStoreError
from statestores.root_document import TOPOLOGY_NOTE, Placement
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.scratch import scratch_place
from statestores.spark.source.publishing import Staged, publishing_when_free
from statestores.spark.source.write_conflicts import check_conflict, present_ends
from statestores.spark.source.write_plan import WritePlan

if TYPE_CHECKING:
    import pyarrow as pa

    from statestores.staging.sorted_rows import SortedRows

_NEVER: Final = "never"
_ALWAYS: Final = "always"
_log = logging.getLogger(__name__)


def by_snapshot(plan: WritePlan, options: SourceOptions, *, overwrite: bool) -> bool:
    """Return whether the write of *plan* leaves snapshots.

    With ``auto`` it does where the store has nothing yet; with ``always`` also where it replaces
    what the store has.

    Raises:
        InvalidOptionError: It should, and cannot: it would add to what is there, or somebody else
            decides about the partitions.
        StateStoreError: The store cannot be read.
    """
    wanted, name = options.snapshot, plan.specification.name
    if wanted == _NEVER or plan.skipped:
        return False
    root = plan.root.find()
    entry = None if root is None else root.stores.get(name)
    if root is None or entry is None:
        return not _is_topology(plan, wanted)
    has_content = any(present_ends(root, name).values())
    if has_content and wanted == _ALWAYS and not overwrite:
        raise InvalidOptionError(
            f"the option 'snapshot' is always, and the store {name!r} has content already, which "
            "this write would add to: leave the option out, and call "
            "statestores.spark.write_snapshots() after it; or save with the mode overwrite"
        )
    if has_content and wanted != _ALWAYS:
        return False
    if plan.root.directory is not None and entry.placement is Placement.TASK:
        if wanted == _ALWAYS:
            raise InvalidOptionError(
                f"the option 'snapshot' is always, and the tasks that write {name!r} place its keys"
                ", for whom its partitions stay where they are; leave the option out"
            )
        return False
    return not _is_topology(plan, wanted)


def _is_topology(plan: WritePlan, wanted: str) -> bool:
    """Return whether the root is the state of a topology, whose partitions stay where they are.

    Raises:
        InvalidOptionError: It is, and a snapshot is *wanted* always.
    """
    directory = plan.root.directory
    if directory is None or not (directory / TOPOLOGY_NOTE).is_file():
        return False
    if wanted == _ALWAYS:
        raise InvalidOptionError(
            f"the option 'snapshot' is always, and {str(directory)!r} is the state of a topology, "
            "whose partitions stay where they are; leave the option out"
        )
    return True


def are_sorted(plan: WritePlan) -> bool:
    """Return whether the tasks of *plan* sort their rows."""
    from statestores.staging.sorted_rows import SORTED_KINDS  # noqa: PLC0415  # needs pyarrow

    in_directory = plan.root.directory is not None
    return plan.by_snapshot and in_directory and plan.specification.kind in SORTED_KINDS


def stage_sorted(
    plan: WritePlan, write_id: str, attempt: str, changes: "Iterable[pa.RecordBatch]"
) -> "SortedRows":
    """Stage *changes* of one *attempt* of a task, sorted.

    Raises:
        InvalidArgumentError, InvalidTypeError: They cannot be changes of the store.
        StorageError: They cannot be staged.
    """
    from statestores.staging.sorted_rows import SortedStager  # noqa: PLC0415  # needs pyarrow

    with SortedStager(
        plan.root.require_directory(),
        plan.specification,
        plan.partitions,
        write_id,
        attempt,
        scratch=scratch_place(),
    ) as stager:
        for batch in changes:
            stager.add(batch)
        return stager.finish()


def replace_by_snapshots(
    plan: WritePlan,
    write_id: str,
    staged: Sequence[Staged],
    *,
    overwrite: bool,
    expected_ends: Mapping[int, int],
) -> None:
    """Have the store in a directory hold what is *staged*; it is made if need be.

    Raises:
        CommitConflictError: Another program has written to it since this was planned.
        StoreLockedError: Somebody had the store for as long as ``commitTimeout`` says.
        StateStoreError: It cannot be done; the store is as it was.
    """
    from statestores.resharding.replacing import (  # noqa: PLC0415  # needs pyarrow
        remove_replaced,
        replace_content,
    )
    from statestores.staging.staged_objects import StagedObjects  # noqa: PLC0415

    name = plan.specification.name
    rows = [each for each in staged if not isinstance(each, StagedObjects)]
    with publishing_when_free(plan) as publisher:
        check_conflict(name, publisher.end_offsets, expected_ends)
        if not overwrite and any(publisher.end_offsets.values()):
            raise CommitConflictError(
                f"the store {name!r} had nothing when this write was planned, and another program "
                "has written to it meanwhile, which the snapshots of this write would replace. "
                "Nothing of this write is there; repeat it"
            )
        root = plan.root.open()
        replace_content(root, name, write_id, rows, publisher)
    try:
        remove_replaced(root, name)
    except StateStoreError as error:
        _log.warning(
            "%s is written, and the files that it had before could not be removed: %s; the next "
            "reshard or write by snapshot removes them",
            name,
            error,
        )


def write_object_snapshots(plan: WritePlan) -> None:
    """Write a snapshot of each partition of the store in an object store, which has this write.

    One that cannot be written is said in a log message: the write counts.
    """
    from statestores.upkeep.snapshots import FileSnapshot  # noqa: PLC0415  # needs pyarrow

    specification = plan.specification
    for number in range(plan.partitions):
        try:
            FileSnapshot(
                directory=plan.root.partition(specification, plan.partitions, number),
                number=number,
                specification=specification,
            )()
        except StateStoreError as error:
            _log.warning(
                "%s is written, and has no snapshot in partition %d: %s; call "
                "statestores.spark.write_snapshots()",
                specification.name,
                number,
                error,
            )


def write_due_snapshots(plan: WritePlan, batch: int) -> None:
    """Write the snapshots that are due in the micro-batch *batch* of a stream, and drop old ones.

    For one task of it. Partitions take turns, so that no micro-batch has to wait for all of them.
    Each is of what was committed before this micro-batch.

    Raises:
        StateStoreError: A partition cannot be read, or its snapshot not be written.
    """
    from statestores.upkeep.snapshots import FileSnapshot, keep_newest  # noqa: PLC0415

    interval = plan.snapshot_interval
    if interval is None or batch < interval:
        return
    present = plan.root.find()
    if present is None or plan.specification.name not in present.stores:
        return
    for number in range(batch % interval, plan.partitions, interval):
        place = plan.root.partition(plan.specification, plan.partitions, number)
        written = FileSnapshot(directory=place, number=number, specification=plan.specification)()
        if written is not None and written.written:
            keep_newest(place)
