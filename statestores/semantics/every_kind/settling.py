"""What has become of a commit that ended with an error or an interrupt, and how that is found out.

Invariants:

* such a commit is *in doubt* from the moment at which the engine was given its batch, until the
  engine has been asked (COM-43), or for good, if it cannot tell before it is opened again (COM-46);
* no error is handled without a note of it in `_unsettled` first, which takes no call: so a second
  interrupt leaves the commit in doubt, and whoever asks next finds out.
"""

from contextlib import suppress
from typing import TypeVar, cast

from statestores.errors import CommitConflictError, CommitInDoubtError, StateStoreError
from statestores.semantics.every_kind.store_state import StoreState
from statestores.semantics.rows.commit_batch import RowBatch
from statestores.spi.engine import WriteBatch

HALF_ROLLED_BACK: WriteBatch = {}
"""In place of a batch in doubt: a rollback that was interrupted."""

NOTHING_GIVEN: WriteBatch = {}
"""In place of a batch in doubt: a commit that ended before the engine was given its batch."""

K = TypeVar("K")
V = TypeVar("V")


class SettlingStore(StoreState[K, V]):
    """A store that finds out what its engine has of a commit that raised."""

    # What a kind defines.

    def _forget_cached(self) -> None:
        """Forget the engine's rows that are kept in memory: it may have others now."""

    def _note_commit(self) -> None:
        """Note that the engine has a commit which ended with an error: what it has cost counts."""

    def _catch_up(self) -> None:
        """Have what puts go by be not behind what was read: a commit that raised may be there."""

    # What all kinds do.

    def _find_out(self) -> None:
        """Find out what has become of the batch that is in doubt, and end its commit (COM-43).

        What cannot be found out now is reported to whoever needs to know. Requires: nothing was
        written since.

        An interrupt comes where a function begins or returns, and a second one may wait for that
        when the first is handled. So whoever handles an error notes the batch without a call, and
        calls this again when an interrupt ends it.
        """
        if self._unsettled is not None:
            with suppress(StateStoreError):
                self._settle(ends_commit=True)

    def _settle(self, *, ends_commit: bool = False) -> None:
        """Find out whether the engine has the batch in doubt: it is there whole, or not at all.

        It may be called again when it is interrupted. *ends_commit* says that nothing was written
        since: when the batch is there, nothing is pending any more.

        Requires: one is in doubt.

        Raises:
            CommitInDoubtError: Only opening the store again can tell.
            StateStoreError: The engine cannot be read; the batch stays in doubt.
        """
        batch = self._unsettled
        if isinstance(batch, StateStoreError):
            raise CommitInDoubtError(
                f"nobody knows whether the last commit of {self.name!r} is durable since it failed "
                f"({batch}); close the store and open it again: what is there then counts"
            ) from batch
        if batch is HALF_ROLLED_BACK:
            raise CommitConflictError(
                f"a rollback of {self.name!r} was interrupted; roll back again, so that nothing "
                "remains of what it was to forget"
            )
        if batch is NOTHING_GIVEN:
            self._forget_cached()  # what a sweep has chosen, and nobody deletes now
            self._unsettled = None
            return
        rows = cast("WriteBatch", dict(batch) if isinstance(batch, RowBatch) else batch)
        is_there = bool(rows) and self._engine.get_many(list(rows)) == list(rows.values())
        if is_there:
            self._measure_commit(len(rows))
            # Also of the changelog, if the batch came through one: then it has the offset.
            self._is_journaled, self._is_applied, self._is_told = False, True, False
            self._note_commit()
        self._read_committed()
        self._catch_up()
        self._forget_cached()
        if is_there and ends_commit:
            self._forget_everything_pending()
        self._unsettled = self._commit_began_ns = None
