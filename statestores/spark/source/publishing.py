"""What a write does with rows: tasks stage them, and the driver publishes all of them or none.

In a directory the driver has the locks of the store meanwhile, and appends what is staged. In an
object store one put names what is staged, which is the data from then on. Either way a commit waits
while somebody else has the store.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from statestores.errors import StoreMismatchError, StoreReshardedError
from statestores.files.lock_waiting import when_unlocked
from statestores.root_document import Placement
from statestores.spark.source.write_conflicts import check_conflict
from statestores.spark.source.write_plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from statestores.staging.sorted_rows import SortedRows
    from statestores.staging.staged_objects import StagedObjects
    from statestores.staging.staged_write import Publisher, StagedRows
    from statestores.staging.write_intent import StreamBatch
    from statestores.state_root import StateRoot

_OPTION: Final = "the option 'commitTimeout'"

Staged: TypeAlias = "StagedRows | SortedRows | StagedObjects"
"""What a task has staged, in a directory or in an object store."""


def stage_rows(
    plan: WritePlan, write_id: str, attempt: str, changes: "Iterable[pa.RecordBatch]"
) -> Staged:
    """Stage *changes* of one *attempt* of a task, which has a name of its own.

    Raises:
        InvalidArgumentError, InvalidTypeError: They cannot be changes of the store.
        CommitInDoubtError, StorageError: They cannot be staged.
    """
    directory, specification = plan.root.directory, plan.specification
    if directory is None:
        from statestores.staging.staged_objects import stage_objects  # noqa: PLC0415  # needs pyarrow

        log = plan.root.object_log(specification, plan.partitions)
        return stage_objects(log, specification, changes)
    from statestores.staging.staged_write import stage  # noqa: PLC0415

    return stage(directory, specification, plan.partitions, write_id, attempt, changes)


def publish_rows(
    plan: WritePlan,
    write_id: str,
    staged: Sequence[Staged],
    *,
    overwrite: bool,
    expected_ends: Mapping[int, int] | None = None,
    batch: "StreamBatch | None" = None,
) -> None:
    """Have what tasks have *staged* count, in that order; the store is made if need be.

    With *expected_ends* only behind these. A *batch* of a stream counts once.

    Raises:
        CommitConflictError: The store does not end as expected; nothing was written.
        StoreMismatchError: The store has a later *batch* of the stream than this one, or lacks the
            one before it.
        StoreLockedError: Somebody had the store for as long as ``commitTimeout`` says.
        StateStoreError: It cannot be published.
    """
    if plan.root.directory is None:
        _publish_objects(
            plan, staged, overwrite=overwrite, expected_ends=expected_ends, batch=batch
        )
        return
    from statestores.staging.staged_write import StagedRows  # noqa: PLC0415  # needs pyarrow

    with publishing_when_free(plan) as publisher:
        check_conflict(plan.specification.name, publisher.end_offsets, expected_ends or {})
        if batch is not None:
            _check_checkpoint(plan.specification.name, batch, publisher.last_batch(batch.stream))
        publisher.publish(
            write_id,
            [each for each in staged if isinstance(each, StagedRows)],
            "overwrite" if overwrite else "append",
            batch=batch,
        )


def _check_checkpoint(store: str, batch: "StreamBatch", last: int | None) -> None:
    """Accept a batch behind the *last* one that *store* has of its stream, or that one again.

    Spark repeats no other, so the rows of one before that are others than those that were published
    under its number. It leaves none out, so before one that is further on some are missing.

    Raises:
        StoreMismatchError: It is another one (SPK-10, SPK-11).
    """
    if last is None or last <= batch.number <= last + 1:
        return
    older = "checkpoint is" if batch.number < last else "store is"
    also = "" if batch.number < last else ", or the query has written to another one meanwhile"
    raise StoreMismatchError(
        f"the store {store!r} has the micro-batch {last} of the query {batch.stream!r}, whose "
        f"checkpoint goes on with {batch.number}: the {older} an older copy{also}; put back the "
        "newest one, or begin with a new checkpoint"
    )


def discard_rows(plan: WritePlan, write_id: str) -> None:
    """Remove what was staged for a write that will not be published.

    In an object store nobody can tell here whether it was: the commit may have happened and its
    answer be lost, or happen still. What does not count is left to a vacuum (OBJ-33).

    Raises:
        StorageError: It cannot be removed.
    """
    if plan.root.directory is None:
        return
    from statestores.staging.staged_write import discard  # noqa: PLC0415  # needs pyarrow

    discard(plan.root.directory, plan.specification.name, write_id)


@contextmanager
def publishing_when_free(plan: WritePlan) -> "Iterator[Publisher]":
    """Give the publisher of the store of *plan* in a directory, which is made if need be.

    Waits while another publishes, an owner has a partition open, or somebody adds a store.

    Raises:
        StoreLockedError: That was so for as long as the option ``commitTimeout`` says.
        StoreMismatchError, StoreCorruptedError, StorageError: The store is another one, or cannot
            be opened.
    """
    from statestores.staging.staged_write import publishing  # noqa: PLC0415  # needs pyarrow

    name = plan.specification.name
    with ExitStack() as held:

        def take() -> "Publisher":
            root = _root_with_store(plan)
            return held.enter_context(publishing(root, name))

        yield when_unlocked(take, plan.commit_timeout_ms, f"the write to {name!r}", _OPTION)


def _publish_objects(
    plan: WritePlan,
    staged: Sequence[Staged],
    *,
    overwrite: bool,
    expected_ends: Mapping[int, int] | None,
    batch: "StreamBatch | None",
) -> None:
    """Have what is *staged* count in an object store."""
    from statestores.staging.object_write import ObjectWrite  # noqa: PLC0415  # needs pyarrow
    from statestores.staging.staged_objects import StagedObjects  # noqa: PLC0415

    name = plan.specification.name
    root = _root_with_store(plan)
    accept = None
    if expected_ends:
        accept = partial(check_conflict, name, expected=expected_ends)
    write = ObjectWrite(
        log=root.object_log(name),
        specification=plan.specification,
        staged=[each for each in staged if isinstance(each, StagedObjects)],
        overwrite=overwrite,
        batch=batch,
        accept=accept,
        accept_batches=None if batch is None else partial(_check_batches, name, batch),
    )
    is_new = when_unlocked(write.commit, plan.commit_timeout_ms, f"the write to {name!r}", _OPTION)
    if batch is not None and not is_new:
        _check_batches(name, batch, write.log.view(()).batches)


def _check_batches(store: str, batch: "StreamBatch", batches: Mapping[str, int]) -> None:
    """Do as `_check_checkpoint`, *batches* being the last one of each stream."""
    _check_checkpoint(store, batch, batches.get(batch.stream))


def _root_with_store(plan: WritePlan) -> "StateRoot":
    """Return the root, which has the store of *plan*, and it is the one that was planned for.

    Raises:
        StoreReshardedError: It has another number of partitions since.
        StoreMismatchError, StoreLockedError, StorageError: As `StateRoot.add_store`.
    """
    root, specification, planned = plan.root.create(), plan.specification, plan.partitions
    present = root.stores.get(specification.name)
    replaced = present is not None and (present.generation or present.log_generation)
    if present is not None and replaced and present.partitions != planned:
        raise StoreReshardedError(
            f"the store {specification.name!r} of {plan.root.shown!r} had {planned} partitions "
            f"when this write was planned, and has been resharded to {present.partitions} since. "
            "Nothing of this write is there: repeat it, or start the query again"
        )
    placement = _placement(root, specification.name)
    root.add_store(specification, partitions=planned, placement=placement)
    return root


def _placement(root: "StateRoot", store: str) -> Placement | None:
    """Return who places the keys of *store*, if this is its first write: the partitioner.

    Of a store that is there, whoever has written to it knows.
    """
    return None if store in root.stores else Placement.PARTITIONER
