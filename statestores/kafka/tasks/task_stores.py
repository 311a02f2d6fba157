"""The stores of one task on the local disk, each with the place of its changelog (KFK-8, KFK-9).

A store's committed offset is that of its changelog topic, in one batch with its content. So a store
that is behind its topic, by a crash between the transaction and the store's commit or by a move of
the task, is brought up by what the topic has after that offset; nothing is wiped for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from statestores.errors import BrokerError, OffsetOutOfRangeError
from statestores.kafka.changelog_rows import ChangelogRow, RowFormat
from statestores.kafka.internal_topics import changelog_name
from statestores.opening import open_store
from statestores.processing.topology import SubTopology
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import Durability, StateStore, TopicPartition
from statestores.spi.closing import Closing

_WHO_COMMITS = "the runner commits the stores of a task together, with its transaction"


class LoggedStore:
    """A store, its changelog partition, and the form of its records."""

    def __init__(self, store: StateStore, changelog: TopicPartition) -> None:
        """Take over an open store."""
        self.store = store
        self.changelog = changelog
        self.rows = RowFormat(store.specification)
        self.appended: int | None = None
        """The offset of the last record of the commit under way, once the broker has said it."""
        self.reflected = self.next_offset
        """As `next_offset`, for any thread."""
        self.reached = self.reflected
        """From where on the changelog may have a change that the store lacks; for any thread.

        Ends of transactions and what was taken back may lie between `reflected` and this."""

    @property
    def next_offset(self) -> int:
        """The first offset of the changelog that the store does not reflect."""
        offset = self.store.committed_offset(self.changelog)
        return 0 if offset is None else offset + 1

    def begin_restore(self, start: int, end: int) -> bool:
        """Judge the store by what its changelog has, from *start* up to *end*, excluded.

        A store that has missed what is no longer there is emptied, and False returned: all that
        the changelog has is to be read.

        Raises:
            OffsetOutOfRangeError: The changelog ends before what the store reflects.
        """
        following = self.next_offset
        if following > end:
            raise OffsetOutOfRangeError(
                f"the store {self.store.name!r} reflects its changelog up to offset "
                f"{following - 1}, and partition {self.changelog.partition} of "
                f"{self.changelog.topic!r} ends before {end}: it is another topic than before, or "
                "has lost its end; remove the local store to begin with what the topic has"
            )
        if 0 < following < start:
            self.reflected = self.reached = 0
            self.store.truncate()
            return False
        return True

    def take(self, rows: list[ChangelogRow]) -> None:
        """Replay *rows* of the changelog, as pending writes."""
        self.store.replay(self.rows.changes(rows))

    def commit(self, offset: int | None, markers: int = 0) -> None:
        """Commit what is pending, with the *offset* of its last record.

        Behind it are so many *markers* of the transaction that the record is the last one of.
        """
        self.store.commit({} if offset is None else {self.changelog: offset})
        if offset is not None:
            self.reflected = offset + 1
            self.has_read_to(offset + 1 + markers)

    def has_read_to(self, offset: int) -> None:
        """Note that the store lacks no change of the changelog before *offset*."""
        self.reached = max(self.reached, offset)


class TaskStores(Closing):
    """All stores of a task. One thread at a time uses them."""

    def __init__(
        self,
        application: str,
        part: SubTopology,
        partition: int,
        directory: Path,
        *,
        backend: str | None,
        options: Mapping[str, object] | None,
        durability: Durability,
    ) -> None:
        """Open the stores of *part* in *partition*, or create them.

        Raises:
            StateStoreError: See `statestores.open_store`.
        """
        self.part = part
        self.partition = partition
        self.logged: dict[str, LoggedStore] = {}
        try:
            for specification in part.stores:
                store = open_store(
                    directory / specification.name / str(partition),
                    specification,
                    backend=backend,
                    options=options,
                    durability=durability,
                )
                changelog = TopicPartition(
                    changelog_name(application, specification.name), partition
                )
                self.logged[specification.name] = LoggedStore(store, changelog)
        except BaseException:
            self.close()
            raise

    def for_processors(self) -> dict[str, Any]:
        """Return the stores as the runtime gets them."""
        return {
            name: for_processors(logged.store, _WHO_COMMITS) for name, logged in self.logged.items()
        }

    @property
    def has_pending_writes(self) -> bool:
        """Whether a store was written to since the last commit."""
        return any(logged.store.has_pending_writes for logged in self.logged.values())

    def pending(self, now_ms: int) -> Iterator[tuple[LoggedStore, Iterable[ChangelogRow]]]:
        """Iterate over the stores that have pending writes, with these as records."""
        for logged in self.logged.values():
            logged.appended = None
            changes = logged.store.pending_changes()
            if len(changes):
                yield logged, logged.rows.rows(changes, now_ms)

    def commit(self, position: Mapping[TopicPartition, int], markers: int) -> None:
        """Commit what is pending, with the offset of its last record and the input's *position*.

        A transaction has so many *markers* behind its records.

        Raises:
            BrokerError: A changelog's offset is not known.
            StateStoreError: A store could not be written. Opening the task again brings it up.
        """
        for logged in self.logged.values():
            offset = logged.appended
            if offset is None and logged.store.has_pending_writes:
                raise BrokerError(
                    f"the broker has not said where the changes of {logged.store.name!r} are; "
                    "the store is brought up when its task is opened again"
                )
            logged.store.advance_position(position)
            logged.commit(offset, markers)

    def note_position(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit that restored stores reflect their inputs before *next_offsets* (KFK-23).

        Changelogs say nothing of inputs: without this, nobody could be told so before the task has
        processed a record of each.

        Raises:
            StateStoreError: A store cannot be written.
        """
        position = {place: offset - 1 for place, offset in next_offsets.items() if offset > 0}
        for logged in self.logged.values():
            logged.store.advance_position(position)
            logged.commit(None)

    def rollback(self) -> None:
        """Forget what is pending."""
        for logged in self.logged.values():
            logged.store.rollback()

    def close(self) -> None:
        """Close the stores; what is pending is forgotten. Idempotent."""
        with ExitStack() as stack:
            for logged in self.logged.values():
                stack.callback(logged.store.close)
