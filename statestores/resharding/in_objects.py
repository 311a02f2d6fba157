"""A store in an object store gets another number of partitions, in place (RSH-18).

Nobody is kept from writing, and nothing is held: there is no lock there. The content is taken from
one view of the log, in which no partition has an owner, and the entry that ends this log, by which
the new one counts, is put only behind that view. Whoever writes meanwhile, or opens a partition,
comes first, and the reshard raises. An operator of a query is fenced by the log of its anchor.
"""

import logging
from contextlib import suppress

from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    StateStoreError,
    StorageError,
    StoreLockedError,
    StoreReshardedError,
)
from statestores.failpoints import reach
from statestores.files.lock_waiting import when_unlocked
from statestores.files.scratch_directory import scratch_directory
from statestores.object_log.changelog import unique_id
from statestores.object_log.driver import run
from statestores.object_log.generations.ending import (
    begin_next,
    check_unowned,
    end_behind,
    end_log,
)
from statestores.object_log.log import ObjectLog
from statestores.object_log.names import write_id
from statestores.object_log.view import View
from statestores.resharding.fence import seen_in
from statestores.resharding.left_over import behind_the_commit_point
from statestores.resharding.object_exchange import ObjectExchange
from statestores.resharding.operators import keep_operators_out, settled_operators
from statestores.resharding.refusals import refuse_records
from statestores.resharding.work import ReshardReport, Work
from statestores.state_root import StateRoot
from statestores.text.advice import ROOT_FINDS_OUT

_log = logging.getLogger(__name__)

_NEVER_COUNTS = (CommitConflictError, StoreLockedError, StoreReshardedError)
"""What `end_log` raises when it is known that what was made never counts."""


def reshard_in_objects(
    work: Work, timeout_ms: int, *, drop_expired: bool, keep_old: bool
) -> ReshardReport:
    """Make the next log of the store, and have the one that is there end with it.

    Raises:
        InvalidArgumentError: A task or an operator has to be ended first, or cannot be.
        StoreLockedError: A partition has an owner for *timeout_ms* and longer.
        StateStoreError: As `statestores.resharding.reshard`.
    """
    root, store = work.source, work.store
    log = root.object_log(store)
    view = when_unlocked(
        lambda: _unowned(log), timeout_ms, f"the reshard of {store!r}", "timeout_ms"
    )
    refuse_records(log.storage, store)
    operators = settled_operators(root, log.storage, store, view)
    generation = write_id(view.next, unique_id())
    made = ObjectLog(
        storage=log.storage,
        store=store,
        store_kind=log.store_kind,
        partitions=work.partitions,
        generation=generation,
    )
    fence, may_count = seen_in(log, view), False
    try:
        with scratch_directory() as scratch:
            report, _ = work.build(
                fence,
                scratch,
                drop_expired=drop_expired,
                objects=made,
                log_id=view.checkpoint.log,
                exchange=ObjectExchange(made) if work.is_sent else None,
            )
        end = end_behind(view, generation, partitions=work.partitions)
        steps = begin_next(
            made.names,
            view,
            end,
            unique_id(),
            begin=fence.offset + 1,
            position=fence.position,
        )
        run(steps, log.storage)
        reach("reshard.built")
        root.note_log_may_end(store)
        reach("objects.reshard.announced")
        # What was recorded since is of an owner that the end finds, or that was fenced before.
        refuse_records(log.storage, store)
        keep_operators_out(operators, log.storage, store)
        may_count = True
        run(end_log(log.names, view, end), log.storage)
    except BaseException as error:
        if not may_count or isinstance(error, _NEVER_COUNTS):
            remove_made(made)
        elif isinstance(error, StorageError) and not isinstance(error, CommitInDoubtError):
            raise CommitInDoubtError(
                f"nobody can tell whether {store!r} of {log.storage.url!r} has {work.partitions} "
                f"partitions now ({error}); {ROOT_FINDS_OUT}"
            ) from error
        raise
    reach("objects.reshard.ended")
    with behind_the_commit_point(store):
        root.note_log_ended(store)
        reach("reshard.noted")
        remove_passed(root, store, keep_old=keep_old)
    return report


def remove_passed(root: StateRoot, store: str, *, keep_old: bool) -> None:
    """Remove what no reshard of *store* needs any more, and what its logs held that have ended.

    These stay with *keep_old*. What a reshard has put that may count yet stays as well.

    Raises:
        StateStoreError: It cannot be found out, or removed.
    """
    log = root.object_log(store)
    with suppress(StoreReshardedError):  # another reshard has come, which removes it
        log.remove_dead()
    if not keep_old:
        log.retire_former()


def _unowned(log: ObjectLog) -> View:
    """Return the log as it is now.

    Raises:
        StoreLockedError: Somebody owns a partition.
    """
    view = log.view(range(log.partitions))
    check_unowned(log.names, view)
    return view


def remove_made(made: ObjectLog) -> None:
    """Remove what a reshard has put that never counts; a vacuum does what this cannot."""
    try:
        for each in list(made.storage.list(f"{made.names.home}/")):
            made.storage.delete(each.name)
    except StateStoreError as error:
        _log.warning(
            "a reshard of %r has not been made, and what it has put cannot be removed (%s): a "
            "vacuum does it",
            made.store,
            error,
        )
