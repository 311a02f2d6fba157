"""Operations of which a call to the operating system fails, and what must hold afterwards.

An operation is run once, in a process of its own, over a copy of a prepared directory. Whatever
failed, content, offset and position are those of one commit, for the owner and for whoever opens
the store next; an operation that returned has happened, and a rollback that was accepted, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from owners import OWNERS, LoggedOwner, Owner

from statestores.changelog import FileChangelog, compact
from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.failpoints import arm, disarm

_BEFORE = (range(3), range(3, 4), range(4, 14), range(14, 30))
"""The commits that are there before the operation."""

_BATCH = range(30, 41)
"""The writes that it is about, or those that follow it."""

_NEXT = range(41, 45)
"""A commit that has to succeed in the end."""

NOTHING = -1
"""The number of the last operation in a store that has none."""


class Operation(ABC):
    """Something that an owner does, over and over, each time on a fresh copy."""

    name: ClassVar[str]
    """What it is called."""

    owners: ClassVar[tuple[str, ...]]
    """Whose operation it is."""

    going_on: ClassVar[tuple[str, ...]] = ("reopen", "again", "close at once")
    """What the owner may do after a failure."""

    may_damage_the_engine: ClassVar[bool] = False
    """Whether an engine may be damaged afterwards, say so, and have to be restored from the rest.

    RocksDB's ingestion notes a file in its manifest, and removes it when the manifest cannot be
    brought to the disk; the next opening misses the file (docs/caveats.md).
    """

    before: int = _BEFORE[-1][-1]
    """The number that the store has before."""

    after: int = _BEFORE[-1][-1]
    """The number that it has when the operation has succeeded."""

    def __init__(self, directory: Path, owner: str, backend: str, kind: str) -> None:
        self.owner: Owner = OWNERS[owner](directory, backend, kind)

    def prepare(self) -> None:
        """Make what a copy is taken of."""
        self.owner.open()
        for batch in _BEFORE:
            self.owner.write(batch)
            self.owner.commit(batch[-1])
        self.owner.close()

    def begin(self) -> None:
        """Do what comes before the operation, and does not fail."""
        self.owner.open()

    @abstractmethod
    def run(self) -> None:
        """Do it."""

    def judge(self, *, raised: bool, going_on: str) -> Iterator[str]:
        """Yield what is wrong, once all calls pass again."""
        owner = self.owner
        possible = {self.before, self.after} if raised else {self.after}
        if owner.stores:
            yield from self._look("the owner", possible, doubtful=raised)
            if raised and going_on != "reopen":
                possible, wrong = self._go_on(going_on, possible)
                yield from wrong
        yield from self._leave()
        yield from self._reopen("at the next opening", possible)
        if not owner.stores:
            return
        (reached,) = {number for number, _ in owner.committed()}
        owner.write(range(reached + 1, _NEXT.stop))
        owner.commit(_NEXT[-1])
        yield from self._look("after another commit", {_NEXT[-1]})
        yield from self._leave()
        yield from self._reopen("at the second opening", {_NEXT[-1]})
        yield from self._leave()
        if owner.lose_engine():
            yield from self._reopen("when the engine was lost", {_NEXT[-1]})
            yield from self._leave()

    def _go_on(self, going_on: str, possible: set[int]) -> tuple[set[int], list[str]]:
        """Go on after a failure; return what the store may have then, and what was wrong."""
        if going_on != "again":
            return possible, []
        try:
            self.run()
        except StateStoreError:
            return possible, []
        return {self.after}, list(self._look("the owner, again", {self.after}))

    def _look(self, who: str, possible: set[int], *, doubtful: bool = False) -> Iterator[str]:
        """Yield how what is committed differs from one commit, of those that are *possible*.

        While a commit is doubtful, a store may refuse to answer, and some stores of a task have the
        commit before the others.
        """
        try:
            found = self.owner.committed()
            numbers = [number for number, _ in found]
            if not set(numbers) <= possible or (len(set(numbers)) > 1 and not doubtful):
                yield f"{who}: the position is {numbers}, expected one of {sorted(possible)}"
                return
            differences = list(self.owner.differences(numbers))
        except StateStoreError as error:
            if not doubtful:
                yield f"{who} cannot read: {error!r}"
            return
        yield from (f"{who}, at {numbers}: {difference}"[:160] for difference in differences)
        if not doubtful:
            yield from self._offsets(who, numbers[0], [offset for _, offset in found])

    def _offsets(self, who: str, number: int, offsets: list[int | None]) -> Iterator[str]:
        """Yield how the committed *offsets* differ from those of the commit that ends at *number*.

        The last offset of a changelog depends on how many of a commit's writes were to one key.
        """
        if isinstance(self.owner, LoggedOwner) and self.owner.logged is not None:
            logged = self.owner.logged
            end = logged.changelog.end_offset
            if offsets != [end - 1 if end else None]:
                yield f"{who}: {offsets}, and the changelog ends at {logged.changelog.end_offset}"
        elif len(offsets) == 1 and offsets != [None if number == NOTHING else number]:
            yield f"{who}: the offset is {offsets}, and the position {number}"

    def _leave(self) -> Iterator[str]:
        try:
            self.owner.close()
        except StateStoreError as error:
            yield f"closing raised {error!r}"
        if self.owner.stores:
            yield "it is open after it was closed"

    def _reopen(self, who: str, possible: set[int]) -> Iterator[str]:
        try:
            try:
                self.owner.open()
            except StoreCorruptedError:
                if not self.may_damage_the_engine or not self.owner.lose_engine():
                    raise
                self.owner.open()
        except StateStoreError as error:
            yield f"{who}: {error!r}"
        else:
            yield from self._look(who, possible)


class Commit(Operation):
    """Commit what is pending."""

    name = "commit"
    owners = ("plain", "logged", "rolling", "task")
    going_on = ("reopen", "roll back", "again", "roll back and write", "close at once")
    after = _BATCH[-1]

    def begin(self) -> None:
        self.owner.open()
        self.owner.write(_BATCH)

    def run(self) -> None:
        self.owner.commit(_BATCH[-1])

    def _go_on(self, going_on: str, possible: set[int]) -> tuple[set[int], list[str]]:
        if not going_on.startswith("roll back"):
            return super()._go_on(going_on, possible)
        try:
            self.owner.rollback()
        except StateStoreError:
            return possible, []
        wrong = list(self._look("the owner, rolled back", {self.before}))
        if going_on == "roll back":
            return {self.before}, wrong
        try:
            self.owner.write(_BATCH)
            self.run()
        except StateStoreError:
            return possible, wrong
        return {self.after}, [*wrong, *self._look("the owner, again", {self.after})]


class Open(Operation):
    """Open what is there."""

    name = "open"
    owners: ClassVar[tuple[str, ...]] = ("plain", "opened", "logged", "task")
    going_on = ("reopen",)

    def begin(self) -> None:
        """Nothing comes before."""

    def run(self) -> None:
        self.owner.open()


class OpenNew(Open):
    """Open where nothing is yet."""

    name = "open new"
    before = after = NOTHING

    def prepare(self) -> None:
        """Nothing is there."""


class OpenHalfCommitted(Open):
    """Open a task of which a commit was recorded, and not carried out."""

    name = "open half committed"
    owners = ("task",)
    before = after = _BATCH[-1]

    def prepare(self) -> None:
        super().prepare()
        self.owner.open()
        self.owner.write(_BATCH)
        arm("task.recorded", _stop)
        with suppress(_StoppedError):
            self.owner.commit(_BATCH[-1])
        disarm()
        self.owner.close()


class Close(Operation):
    """Close with pending writes, which are forgotten."""

    name = "close"
    owners = ("plain", "logged", "task")
    going_on = ("reopen",)

    def begin(self) -> None:
        self.owner.open()
        self.owner.write(_BATCH)

    def run(self) -> None:
        self.owner.close()


class Truncate(Operation):
    """Empty the store."""

    name = "truncate"
    owners = ("plain",)
    after = NOTHING

    def run(self) -> None:
        (store,) = self.owner.stores
        store.truncate()

    def judge(self, *, raised: bool, going_on: str) -> Iterator[str]:
        # A half emptied store is emptied by the next commit or opening (COM-42).
        if raised and going_on == "reopen":
            yield from self._leave()
        yield from super().judge(raised=raised, going_on=going_on)

    def _look(self, who: str, possible: set[int], *, doubtful: bool = False) -> Iterator[str]:
        if not doubtful:
            yield from super()._look(who, possible)


class _LogOperation(Operation):
    """An operation on a logged store or its changelog, which changes no content."""

    owners = ("logged",)

    @property
    def log(self) -> FileChangelog:
        """The changelog of the open store."""
        assert isinstance(self.owner, LoggedOwner)
        assert self.owner.logged is not None
        assert isinstance(self.owner.logged.changelog, FileChangelog)
        return self.owner.logged.changelog

    def snapshot(self) -> None:
        """Write a snapshot."""
        assert isinstance(self.owner, LoggedOwner)
        assert self.owner.logged is not None
        self.owner.logged.snapshot()


class TakeSnapshot(_LogOperation):
    """Write a snapshot, over an older one."""

    name = "snapshot"

    def run(self) -> None:
        self.snapshot()


class Compact(_LogOperation):
    """Seal and compact the changelog of many segments."""

    name = "compact"
    owners = ("rolling",)

    def run(self) -> None:
        self.log.seal()
        retention = getattr(self.owner.stores[0].specification, "retention_ms", None)
        history = getattr(self.owner.stores[0].specification, "history_retention_ms", None)
        compact(self.log, history_retention_ms=history, retention_ms=retention)


class DeleteBefore(_LogOperation):
    """Write a snapshot, and delete the segments before it."""

    name = "delete before"
    owners = ("rolling",)

    def run(self) -> None:
        self.snapshot()
        self.log.seal()
        self.log.delete_before(self.log.end_offset)


class Restore(Open):
    """Open when the engine is lost: from the changelog, or from a snapshot and what follows it."""

    name = "restore"
    owners = ("logged", "task")
    may_damage_the_engine = True

    def prepare(self) -> None:
        super().prepare()
        self.owner.lose_engine()


class RestoreFromSnapshot(_LogOperation):
    """Open when the engine is lost, and the changelog no longer begins with the first offset."""

    name = "restore from snapshot"
    owners = ("rolling",)
    may_damage_the_engine = True
    going_on = ("reopen",)

    def prepare(self) -> None:
        self.owner.open()
        for batch in _BEFORE:
            self.owner.write(batch)
            self.owner.commit(batch[-1])
            if batch.start == 4:
                self.snapshot()
                self.log.seal()
                self.log.delete_before(self.log.end_offset)
        self.owner.close()
        self.owner.lose_engine()

    def begin(self) -> None:
        """Nothing comes before."""

    def run(self) -> None:
        self.owner.open()


class _StoppedError(Exception):
    """Stands for the death of the process at a failpoint."""


def _stop() -> None:
    raise _StoppedError
