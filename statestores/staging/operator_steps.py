"""How a micro-batch of several stores in an object store is committed: one entry, then the others.

The operator's *anchor* is one of its stores, chosen once. A driver

1. finds the last record that counts, by the anchor's batches, and has every other store take it;
2. sees where the stores end, and has tasks stage under an id that follows that record;
3. claims the next number by putting the record, if nothing is there;
4. puts the entry that names the anchor's part, with the record's number as a batch. It is accepted
   only while the record that it follows is the last one, and the anchor ends where it did. **This
   one put commits the micro-batch**, in all stores;
5. puts the entries of the other stores, each a batch of that number as well, so that it counts once
   whoever puts it, and however often.

A driver that dies after the fourth step leaves other stores behind, and nothing that could take
what is named for them away: what operators stage is not voided (OBJ-45), and the record stays until
one after it counts, which nobody commits before step 1.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statestores.errors import (
    ChangelogCorruptedError,
    CommitConflictError,
    CommitInDoubtError,
    StoreCorruptedError,
)
from statestores.object_log.catching_up import catch_up
from statestores.object_log.documents import Batch
from statestores.object_log.names import Names
from statestores.object_log.requests import Delete, ListNames, Read, Steps
from statestores.object_log.settling import settle
from statestores.object_log.view import View
from statestores.object_log.writes import commit_staged
from statestores.staging.operator_record import (
    OperatorNames,
    OperatorRecord,
    StoreWrite,
    pack_anchor,
    unpack_anchor,
)

if TYPE_CHECKING:
    from statestores.storage import Found


@dataclass(slots=True)
class Last:
    """The last record of an operator that counts."""

    view: View
    """What was seen of the anchor's log."""

    record: OperatorRecord | None
    """The record; ``None`` before the first."""

    names: OperatorNames
    """The operator's."""

    @property
    def fence(self) -> int | None:
        """The last fence of a reshard that was seen there; ``None`` if there was none."""
        return self.view.batches.get(self.names.fence)


def find_anchor(names: OperatorNames) -> Steps[str | None]:
    """Return the store in whose log records are committed; ``None`` if none was chosen.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    found: Found | None = yield Read(names.anchor)
    return None if found is None else unpack_anchor(found.data, names.log.shown(names.anchor))


def choose_anchor(names: OperatorNames, store: str) -> Steps[str]:
    """Return the store in whose log records are committed, which is *store* if none was chosen.

    Raises:
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    chosen = yield from find_anchor(names)
    if chosen is None:
        yield from settle(names.log, names.anchor, pack_anchor(store))
        chosen = yield from find_anchor(names)
    return store if chosen is None else chosen


def join(names: OperatorNames, log: Names, unique: str) -> Steps[None]:
    """Have *log* say that its store is one of the operator's, if it does not.

    It is a batch without changes. A reshard in place, which ends the log behind what it has seen of
    it, sees that, or comes second; or it came first, and this raises.

    Raises:
        StoreReshardedError: The store has been resharded since its root was opened.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    yield from commit_staged(log, unique, {}, batch=Batch(names.membership, 0))


def find_last(
    names: OperatorNames, anchor: Names, partitions: Collection[int], known: Last | None = None
) -> Steps[Last]:
    """Return the last record that counts, seen from *known* on, if that is of the same log.

    A record that is found counts only if it is the last one still when it has been read: behind
    that, names of records are nothing.

    Raises:
        ChangelogCorruptedError: It is damaged or gone.
        UnsupportedFormatError, StorageError: It cannot be read.
    """
    if known is not None and known.view.checkpoint.generation != anchor.generation:
        known = None  # the anchor has been resharded
    view = yield from catch_up(
        anchor, partitions, None if known is None else known.view, tails=True
    )
    while True:
        number = view.batches.get(names.stream)
        if number is None:
            return Last(view, None, names)
        if known is not None and known.record is not None and known.record.number == number:
            return Last(view, known.record, names)
        name = names.record(number)
        found: Found | None = yield Read(name)
        view = yield from catch_up(anchor, partitions, view, tails=True)
        if view.batches.get(names.stream) != number:
            continue
        if found is None:
            raise ChangelogCorruptedError(
                f"the record {names.log.shown(name)} is gone, and {anchor.store!r} has its "
                "micro-batch; put it back, if the bucket keeps earlier versions of objects"
            )
        return Last(view, OperatorRecord.unpack(found.data, names.log.shown(name)), names)


def carry_out(
    names: OperatorNames,
    record: OperatorRecord,
    logs: Mapping[str, Names],
    unique: str,
    views: Mapping[str, View] | None = None,
) -> Steps[list[str]]:
    """Have each of *logs*, the stores but the anchor, take its part of *record*, which counts.

    What is seen of a log goes on from its one of *views*, which has all partitions.

    Returns the stores to which somebody else has written since the micro-batch began, and before
    its changes came: they stand behind those of the other.

    Raises:
        StoreLockedError: A partition has an owner. The others may have the record.
        StoreCorruptedError: A store has lost what it had when the micro-batch began.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: A log cannot be read.
    """
    moved: list[str] = []
    for store, log in sorted(logs.items()):
        part = record.stores[store]
        if not part.staged:
            continue
        gate = _NothingLost(store, part)
        applied = yield from commit_staged(
            log,
            f"{record.id}-{unique}",
            part.staged,
            batch=record.batch(names),
            accept=gate,
            at_ms=record.at_ms,
            view=(views or {}).get(store),
        )
        if applied is not None and gate.moved:
            moved.append(store)
    return moved


class _NothingLost:
    """Accepts partitions that have what they had, and notes whether they have more."""

    def __init__(self, store: str, part: StoreWrite) -> None:
        self._store = store
        self._part = part
        self.moved = False

    def __call__(self, found: Mapping[int, int]) -> None:
        check_nothing_lost(self._store, self._part.ends, found)
        self.moved = any(found[p] != self._part.ends[p] for p in found)


def check_nothing_lost(store: str, ends: Mapping[int, int], found: Mapping[int, int]) -> None:
    """Accept partitions of *store* that end at *found* where they have ended at *ends* before.

    Raises:
        StoreCorruptedError: One ends before.
    """
    for number, end in ends.items():
        if found.get(number, end) < end:
            raise StoreCorruptedError(
                f"the changelog of {store!r} ends before {found[number]} in partition {number}, "
                f"and a micro-batch of its operator has found it at {end}: it has been removed, or "
                "put back from an older copy; put back the newest one, or begin with a new state "
                "and a new checkpoint"
            )


def claim(names: OperatorNames, proposed: OperatorRecord) -> Steps[OperatorRecord]:
    """Put *proposed* under the first number that is free, and return it with that number.

    Raises:
        CommitInDoubtError: The object store does not answer; nothing counts.
    """
    number = 0 if proposed.after is None else proposed.after + 1
    while True:
        record = replace(proposed, number=number)
        if (yield from settle(names.log, names.record(number), record.pack())):
            return record
        number += 1


def commit(
    names: OperatorNames, anchor: Names, record: OperatorRecord, last: Last, unique: str
) -> Steps[None]:
    """Have *record*, which was claimed, count, if *last* is what it follows.

    Raises:
        CommitConflictError: Something else has come first; nothing of it counts, ever.
        StoreLockedError: A partition of the anchor has an owner; it may be tried again.
        CommitInDoubtError: Nobody can tell.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    part = record.stores.get(anchor.store)

    def accept(found: Mapping[int, int]) -> None:
        for number, end in found.items():
            if part is not None and part.ends[number] != end:
                raise CommitConflictError(
                    f"another program has written to {anchor.store!r} while the micro-batch "
                    f"{record.id!r} was computed, so it is not committed; start the query again"
                )

    def accept_batches(batches: Mapping[str, int]) -> None:
        if batches.get(names.stream) != record.after:
            raise CommitConflictError(
                f"another driver has committed a micro-batch of {names.operator!r} while "
                f"{record.id!r} was computed, so it is not committed; start the query again, and "
                "only one"
            )
        check_fence(last, batches)

    partitions = tuple(last.view.parts)
    bases = yield from commit_staged(
        anchor,
        f"{record.id}-{unique}",
        {} if part is None else part.staged,
        batch=record.batch(names),
        watched=partitions,
        accept=accept,
        accept_batches=accept_batches,
        at_ms=record.at_ms,
        view=last.view,
    )
    if bases is not None:
        return
    # Nobody but its author commits a record, and later ones have higher numbers.
    view = yield from catch_up(anchor, ())
    if view.batches.get(names.stream) != record.number:
        raise CommitInDoubtError(
            f"nobody can tell any more whether the micro-batch {record.id!r} was committed: "
            f"another driver of {names.operator!r} has gone on; start the query again, and only one"
        )


def check_fence(last: Last, batches: Mapping[str, int]) -> None:
    """Accept the *batches* of an anchor that has no fence but the one that *last* has.

    Raises:
        CommitConflictError: A reshard has put one: what was computed may be of other partitions.
    """
    if batches.get(last.names.fence) != last.fence:
        raise CommitConflictError(
            f"a store of {last.names.operator!r} was about to get other partitions while a "
            "micro-batch was computed, so it is not committed; start the query again"
        )


def sweep(names: OperatorNames, record: OperatorRecord) -> Steps[int]:
    """Delete records, and what was emitted, of micro-batches that *record*, which counts, beats.

    Returns how many objects. Whoever computes what follows *record* is not disturbed.

    Raises:
        StorageError: Something cannot be listed or deleted.
    """
    gone = []
    for name in (yield ListNames(names.records)):
        number = names.record_number(name)
        if number is not None and number < record.number:
            gone.append(name)
    for name in (yield ListNames(names.outputs)):
        write, begun = names.output_begun(name)
        if write != record.id and begun <= record.number:
            gone.append(name)
    for name in gone:
        yield Delete(name)
    return len(gone)
