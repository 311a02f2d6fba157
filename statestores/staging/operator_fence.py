"""How a reshard keeps an operator's micro-batches out of a store while the store's log ends.

A reshard ends the log of a store behind what it has seen of it. Of the operator's anchor that is
all there is to it: a micro-batch counts by an entry of that very log, which comes before the end,
or never. Of another store the log says nothing of a micro-batch until it is carried out, and one
that counted in between would have a part for partitions that are no more. So there is a *fence*, a
batch without changes of a stream of its own, numbered from 0:

1. the reshard sees the log of the store, and that no store lacks the last record;
2. it puts the next fence into the anchor's log, if that record is still the last one. Whoever is
   computing a micro-batch does not commit it any more: it is one behind another fence;
3. a driver that begins behind the fence puts the same into the log of each of its other stores,
   before anything of it counts. So the log that the reshard has seen has gone on, or has ended;
4. the reshard ends the log of the store, if it is as it was seen in the first step.

Nothing waits for a reshard: one that dies, or sleeps, behind its fence has cost a micro-batch.
"""

from collections.abc import Callable, Iterable, Mapping

from statestores.errors import CommitConflictError, InvalidArgumentError
from statestores.object_log.catching_up import catch_up
from statestores.object_log.documents import Batch
from statestores.object_log.names import Names
from statestores.object_log.requests import Steps
from statestores.object_log.view import View
from statestores.object_log.writes import commit_staged
from statestores.staging.operator_steps import Last


def check_settled(
    anchor: Names, last: Last, store: str, view: View, log_of: Callable[[str], Names]
) -> Steps[None]:
    """Accept a *store*, of which *view* was seen before *last*, if no store lacks that record.

    None of the operator's: else two copies would have half of it each, and a query could not carry
    it out whose stores have not one number of partitions.

    Raises:
        InvalidArgumentError: A store lacks it.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be found out.
    """
    record, names = last.record, last.names
    if record is None:
        return
    for name in (each for each, part in record.stores.items() if part.staged):
        if name == store:
            seen = view
        elif name == anchor.store:
            seen = last.view
        else:
            seen = yield from catch_up(log_of(name), ())
        if seen.batches.get(names.stream, -1) < record.number:
            raise InvalidArgumentError(
                f"the operator {names.operator!r} has committed a micro-batch that {name!r} does "
                f"not have yet ({names.log.shown(names.record(record.number))}); start its query "
                "once, which carries it out, stop it, and then try again"
            )


def keep_out(anchor: Names, last: Last, unique: str) -> Steps[None]:
    """Have no micro-batch behind the *last* one count before its stores know of a new fence.

    Raises:
        CommitConflictError: One has counted already.
        StoreReshardedError: The anchor has been resharded meanwhile.
        CommitInDoubtError: The object store does not answer. The fence may come; it does no harm.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """

    def accept(batches: Mapping[str, int]) -> None:
        names = last.names
        if batches.get(names.stream) != last.view.batches.get(names.stream):
            raise CommitConflictError(
                f"a query has committed a micro-batch of the operator {names.operator!r} while a "
                "store of it was resharded; nothing has changed; stop the query, and reshard the "
                "store again"
            )

    names, number, view = last.names, -1, last.view
    while True:
        number = max(number, view.batches.get(names.fence, -1)) + 1
        put = yield from commit_staged(
            anchor,
            f"{unique}-fence-{number}",
            {},
            batch=Batch(names.fence, number),
            accept_batches=accept,
        )
        if put is not None:
            return
        # Somebody else's, or one's own that nobody could tell: another one is right in any case.
        view = yield from catch_up(anchor, ())


def pass_on(last: Last, logs: Iterable[Names], unique: str) -> Steps[None]:
    """Have each of *logs*, of the stores but the anchor, know the fence that *last* has.

    Raises:
        StoreReshardedError: A store has been resharded since its root was opened.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: A log cannot be read.
    """
    if last.fence is None:
        return
    batch = Batch(last.names.fence, last.fence)
    for log in logs:
        yield from commit_staged(log, f"{unique}-fence-{batch.number}", {}, batch=batch)
