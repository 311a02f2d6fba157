"""Emptying a store: every row but its description is deleted, in batches of bounded size (COM-18).

Invariant: from the mark on, which is durable before the first row is deleted, nothing is committed
until all of them are deleted (COM-42). Whoever finds the mark continues from there.
"""

from itertools import islice
from typing import TypeVar

from statestores.errors import CommitInDoubtError, StateStoreError, StoreCorruptedError
from statestores.failpoints import reach
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.settling import HALF_ROLLED_BACK, SettlingStore
from statestores.semantics.rows.layout import (
    END,
    OFFSETS,
    POSITION_ROW,
    PROGRESS_ROW,
    TRUNCATING_ROW,
    offset_row,
    pack_offset,
)
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.offsets import Position

K = TypeVar("K")
V = TypeVar("V")

_BATCH_ROWS = 10_000
"""Rows that one batch deletes: bounds its memory."""


class TruncatingStore(SettlingStore[K, V]):
    """A store that can be emptied, and finishes what a crash or an error has left undone."""

    def truncate(self) -> None:
        self.check_open()
        if isinstance(self._unsettled, StateStoreError):
            self._settle()
        if self._journal is None:
            self._begin_truncating(None)
        else:
            self._append_clear(self._journal)
        self.commits += 1
        self._forget_everything_pending()
        self._is_journaled = self._is_applied = False
        self._unsettled = None
        self._finish_truncating()
        self.commits += 1

    def _append_clear(self, journal: Journal) -> None:
        """Have *journal* take the truncation, which counts from then on (LGS-12)."""
        end_offset = journal.end_offset
        try:
            self._begin_truncating(journal.append_clear(self._durability))
        except CommitInDoubtError as error:
            self._unsettled = error
            raise
        except BaseException:
            try:
                self._note_cleared(journal, end_offset)
            except BaseException:  # a second interrupt, which waited for the first call
                self._note_cleared(journal, end_offset)
                raise
            raise

    def _note_cleared(self, journal: Journal, end_offset: int) -> None:
        """Note that *journal*, which ended at *end_offset*, has the truncation, if it has.

        What is committed next comes after it.
        """
        if journal.end_offset != end_offset:
            self._begin_truncating(end_offset)

    def _begin_truncating(self, cleared_at: int | None) -> None:
        """Have nothing more committed before the store has been emptied (COM-42)."""
        self._cleared_at = cleared_at
        nowhere = Position()
        # One line, so that no interrupt comes in between. Pending writes go with a rollback.
        self._is_truncating, self._position, self._committed_position, self._unsettled = (
            True,
            nowhere,
            nowhere,
            HALF_ROLLED_BACK,
        )

    def _finish_truncating(self) -> None:
        """Set the mark, delete all rows but the description, offsets first, and then the mark.

        It can be called again when it fails: the mark stays until nothing else is left.
        """
        self._engine.apply({TRUNCATING_ROW: b""}, self._durability)
        reach("truncate.marked")
        _delete_all_rows(self._engine, self.name)
        last: dict[bytes, bytes | None] = dict.fromkeys(
            (POSITION_ROW, PROGRESS_ROW, TRUNCATING_ROW)
        )
        if self._journal is not None and self._cleared_at is not None:
            last[offset_row(self._journal.partition)] = pack_offset(self._cleared_at)
        self._engine.apply(last, self._durability)
        self._read_committed()
        self._is_truncating = False


def _delete_all_rows(engine: Engine, name: str) -> None:
    """Delete the rows of the store *name* in *engine*, its offsets first.

    Raises:
        StoreCorruptedError: The engine still has a row that it was told to delete. Going on would
            never end.
        StorageError: The engine could not write.
    """
    before = None
    while rows := [key for key, _ in islice(engine.scan(OFFSETS, END), _BATCH_ROWS)]:
        if rows[0] == before:
            raise StoreCorruptedError(
                f"the {engine.name!r} engine of {name!r} still has the row {before!r} after "
                "deleting it, so the store cannot be emptied; prove the engine by "
                "statestores_conformance"
            )
        before = rows[0]
        engine.apply(dict.fromkeys(rows), Durability.PROCESS_CRASH)
        reach("truncate.deleted")
