"""A reshard into another state root, in an object store, from a directory or an object store.

The partitions lie under an id of the attempt, where nobody looks, until ``statestores.json`` names
it: that replacement, or its creation where there is no state root yet, is the commit point. So of
two that bring a store of one name one comes second, and an attempt that dies leaves nothing that
counts, and no state root (RSH-22).
"""

from contextlib import suppress

from statestores.errors import (
    CommitInDoubtError,
    StorageError,
    StoreMismatchError,
    StoreReshardedError,
)
from statestores.failpoints import reach
from statestores.files.scratch_directory import scratch_directory
from statestores.object_log import ObjectLog
from statestores.object_log.changelog import unique_id
from statestores.object_log.driver import run
from statestores.object_log.generations.beginning import begin_copy
from statestores.object_log.names import write_id
from statestores.resharding.fence import fenced
from statestores.resharding.in_objects import remove_made
from statestores.resharding.left_over import behind_the_commit_point
from statestores.resharding.object_exchange import ObjectExchange
from statestores.resharding.work import ReshardReport, Work
from statestores.root_document import OPERATORS_DIRECTORY, Placement, StoreEntry
from statestores.storage import ObjectStorage
from statestores.stores_in_objects import add_copied_store, refuse_copied_store
from statestores.text.advice import ROOT_FINDS_OUT


def into_objects(
    work: Work, target: ObjectStorage, timeout_ms: int, *, drop_expired: bool
) -> ReshardReport:
    """Write the store into the root of *target*, where it counts once the root names it.

    Raises:
        StoreMismatchError: The root has a store of the name.
        CommitInDoubtError: The object store does not answer, and nobody can tell whether it has.
        StateStoreError: As `reshard`; nothing that was made counts, and it is gone.
    """
    store, log_id = work.store, unique_id()
    refuse_copied_store(target, store)
    entry = StoreEntry(
        specification=work.entry.specification,
        partitions=work.partitions,
        placement=work.entry.placement or Placement.PARTITIONER,
        log_generation=write_id(0, unique_id()),
    )
    made = ObjectLog(
        storage=target,
        store=store,
        store_kind=entry.specification.kind,
        partitions=work.partitions,
        generation=entry.log_generation,
    )
    may_count = False
    try:
        with (
            scratch_directory() as scratch,
            fenced(work.source, store, timeout_ms) as fence,
        ):
            report, _ = work.build(
                fence,
                scratch,
                drop_expired=drop_expired,
                objects=made,
                log_id=log_id,
                exchange=ObjectExchange(made) if work.is_sent else None,
            )
        steps = begin_copy(
            made.names,
            log_id,
            store_kind=made.store_kind,
            partitions=made.partitions,
            begin=fence.offset + 1,
            position=fence.position,
            # Operators are of the root that they are in: this one knows of none.
            batches={
                stream: number
                for stream, number in fence.batches.items()
                if not stream.startswith(f"{OPERATORS_DIRECTORY}/")
            },
        )
        run(steps, target)
        reach("reshard.built")
        may_count = True
        add_copied_store(target, entry)
    except BaseException as error:
        if not may_count or isinstance(error, StoreMismatchError):
            remove_made(made)
        elif isinstance(error, StorageError):
            raise CommitInDoubtError(
                f"nobody can tell whether {target.url!r} has the store {store!r} now: the object "
                f"store does not answer; {ROOT_FINDS_OUT}"
            ) from error
        raise
    reach("reshard.noted")
    with behind_the_commit_point(store), suppress(StoreReshardedError):
        made.remove_dead()  # unless another reshard has come, which removes it
    return report
