"""The thread that opens the stores of tasks and brings them up to their changelogs (KFK-8, KFK-12).

The thread that polls goes on meanwhile, so a restore of hours costs no membership. Of each task,
in this order: the group's committed offsets are asked for, which waits for those that a transaction
is still committing; then the high watermarks of the changelogs; then the changelogs are read until
nothing below these is undecided. The first makes sure that the transactions of whoever had the task
before are among what lies below the second.
"""

import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.arrow.progress import Progress
from statestores.errors import BrokerError, ChangelogCorruptedError, StateStoreError
from statestores.kafka.broker_errors import broker_error, error_of, settings_error
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings, OffsetReset
from statestores.kafka.cluster import Cluster, may_pass
from statestores.kafka.messages import offset_of, time_of
from statestores.kafka.task_stores import LoggedStore, TaskStores
from statestores.spi import TopicPartition
from statestores.tasks.restore_progress import RestoreListener, RestoreReporter
from statestores.tasks.task_id import TaskId

_BATCH_RECORDS = 2_000
_WAIT_SECONDS = 0.1
_ASK_SECONDS = 1.0
_HANGING_SECONDS = 120.0
"""Beyond the time that transactions may take, how long one may stay open in a changelog."""


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
        self.input_ends: dict[TopicPartition, int] = {}
        """Where each input ended when it was looked at."""
        self.failure: BaseException | None = None
        """Why it has failed."""
        self.remaining: dict[TopicPartition, _Way] = {}
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


class _Way:
    """How far one store has come."""

    def __init__(
        self, logged: LoggedStore, start: int, end: int, reporter: RestoreReporter
    ) -> None:
        self.logged = logged
        self.end = end
        self.following = max(start, logged.next_offset)
        self.reporter = reporter
        self.rows = self.bytes = 0
        self.waits_since: float | None = None
        """When it had read everything but what an open transaction hides."""
        self.total = max(0, end - self.following)

    def take(self, messages: list[Message]) -> None:
        """Replay and commit *messages*: a crash of the process repeats nothing of it."""
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
        self.logged.take(rows)
        last = offset_of(messages[-1])
        self.logged.store.commit({self.logged.changelog: last})
        self.following = last + 1
        self.waits_since = None
        self.rows += len(rows)
        total = max(self.total, self.rows)
        self.reporter(Progress(rows=self.rows, bytes=self.bytes, total_rows=total, offset=last))


class Restorer:
    """One thread, and a consumer of its own. `begin` and `finished` are for the polling thread."""

    def __init__(
        self,
        application: str,
        settings: ClientSettings,
        cluster: Cluster,
        *,
        offset_reset: OffsetReset,
        listener: RestoreListener | None,
    ) -> None:
        """Start the thread.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        self._cluster = cluster
        self._offset_reset: OffsetReset = offset_reset
        self._listener = listener
        try:
            self._consumer = Consumer(settings.reader(application), logger=CLIENT_LOGGER)
        except KafkaException as error:
            raise settings_error(error) from error
        self._asked: SimpleQueue[Restore] = SimpleQueue()
        self._done: SimpleQueue[Restore] = SimpleQueue()
        self._waiting: list[Restore] = []
        self._running: dict[TopicPartition, Restore] = {}
        timeout_ms = int(settings.producer("any")["transaction.timeout.ms"])
        self._hanging_seconds = timeout_ms / 1_000 + _HANGING_SECONDS
        self._stopping = Event()
        self._thread = Thread(target=self._work, name="restore", daemon=True)
        self._thread.start()

    def begin(self, restore: Restore) -> None:
        """Have *restore* done, after those before it have begun."""
        self._asked.put(restore)

    def finished(self) -> list[Restore]:
        """Return what has ended since the last call: restored, or failed; not what is cancelled."""
        found: list[Restore] = []
        while True:
            try:
                restore = self._done.get_nowait()
            except Empty:
                return found
            if not restore.is_cancelled:
                found.append(restore)

    def stop(self) -> None:
        """End the thread; stores that nobody has taken are closed."""
        self._stopping.set()
        self._thread.join()
        for restore in self.finished():
            restore.let_go()
        self._consumer.close()

    # The thread.

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except BaseException as error:  # noqa: BLE001  # told to the thread that polls
                for restore in self._unfinished():
                    self._end(restore, error)
        for restore in self._unfinished():
            restore.let_go()

    def _unfinished(self) -> list[Restore]:
        running = list(dict.fromkeys(self._running.values()))
        waiting, self._waiting, self._running = self._waiting, [], {}
        while not self._asked.empty():
            waiting.append(self._asked.get())
        return running + waiting

    def _step(self) -> None:
        """Take up what is asked for, and read on."""
        if not self._running and not self._waiting:
            try:
                self._waiting.append(self._asked.get(timeout=_WAIT_SECONDS))
            except Empty:
                return
        while not self._asked.empty():
            self._waiting.append(self._asked.get())
        changed = self._drop_cancelled()
        for restore in self._waiting.copy():
            if self._prepare(restore):
                self._waiting.remove(restore)
                changed = True
        if changed:
            self._assign()
        if self._running:
            self._read()

    def _drop_cancelled(self) -> bool:
        for restore in self._waiting.copy():
            if restore.is_cancelled:
                self._waiting.remove(restore)
                restore.let_go()
        gone = {place for place, each in self._running.items() if each.is_cancelled}
        for restore in dict.fromkeys(self._running[place] for place in gone):
            restore.let_go()
        for place in gone:
            del self._running[place]
        return bool(gone)

    def _prepare(self, restore: Restore) -> bool:
        """Find out what *restore* has to read; False when the group's offsets are undecided."""
        try:
            if not self._ask_offsets(restore):
                return False
            stores = restore.stores = restore.open_stores()
            changelogs = {logged.changelog: logged for logged in stores.logged.values()}
            ends = self._cluster.ends(changelogs, committed=False)
            starts = self._cluster.starts(changelogs)
            for place, logged in changelogs.items():
                if not logged.begin_restore(starts[place], ends[place]):
                    CLIENT_LOGGER.warning(
                        "the store %r of task %s has missed what its changelog no longer has; it "
                        "is restored from the beginning",
                        logged.store.name,
                        restore.task,
                    )
                reporter = RestoreReporter(self._listener, restore.task, logged.store.name)
                reporter.start()
                way = _Way(logged, starts[place], ends[place], reporter)
                if way.following < way.end:
                    restore.remaining[place] = way
                    self._running[place] = restore
                else:
                    reporter.end()
        except BaseException as error:  # noqa: BLE001  # told to the thread that polls
            self._end(restore, error)
            return True
        if not restore.remaining:
            self._end(restore, None)
        return True

    def _ask_offsets(self, restore: Restore) -> bool:
        """Find out where the inputs go on; False while a transaction is about to say it."""
        places = [KafkaPartition(*place) for place in restore.inputs]
        try:
            committed = self._consumer.committed(places, timeout=_ASK_SECONDS)
        except KafkaException as error:
            if may_pass(error_of(error)):
                return False
            raise broker_error("read the group's committed offsets", error) from error
        for found in committed:
            if found.error is not None:
                if may_pass(found.error):
                    return False
                raise broker_error(
                    f"read the committed offset of {found.topic!r}", KafkaException(found.error)
                )
        known = {
            TopicPartition(found.topic, found.partition): found.offset
            for found in committed
            if found.offset >= 0
        }
        unknown = [place for place in restore.inputs if place not in known]
        known |= self._cluster.beginnings(unknown, self._offset_reset)
        restore.next_offsets = known
        restore.input_ends = self._cluster.ends(restore.inputs, committed=True)
        return True

    def _assign(self) -> None:
        """Read what is left of all changelogs."""
        self._consumer.assign(
            [
                KafkaPartition(*place, restore.remaining[place].following)
                for place, restore in self._running.items()
            ]
        )

    def _read(self) -> None:
        """Take a batch of what the changelogs have."""
        by_place: dict[TopicPartition, list[Message]] = {}
        ended: dict[TopicPartition, int] = {}
        for message in self._consumer.consume(_BATCH_RECORDS, _WAIT_SECONDS):
            error = message.error()
            place = TopicPartition(message.topic() or "", message.partition() or 0)
            if error is None:
                by_place.setdefault(place, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                ended[place] = offset_of(message)
            elif not may_pass(error):
                raise broker_error(f"read the changelog {place.topic!r}", KafkaException(error))
        for place, found in by_place.items():
            self._take(place, found)
        for place, offset in ended.items():
            restore = self._running.get(place)
            if restore is not None and offset >= restore.remaining[place].end:
                self._arrive(place, restore)
            elif restore is not None and restore.remaining[place].waits_since is None:
                restore.remaining[place].waits_since = time.monotonic()
        self._give_up_hanging()

    def _give_up_hanging(self) -> None:
        """Fail what waits for a transaction that should long have ended.

        Brokers may lose the end of one (KIP-664). Whether what it hides was committed is not known,
        so a task is not run without it.
        """
        oldest = time.monotonic() - self._hanging_seconds
        for place, restore in list(self._running.items()):
            way = restore.remaining.get(place)
            if way is not None and way.waits_since is not None and way.waits_since < oldest:
                self._fail(
                    restore,
                    BrokerError(
                        f"a transaction has been open in partition {place.partition} of the "
                        f"changelog {place.topic!r} for {self._hanging_seconds:.0f} s, from "
                        f"offset {way.following} on, and nobody ends it: find it with Kafka's "
                        "`kafka-transactions.sh find-hanging`, end it with its `abort`, and start "
                        "again"
                    ),
                )

    def _take(self, place: TopicPartition, messages: list[Message]) -> None:
        """Give the store of *place* those of *messages* that it has not got."""
        restore = self._running.get(place)
        if restore is None or restore.is_cancelled:
            return
        way = restore.remaining[place]
        following = [message for message in messages if offset_of(message) >= way.following]
        try:
            if following:
                way.take(following)
        except StateStoreError as failure:
            self._fail(restore, failure)

    def _arrive(self, place: TopicPartition, restore: Restore) -> None:
        """Note that one store has everything."""
        restore.remaining.pop(place).reporter.end()
        del self._running[place]
        if not restore.remaining:
            self._end(restore, None)
        self._assign()

    def _fail(self, restore: Restore, failure: BaseException) -> None:
        self._running = {
            place: each for place, each in self._running.items() if each is not restore
        }
        self._assign()
        self._end(restore, failure)

    def _end(self, restore: Restore, failure: BaseException | None) -> None:
        if restore.end(failure):
            self._done.put(restore)
