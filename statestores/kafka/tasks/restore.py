"""What is to be restored: the stores of one task, and how far each of them has come."""

import time
from collections.abc import Callable, Iterable
from threading import Lock

from confluent_kafka import Message

from statestores.arrow.progress import Progress
from statestores.errors import BrokerError, ChangelogCorruptedError
from statestores.failpoints import reach
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.messages import offset_of, time_of
from statestores.kafka.tasks.task_stores import LoggedStore, TaskStores
from statestores.kafka.tasks.waiting_columns import WaitingColumns
from statestores.spi import TopicPartition
from statestores.tasks.restore_progress import RestoreReporter
from statestores.tasks.task_id import TaskId


class Restore:
    """What is to be done for one task, and what has become of it."""

    def __init__(
        self, task: TaskId, open_stores: Callable[[], TaskStores], inputs: Iterable[TopicPartition]
    ) -> None:
        """Open by *open_stores*; the task reads *inputs*."""
        self.task = task
        self.inputs = tuple(inputs)
        self.open_stores = open_stores
        self.stores: TaskStores | None = None
        """The stores; the restorer's until `is_done`, then whoever asked for them."""
        self.next_offsets: dict[TopicPartition, int] = {}
        """Where each input goes on."""
        self.committed: dict[TopicPartition, int] = {}
        """Those of them that the group has committed: the restored stores reflect what is before.
        """
        self.must_say_beginnings = False
        """Whether the group is to be told where inputs began: whoever asks later begins later."""
        self.input_ends: dict[TopicPartition, int] = {}
        """Where each input ended when it was looked at."""
        self.failure: BaseException | None = None
        """Why it has failed."""
        self.remaining: dict[TopicPartition, Way] = {}
        """How far each store has come that has not arrived; of a standby, all of them."""
        self.undecided_since: float | None = None
        """When the group's offsets were first found to be undecided."""
        self.is_standby = False
        """Whether the stores are to follow their changelogs without an end."""
        self._lock = Lock()
        self._is_over = False
        self.is_cancelled = False
        """Whether nobody wants the task any more."""

    def cancel(self) -> None:
        """Want the task no more: its stores are closed before the next restore begins."""
        with self._lock:
            self.is_cancelled = True
            if self._is_over:
                self.let_go()

    def end(self, failure: BaseException | None) -> bool:
        """Note that it is over; return whether somebody still wants to know."""
        with self._lock:
            self._is_over = True
            self.failure = failure
            if failure is not None or self.is_cancelled:
                self.let_go()
            return not self.is_cancelled

    def let_go(self) -> None:
        """Close the stores, if they are open."""
        stores, self.stores = self.stores, None
        if stores is not None:
            stores.close()


class Way:
    """How far one store has come."""

    def __init__(
        self, logged: LoggedStore, start: int, end: int, reporter: RestoreReporter | None
    ) -> None:
        """Go from where *logged* is, at least *start*, to *end*, and tell the *reporter*."""
        self.logged = logged
        self.end = end
        self._start = start
        self.following = max(start, logged.next_offset)
        """The first offset that has not been read."""
        self.reporter = reporter
        self.rows = self.bytes = 0
        self.waits_since: float | None = None
        """When it had read everything but what an open transaction hides."""
        self.total = max(0, end - self.following)
        self._columns = WaitingColumns.of(logged, self.total)

    def take(self, messages: list[Message], allowed_bytes: int) -> None:
        """Replay and commit *messages*; where many are left, with up to *allowed_bytes* of others.

        Raises:
            StateStoreError: They are no changes of such a store, or it cannot be written.
        """
        rows = []
        for message in messages:
            key, value = message.key(), message.value()
            if key is None:
                raise ChangelogCorruptedError(
                    f"the record at offset {message.offset()} of partition {message.partition()} "
                    f"of {message.topic()!r} has no key: something else writes to this changelog"
                )
            rows.append(ChangelogRow(key, value, time_of(message)))
            self.bytes += len(key) + len(value or b"")
        last = offset_of(messages[-1])
        if self._columns is None:
            self.logged.take(rows, offset_of(messages[0]))
            self.logged.commit(last)
            reach("kafka.batch-restored")
        else:
            self._columns.take(self.logged.rows.changes(rows), last, allowed_bytes)
        self.following = last + 1
        self.waits_since = None
        self.rows += len(rows)
        if self.reporter is not None:
            total = max(self.total, self.rows)
            self.reporter(Progress(rows=self.rows, bytes=self.bytes, total_rows=total, offset=last))

    @property
    def next_offset(self) -> int:
        """Where to read on: nothing is missing before it, although it may be deleted (KFK-48).

        Of a transaction that is noted, the end may still have to be written.
        """
        return max(self.following, min(self.logged.reached, self.end))

    @property
    def kept(self) -> int:
        """The first offset that the store does not reflect yet; any thread may ask."""
        return max(self._start, self.logged.reflected)

    def end_long_restore(self) -> None:
        """Commit what waits, and from now on each batch as it comes: the end has been seen.

        Raises:
            StateStoreError: The store cannot be written.
        """
        if self._columns is not None:
            self._columns.commit()
            self._columns = None

    def hangs(self, seconds: float) -> BrokerError | None:
        """Return the failure of a wait of so many *seconds* for an open transaction, if it is one.

        Brokers may lose the end of one (KIP-664). Whether what it hides was committed is not known,
        so a task is not run without it.
        """
        if self.waits_since is None or self.waits_since >= time.monotonic() - seconds:
            return None
        place = self.logged.changelog
        return BrokerError(
            f"a transaction has been open in partition {place.partition} of the changelog "
            f"{place.topic!r} for {seconds:.0f} s, from offset {self.following} on, and nobody "
            "ends it: find it with Kafka's `kafka-transactions.sh find-hanging`, end it with its "
            "`abort`, and start again"
        )
