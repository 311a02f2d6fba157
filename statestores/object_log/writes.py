"""Writes of several partitions: staged by many, and committed by one put (OBJ-12).

Each task puts its changes under a name of its own; one entry of the root log names them all, with
the offsets that they get. That put is the commit point. The staged objects are the data: nothing is
copied, and compaction folds them like everything else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    StorageError,
    StoreLockedError,
)
from statestores.object_log.catching_up import catch_up
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.documents import Batch, Share, Staged, Void, Write
from statestores.object_log.frames import read_entry
from statestores.object_log.names import Names, begun_at, operator_of, write_id
from statestores.object_log.requests import Steps
from statestores.object_log.settling import Known, read_checkpoint, settle
from statestores.object_log.view import View

Accept: TypeAlias = Callable[[Mapping[int, int]], None]
"""Raises when a write must not follow partitions that end at these offsets."""

AcceptBatches: TypeAlias = Callable[[Mapping[str, int]], None]
"""Raises when a write must not follow these last batches of streams."""


def begin_write(names: Names, nonce: str) -> Steps[str]:
    """Return the id of a write. It says where the root log was, so that the write can be voided.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    view = yield from catch_up(names, ())
    return write_id(view.next, nonce)


def stage(names: Names, write: str, partition: int, frame: bytes) -> Steps[None]:
    """Put *frame*, which begins at offset 0, where *write* will find it.

    Raises:
        CommitConflictError: There is something else: two tasks have one id.
        CommitInDoubtError: The object store does not answer; nothing counts yet.
    """
    name = names.data(write, partition)
    if not (yield from settle(names, name, frame)):
        raise CommitConflictError(
            f"{names.shown(name)} was staged with other changes; give each attempt of a task a "
            "write, or a partition, of its own"
        )


def staged_as(write: str, frame: bytes, shown: str) -> Staged:
    """Return how an entry names *frame*, which is staged under the id *write*.

    Raises:
        ChangelogCorruptedError: It is not one intact frame.
    """
    stored = read_entry(frame, shown)
    span = stored.header.last_offset - stored.header.base_offset + 1
    return Staged(
        id=write,
        span=span,
        clears=stored.clears,
        size=len(frame),
        checksum=stored.checksum,
        position=stored.position,
    )


def commit_write(
    names: Names, write: str, changes: Mapping[int, int], *, follow: bool = True
) -> Steps[dict[int, int]]:
    """Have what *write* has staged count, *changes* by partition; return its first offsets.

    Without *follow* it is refused when another entry came first.

    Raises:
        StoreLockedError: A partition has an owner; nothing was committed.
        CommitConflictError: Another write came first, or this one was voided; nothing was
            committed.
        CommitInDoubtError: Nobody can tell.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    own = {partition: (count, ()) for partition, count in changes.items()}
    bases = yield from _commit(names, Commit(id=write, parts=own, follow=follow))
    return bases or {}


def commit_staged(
    names: Names,
    unique: str,
    staged: Mapping[int, Sequence[Staged]],
    *,
    batch: Batch | None = None,
    watched: Iterable[int] = (),
    accept: Accept | None = None,
    accept_batches: AcceptBatches | None = None,
    at_ms: int | None = None,
    view: View | None = None,
) -> Steps[dict[int, int] | None]:
    """Have *staged* count by partition, in order, as the write *unique*; return first offsets.

    It is one put, whoever has staged what. A *batch* is applied once: ``None`` says that it, or a
    later one of its stream, has been before, and that nothing is committed now. *accept* is called
    with the ends of all partitions concerned, those *watched* among them, before each attempt, and
    raises if the write must not follow what is there; between that and the commit nothing comes.
    So is *accept_batches* with the last batch of each stream. What is seen goes on from *view*.

    Raises:
        StoreLockedError: One of these partitions has an owner; nothing was committed.
        CommitConflictError: What was staged is voided; nothing was committed.
        StateStoreError: What *accept* raises; nothing was committed.
        CommitInDoubtError: Nobody can tell. A batch may simply be tried again.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    parts = {p: (sum(each.span for each in some), tuple(some)) for p, some in staged.items()}
    commit = Commit(
        id=unique,
        parts=parts,
        batch=batch,
        watched=frozenset(watched),
        accept=accept,
        accept_batches=accept_batches,
        at_ms=at_ms,
    )
    return (yield from _commit(names, commit, view))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What is to be committed, and on which conditions."""

    id: str
    """The id of the write."""

    parts: Mapping[int, tuple[int, tuple[Staged, ...]]]
    """How many offsets each partition gets, and the objects, unless there is one of that id."""

    batch: Batch | None = None
    """The batch of a stream that it is."""

    watched: frozenset[int] = frozenset()
    """Partitions that must have no owner either."""

    accept: Accept | None = None
    """What refuses ends of partitions."""

    accept_batches: AcceptBatches | None = None
    """What refuses batches of streams."""

    at_ms: int | None = None
    """When it is committed."""

    follow: bool = True
    """Whether it may come after another entry than the one it was made for."""

    @property
    def wanted(self) -> set[int]:
        """All partitions that matter."""
        return self.parts.keys() | self.watched

    @property
    def ids(self) -> set[str]:
        """The ids under which it is staged."""
        return {
            each.id if each else self.id
            for _, some in self.parts.values()
            for each in (some or (None,))
        }

    def entry(self, view: View) -> Write:
        """Return the entry that commits it behind *view*."""
        shares = {
            partition: Share(base=view.parts[partition].end, changes=count, staged=some)
            for partition, (count, some) in self.parts.items()
        }
        return Write(id=self.id, parts=shares, batch=self.batch, at_ms=self.at_ms)

    def is_applied(self, view: View) -> bool:
        """Return whether its batch, or a later one, is in *view*."""
        batch = self.batch
        return batch is not None and view.batches.get(batch.stream, -1) >= batch.number


def _commit(names: Names, commit: Commit, view: View | None = None) -> Steps[dict[int, int] | None]:
    """Commit it, as `commit_staged` says."""
    write = commit.id
    while True:
        view = yield from catch_up(names, commit.wanted, view)
        if commit.is_applied(view):
            return None
        _check(names, view, commit)
        number, entry = view.next, commit.entry(view)
        mine: bool | None
        try:
            mine = yield from settle(names, names.root(number), entry.pack())
            known = yield from read_checkpoint(names, Known(view.checkpoint, view.tag))
        except CommitInDoubtError:
            raise
        except StorageError as error:  # the entry may be there
            raise CommitInDoubtError(
                f"nobody can tell whether the write {write!r} of {names.shown(names.store)} was "
                f"committed ({error}); look at the store before it is written again, unless it is "
                "a batch of a stream, which counts once"
            ) from error
        if number < known.checkpoint.next:
            mine, view = _has_counted(known.checkpoint, number, write), None
        if mine:
            return {partition: share.base for partition, share in entry.parts.items()}
        if mine is None and commit.batch is None:  # of a batch the checkpoint says it for ever
            raise CommitInDoubtError(
                f"nobody can tell any more whether the write {write!r} of "
                f"{names.shown(names.store)} was committed: too much was written since"
            )
        if not commit.follow:
            raise CommitConflictError(
                f"another write of {names.shown(names.store)} came before {write!r}; nothing of "
                "it was committed; try again"
            )


def _check(names: Names, view: View, commit: Commit) -> None:
    """Accept a write that may be committed.

    Raises:
        CommitConflictError: It was voided.
        StoreLockedError: A partition has an owner.
        StateStoreError: What `Commit.accept` raises.
    """
    refuse_voided(names, view, commit.ids)
    owned = sorted(p for p in commit.wanted if view.parts[p].grant is not None)
    if owned:
        raise StoreLockedError(
            f"partition {owned[0]} of {names.shown(names.store)} has an owner, who alone appends "
            "to it; close its store, or, if its process has died, have nobody own it with "
            f"StateRoot.object_log({names.store!r}).release({owned[0]})"
        )
    if commit.accept is not None:
        commit.accept({p: view.parts[p].end for p in sorted(commit.wanted)})
    if commit.accept_batches is not None:
        commit.accept_batches(view.batches)


def refuse_voided(names: Names, view: View, ids: Iterable[str]) -> None:
    """Accept what is staged under *ids*, if it may still be committed behind *view*.

    Raises:
        CommitConflictError: It may not, and perhaps is not there any more.
    """
    voided = [each for each in ids if _is_voided(each, view.void_before)]
    if voided:
        raise CommitConflictError(
            f"the write {voided[0]!r} of {names.shown(names.store)} was voided by a vacuum, or the "
            "store has been resharded since it was staged; nothing of it was committed; stage it "
            "anew"
        )


def _is_voided(write: str, before: int) -> bool:
    """Return whether a void *before* that entry was for what *write* has staged."""
    return operator_of(write) is None and begun_at(write) < before


def _has_counted(checkpoint: Checkpoint, number: int, write: str) -> bool | None:
    """Return whether entry *number*, below the floor, is that of *write*; ``None`` if not known."""
    for known, name, _ in checkpoint.writes:
        if known == number:
            return name == write
    return None if number < checkpoint.writes_from else False


def void_writes(names: Names, unique: str, before: int) -> Steps[int | None]:
    """Have no write count that began before entry *before* and is not committed yet.

    Returns the number that holds, which may be lower; ``None`` if it cannot be told now.

    Raises:
        CommitInDoubtError, ChangelogCorruptedError, UnsupportedFormatError, StorageError: As
            `commit_write`.
    """
    view = yield from catch_up(names, ())
    while True:
        number = view.next
        before = min(before, number)
        entry = Void(id=unique, before=before).pack()
        mine = yield from settle(names, names.root(number), entry)
        known = yield from read_checkpoint(names, Known(view.checkpoint, view.tag))
        if number < known.checkpoint.next:
            return before if known.checkpoint.void_before >= before else None
        if mine:
            return before
        view = yield from catch_up(names, (), view)
