"""The stores of one task on the local disk, each with the place of its changelog (KFK-8, KFK-9).

A store's committed offset is that of its changelog topic, in one batch with its content. So a store
that is behind its topic, by a crash between the transaction and the store's commit or by a move of
the task, is brought up by what the topic has after that offset; nothing is wiped for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from statestores.arrow.restore_mark import has_rows, restore_mark
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.errors import (
    BrokerError,
    ChangelogCorruptedError,
    OffsetOutOfRangeError,
    StoreMismatchError,
)
from statestores.kafka.changelog_rows import ChangelogRow, RowFormat
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.internal_topics import changelog_name
from statestores.kafka.tasks.changelog_frames import (
    FoundFrame,
    FrameFormat,
    Purpose,
    is_frame,
)
from statestores.kafka.tasks.noted_topics import NotedTopic
from statestores.kafka.tasks.wholes import Wholes
from statestores.opening import open_store
from statestores.processing.topology import SubTopology
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import Durability, Position, StateStore, TopicPartition
from statestores.spi.closing import Closing

_LOADING = TopicPartition("statestores.whole", 0)
"""Its offset says how far the store is with a whole, so that a crash in between is no loss."""
_BEGUN, _ENDED = 1, 2

_READ = "#read"
"""Behind the name of a changelog, in no other topic's. Its offset is the last one that is no change
the store lacks, where that is behind the last change: the end of a transaction is (KFK-48)."""

_OTHERS = (
    "partition %d of the changelog %r has records of another instance, %d of the offsets %d to %d, "
    "written since this one has the task: it was stopped or cut off in the middle of a commit, and "
    "they may stand over newer ones. The store here is right; one that is restored from this "
    "changelog may lack what was counted since. With guarantee='exactly_once' brokers refuse them"
)

_WHO_COMMITS = "the runner commits the stores of a task together, with its transaction"


class LoggedStore:
    """A store, its changelog partition, and the form of its records."""

    def __init__(
        self, store: StateStore, changelog: TopicPartition, frames: FrameFormat | None = None
    ) -> None:
        """Take over an open store, whose changelog has *frames*, or else rows."""
        self.store = store
        self.changelog = changelog
        self.rows = RowFormat(store.specification)
        self.frames = frames
        self._mark: int | None = None
        """What the next commit says of `_LOADING`."""
        self._read = TopicPartition(f"{changelog.topic}{_READ}", changelog.partition)
        self._noted: NotedTopic | None = None
        self.wholes = Wholes()
        """When all of the store is written into a changelog of frames."""
        self.appended: int | None = None
        """The offset of the last record of the commit under way, once the broker has said it."""
        self.written = 0
        """How many records the commit under way has in the changelog."""
        self.reflected = self.next_offset
        """As `next_offset`, for any thread."""
        read = store.committed_offset(self._read)
        self.reached = max(self.reflected, 0 if read is None else read + 1)
        """From where on the changelog may have a change that the store lacks; for any thread.

        Ends of transactions and what was taken back may lie between `reflected` and this."""

    @property
    def next_offset(self) -> int:
        """The first offset of the changelog that the store does not reflect."""
        offset = self.store.committed_offset(self.changelog)
        return 0 if offset is None else offset + 1

    @property
    def is_half_loaded(self) -> bool:
        """Whether the store has some rows of a snapshot, and not all."""
        return self.store.committed_offset(restore_mark(self.store.specification)) is not None

    def check_is_ours(self) -> None:
        """Accept a store that reflects its changelog, or nothing (KFK-34).

        Raises:
            StoreMismatchError: It has rows, and nothing of that changelog is noted with them.
        """
        noted = (self.changelog, _LOADING, restore_mark(self.store.specification))
        if all(self.store.committed_offset(each) is None for each in noted) and has_rows(
            self.store
        ):
            raise StoreMismatchError(
                f"the store {self.store.name!r} holds rows and has no committed offset of "
                f"{self.changelog}, so nobody knows which records they reflect: they are of "
                "another application or runner; give the instance a directory of its own"
            )

    def has_all_before(self, start: int) -> bool:
        """Whether the store has some of its changelog, and no change before *start* is missing."""
        return self.next_offset > 0 and self.reached >= start

    def has_begun_at(self, offset: int) -> None:
        """Note that the store has what a snapshot at *offset* has."""
        self.reflected = offset + 1
        self.has_read_to(offset + 1)

    def begin_restore(self, start: int, end: int, topic_id: str) -> bool:
        """Judge the store by what its changelog has, from *start* up to *end*, excluded.

        A store that has missed what is no longer there, or has a part of a snapshot, is emptied,
        and False returned: all that the changelog has is to be read.

        Raises:
            OffsetOutOfRangeError: The changelog ends before what the store reflects, or is another
                topic of that name than the one with *topic_id*.
        """
        following = self.next_offset
        noted = self._noted = NotedTopic(self.store, self.changelog.topic, topic_id)
        if following and noted.is_other:
            raise OffsetOutOfRangeError(
                f"the store {self.store.name!r} reflects another topic than the one that is called "
                f"{self.changelog.topic!r} now, which has been deleted and created since; remove "
                "the local store to begin with what the topic has"
            )
        if following > end:
            raise OffsetOutOfRangeError(
                f"the store {self.store.name!r} reflects its changelog up to offset "
                f"{following - 1}, and partition {self.changelog.partition} of "
                f"{self.changelog.topic!r} ends before {end}: it is another topic than before, or "
                "has lost its end; remove the local store to begin with what the topic has"
            )
        has_missed = following > 0 and not self.has_all_before(start)
        if has_missed or self.is_half_loaded or noted.is_other:
            self.reflected = self.reached = 0
            self.store.truncate()
            noted.has_been_emptied()
            self.wholes.begin(start)
            return False
        self.wholes.begin(start)
        return True

    def take(self, rows: list[ChangelogRow], first: int) -> None:
        """Replay *rows* of the changelog, the first of which is behind *first*, as pending writes.

        A whole is taken by a store that is empty. Another one has all of it, since a whole repeats
        what lies before it, and a store that lacks something of that has been emptied.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError: They are no such changes.
        """
        if self.frames is None:
            if any(map(is_frame, rows)):
                raise ChangelogCorruptedError(
                    f"the changelog topic {self.changelog.topic!r} has frames; run with "
                    "changelog_format='frames'"
                )
            self.store.replay(self.rows.changes(rows))
            return
        for row in rows:
            shown = (
                f"a record after offset {first - 1} of partition {self.changelog.partition} of "
                f"the changelog {self.changelog.topic!r}"
            )
            found = self.frames.found(row, shown)
            if found.purpose is Purpose.CHANGES:
                self._end_loading()
                self.store.replay(found.changes)
            elif not self._is_loading:
                continue
            else:
                self._load(found)
            if found.position:
                self.replace_position(found.position)

    def replace_position(self, position: Mapping[TopicPartition, int | None]) -> None:
        """Have the next commit say *position* of these inputs, also where that goes back (KFK-50).

        ``None`` is for an input of which the store reflects nothing.
        """
        below: Any = store_of_bytes(self.store)
        below.replace_position(position)

    @property
    def _is_loading(self) -> bool:
        """Whether the store is empty, or has begun to take a whole and not ended."""
        mark = self.store.committed_offset(_LOADING) if self._mark is None else self._mark
        return mark == _BEGUN or (mark is None and self.next_offset == 0)

    def _load(self, found: FoundFrame) -> None:
        if len(found.changes):
            self.store.load(found.changes, stream_time_ms=found.stream_time_ms)
        self._mark = _BEGUN if found.purpose is Purpose.WHOLE else _ENDED

    def _end_loading(self) -> None:
        """Take no whole from here on."""
        if self._is_loading:
            self._mark = _ENDED

    def records(self, position: Position, now_ms: int) -> Iterable[ChangelogRow]:
        """Return the pending changes as records of the changelog; none, if there are none."""
        changes = self.store.pending_changes()
        if not len(changes):
            return ()
        if self.frames is None:
            return self.rows.rows(changes, now_ms)
        return self.frames.records(changes, position, now_ms)

    def commit(self, offset: int | None, markers: int = 0) -> None:
        """Commit what is pending, with the *offset* of its last record.

        Behind it are so many *markers* of the transaction that the record is the last one of.
        """
        marks = self.notes()
        if self._mark is not None:
            marks[_LOADING] = self._mark
        self._mark = None
        if offset is not None:
            marks[self.changelog] = offset
            if markers:
                marks[self._read] = offset + markers
        elif self.reached > self.next_offset:
            marks[self._read] = self.reached - 1
        self.store.commit(marks)
        self.has_committed(offset, markers)

    def tell_of_others(self, last: int) -> None:
        """Warn where the changelog has more than the commit wrote, up to its *last* (KFK-51)."""
        others = last + 1 - self.reached - self.written
        if others > 0:
            topic, partition = self.changelog
            CLIENT_LOGGER.warning(_OTHERS, partition, topic, others, self.reached, last)

    def notes(self) -> dict[TopicPartition, int]:
        """Return what the next commit of rows has to note besides their offset (KFK-42)."""
        return {} if self._noted is None else self._noted.offsets()

    def has_committed(self, offset: int | None, markers: int = 0) -> None:
        """Note that the store has committed `notes`, and the changes up to *offset*, if any."""
        if self._noted is not None:
            self._noted.has_been_committed()
        if offset is None:
            return
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
        frame_bytes: int | None = None,
    ) -> None:
        """Open the stores of *part* in *partition*, or create them.

        With *frame_bytes*, their changelogs have frames of up to so many bytes, else rows.

        Raises:
            StoreMismatchError: There are rows of another application.
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
                frames = None
                if frame_bytes is not None:
                    frames = FrameFormat(specification, frame_bytes)
                logged = LoggedStore(store, changelog, frames)
                self.logged[specification.name] = logged
                logged.check_is_ours()
        except BaseException:
            self.close()
            raise

    @property
    def own(self) -> LoggedStore:
        """The task's own store, with its times and timers."""
        return self.logged[self.part.task_store.name]

    def for_processors(self) -> dict[str, Any]:
        """Return the stores as the runtime gets them."""
        return {
            name: for_processors(logged.store, _WHO_COMMITS) for name, logged in self.logged.items()
        }

    @property
    def has_pending_writes(self) -> bool:
        """Whether a store was written to since the last commit."""
        return any(logged.store.has_pending_writes for logged in self.logged.values())

    def pending(
        self, position: Position, now_ms: int
    ) -> Iterator[tuple[LoggedStore, Sequence[ChangelogRow]]]:
        """Iterate over the stores that have pending writes, with these as records.

        What follows from the changes of a store comes before them, and the task's own store, which
        has the times that make a record late, comes last (KFK-43).
        """
        for logged in self.logged.values():
            logged.appended, logged.written = None, 0
        own = self.own
        effects_first = reversed(self.logged.values())
        for logged in sorted(effects_first, key=lambda each: each is own):
            rows = list(logged.records(position, now_ms))
            if rows:
                yield logged, rows

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
            if offset is not None and not markers:
                logged.tell_of_others(offset)
            logged.store.advance_position(position)
            logged.commit(offset, markers)
            logged.wholes.committed()

    def note_position(
        self, inputs: Iterable[TopicPartition], next_offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Commit that restored stores reflect their *inputs* before *next_offsets*, and no more.

        Changelogs of rows say nothing of inputs: without this, nobody could be told so before the
        task has processed a record of each (KFK-23). What stores, frames and snapshots say may be
        of an earlier topic of the name (KFK-50).

        Raises:
            StateStoreError: A store cannot be written.
        """
        position = {place: next_offsets.get(place, 0) - 1 for place in inputs}
        reflected = {place: None if last < 0 else last for place, last in position.items()}
        for logged in self.logged.values():
            logged.replace_position(reflected)
            logged.commit(None)

    def rollback(self) -> None:
        """Forget what is pending."""
        for logged in self.logged.values():
            logged.store.rollback()
            logged.wholes.taken_back()

    def close(self) -> None:
        """Close the stores; what is pending is forgotten. Idempotent."""
        with ExitStack() as stack:
            for logged in self.logged.values():
                stack.callback(logged.store.close)
