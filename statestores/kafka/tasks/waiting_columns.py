"""What a long restore has read of a changelog topic and not committed yet: columns (KFK-41).

Record by record, a row goes through a dictionary of pending writes and a batch of the engine's.
Many rows are cheaper in the order of their keys, which engines take several times faster, and
where only the last change of a key counts, the others are never written.
"""

from typing import Self

from statestores.arrow.restore_mark import has_rows
from statestores.arrow.restoring.row_sink import LEAST_ROWS, RowSink
from statestores.changelog.rows import batch_from_changes, change_schema
from statestores.failpoints import reach
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.spi.records import Changes

LEAST_RECORDS = LEAST_ROWS
"""Fewer are not worth a sorted file, here either."""


class WaitingColumns:
    """The changes of one store that wait for a commit."""

    def __init__(self, logged: LoggedStore, sink: RowSink) -> None:
        """Commit into *logged* by *sink*."""
        self._logged = logged
        self._sink = sink
        self._schema = change_schema(logged.store.specification.kind)
        self._last: int | None = None

    @classmethod
    def of(cls, logged: LoggedStore, total: int) -> Self | None:
        """Return them for *logged*, which lacks *total* records of its changelog.

        ``None`` where it goes record by record: they are few, or frames, some of which are no
        changes, or nothing is known of how the store keeps its rows.
        """
        if total < LEAST_RECORDS or logged.frames is not None:
            return None
        sink = RowSink.of(logged.store, is_empty=not has_rows(logged.store))
        return None if sink is None else cls(logged, sink)

    def take(self, changes: Changes, last: int, allowed_bytes: int) -> None:
        """Take *changes*, up to the offset *last*; commit if more than *allowed_bytes* wait.

        What was there before is committed first, if it cannot wait together with them.

        Raises:
            StateStoreError: They are no changes of such a store, or cannot be committed.
        """
        columns = batch_from_changes(self._schema, changes)
        if not self._sink.has_room_for(columns):
            self.commit()
        self._sink.add(columns)
        self._last = last
        if self._sink.is_full or self._sink.waiting_bytes > allowed_bytes:
            self.commit()

    def commit(self) -> None:
        """Commit what waits, with the offset of its last record.

        Raises:
            StateStoreError: The store cannot be written.
        """
        if self._last is None:
            return
        self._sink.commit({self._logged.changelog: self._last, **self._logged.notes()})
        self._logged.has_committed(self._last)
        self._last = None
        reach("kafka.batch-restored")
