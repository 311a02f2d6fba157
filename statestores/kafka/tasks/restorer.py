"""The thread that opens the stores of tasks and brings them up to their changelogs (KFK-8, KFK-12).

The thread that polls goes on meanwhile, so a restore of hours costs no membership. Of each task,
in this order: the group's committed offsets are asked for, which waits for those that a transaction
is still committing; then the high watermarks of the changelogs; then the changelogs are read until
nothing below these is undecided. The first makes sure that the transactions of whoever had the task
before are among what lies below the second.

The same thread keeps standbys: stores that follow their changelogs while another instance has the
task. A task that comes here takes its standby over, and reads what that lacks (KFK-17).
"""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.arrow.progress import Progress
from statestores.errors import StateStoreError, StoreClosedError
from statestores.kafka.broker_errors import broker_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings, OffsetReset
from statestores.kafka.cluster import Cluster, may_pass
from statestores.kafka.messages import offset_of, place_of
from statestores.kafka.readers import consumed, open_reader
from statestores.kafka.tasks.group_offsets import GroupOffsets
from statestores.kafka.tasks.input_positions import InputPositions
from statestores.kafka.tasks.restore import Restore, Way
from statestores.kafka.tasks.shared_snapshots import SharedSnapshots
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.spi import TopicPartition
from statestores.tasks.restore_progress import RestoreListener, RestoreReporter
from statestores.tasks.task_id import TaskId

_BATCH_RECORDS = 2_000
_WAITING_BYTES = 64 << 20
"""Of columns that long restores have read and not committed, all of them together."""
_WAIT_SECONDS = 0.1
_LOOK_SECONDS = 0.5
"""How often it is looked how far changelogs are ahead of standbys."""
_HANGING_SECONDS = 120.0
"""Beyond the time that transactions may take, how long one may stay open in a changelog."""

_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001  # its name
"""What is told of an offset that a partition no longer has."""

_Copies: TypeAlias = Mapping[TaskId, Callable[[], TaskStores]]


class Restorer:
    """One thread, and a consumer of its own. `begin` and `finished` are for the polling thread."""

    def __init__(
        self,
        application: str,
        settings: ClientSettings,
        cluster: Cluster,
        *,
        offset_reset: OffsetReset,
        internal: Collection[str],
        listener: RestoreListener | None,
        snapshots: SharedSnapshots | None = None,
    ) -> None:
        """Start the thread. Topics that are *internal* begin where they begin, whatever the reset.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        self._cluster = cluster
        self._listener = listener
        self._snapshots = snapshots
        self._consumer = open_reader(settings, application)
        self._asked: SimpleQueue[Restore | _Copies] = SimpleQueue()
        self._done: SimpleQueue[Restore] = SimpleQueue()
        self._waiting: list[Restore] = []
        self._running: dict[TopicPartition, Restore] = {}
        self._standbys: dict[TaskId, Restore] = {}
        self._look_due = 0.0
        timeout_ms = int(settings.producer("any")["transaction.timeout.ms"])
        self._hanging_seconds = timeout_ms / 1_000 + _HANGING_SECONDS
        offsets = GroupOffsets(
            self._consumer, cluster, offset_reset=offset_reset, internal=internal
        )
        self._positions = InputPositions(offsets, cluster, self._hanging_seconds)
        self._stopping = Event()
        self._thread = Thread(target=self._work, name="restore", daemon=True)
        self._thread.start()

    def begin(self, restore: Restore) -> None:
        """Have *restore* done, after those before it have begun."""
        self._asked.put(restore)

    def follow(self, copies: _Copies) -> None:
        """Have standbys of exactly the tasks *copies*, each with what opens its stores."""
        self._asked.put(copies)

    def standbys(self) -> list[Restore]:
        """Return the standbys that there are; any thread may ask."""
        return list(self._standbys.values())

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
        running += [each for each in self._standbys.values() if each not in running]
        waiting, self._waiting, self._running, self._standbys = self._waiting, [], {}, {}
        while not self._asked.empty():
            asked = self._asked.get()
            if isinstance(asked, Restore):
                waiting.append(asked)
        return running + waiting

    def _step(self) -> None:
        """Take up what is asked for, and read on."""
        asked: list[Restore | _Copies] = []
        if not self._running and not self._waiting:
            try:
                asked.append(self._asked.get(timeout=_WAIT_SECONDS))
            except Empty:
                return
        while not self._asked.empty():
            asked.append(self._asked.get())
        # First what is wanted no more, among it what has just come: the next one of the same task
        # may have come as well.
        self._waiting += [each for each in asked if isinstance(each, Restore)]
        changed = self._drop_cancelled()
        for each in asked:
            if not isinstance(each, Restore):
                changed |= self._follow(each)
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
            if not self._positions.find(restore):
                return False
            standby = self._standbys.pop(restore.task, None)
            if standby is not None:
                self._forget(standby)
                restore.stores, standby.stores = standby.stores, None
            if restore.stores is None:
                restore.stores = restore.open_stores()
            self._find_ways(restore, restore.stores)
        except BaseException as error:  # noqa: BLE001  # told to the thread that polls
            self._end(restore, error)
            return True
        if not restore.remaining:
            self._end(restore, None)
        return True

    def _find_ways(self, restore: Restore, stores: TaskStores) -> None:
        """Find out what the changelogs have that *stores* lack, and read it from now on."""
        changelogs = {logged.changelog: logged for logged in stores.logged.values()}
        ends = self._cluster.ends(changelogs, committed=False)
        starts = self._cluster.starts(changelogs)
        ids = self._cluster.ids_of(place.topic for place in changelogs)
        for place, logged in changelogs.items():
            reporter = None
            if not restore.is_standby:
                reporter = RestoreReporter(self._listener, restore.task, logged.store.name)
                reporter.start()
            if self._snapshots is not None:
                told = partial(self._loaded, restore, reporter)
                self._snapshots.load(logged, starts[place], ends[place], told)
            if not logged.begin_restore(starts[place], ends[place], ids[place.topic]):
                CLIENT_LOGGER.warning(
                    "the store %r of task %s has missed what its changelog no longer has, or has "
                    "a part of a snapshot; it is restored from the beginning",
                    logged.store.name,
                    restore.task,
                )
            way = Way(logged, starts[place], ends[place], reporter)
            if restore.is_standby or way.following < way.end:
                restore.remaining[place] = way
                self._running[place] = restore
            elif reporter is not None:
                reporter.end()

    def _loaded(
        self, restore: Restore, reporter: RestoreReporter | None, progress: Progress
    ) -> None:
        """Tell how much of a snapshot is loaded, unless nobody wants it any more."""
        if restore.is_cancelled or self._stopping.is_set():
            raise StoreClosedError(f"the task {restore.task} is not restored here any more")
        if reporter is not None:
            reporter(progress)

    def _follow(self, copies: _Copies) -> bool:
        """Begin and end standbys; return whether other changelogs are to be read."""
        changed = False
        # What is about to be taken over is not closed before.
        wanted = {each.task for each in (*self._waiting, *self._running.values())}
        wanted -= self._standbys.keys() - {each.task for each in self._waiting}
        for task in self._standbys.keys() - copies.keys() - wanted:
            standby = self._standbys.pop(task)
            self._forget(standby)
            standby.let_go()
            changed = True
        for task in copies.keys() - self._standbys.keys() - wanted:
            standby = Restore(task, copies[task], ())
            standby.is_standby = True
            try:
                standby.stores = standby.open_stores()
                self._find_ways(standby, standby.stores)
            except StateStoreError as error:  # it is wanted again with the next assignment
                self._lose(standby, error)
            else:
                self._standbys[task] = standby
            changed = True
        return changed

    def _lose(self, standby: Restore, error: StateStoreError) -> None:
        CLIENT_LOGGER.warning("the standby of task %s is given up: %s", standby.task, error)
        self._standbys.pop(standby.task, None)
        self._forget(standby)
        standby.let_go()

    def _forget(self, restore: Restore) -> None:
        """Read the changelogs of *restore* no more."""
        self._running = {
            place: each for place, each in self._running.items() if each is not restore
        }

    def _assign(self) -> None:
        """Read what is left of all changelogs."""
        self._consumer.assign(
            [
                KafkaPartition(*place, restore.remaining[place].next_offset)
                for place, restore in self._running.items()
            ]
        )

    def _read(self) -> None:
        """Take a batch of what the changelogs have."""
        by_place: dict[TopicPartition, list[Message]] = {}
        ended: dict[TopicPartition, int] = {}
        for message in consumed(self._consumer, _BATCH_RECORDS, _WAIT_SECONDS):
            error = message.error()
            place = place_of(message)
            if error is None:
                by_place.setdefault(place, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                ended[place] = offset_of(message)
            elif error.code() in _LOST:
                self._begin_again(place)
            elif not may_pass(error):
                raise broker_error(f"read the changelog {place.topic!r}", KafkaException(error))
        for place, found in by_place.items():
            self._take(place, found)
        for place, offset in ended.items():
            restore = self._running.get(place)
            if restore is not None and not restore.is_cancelled:
                self._note_end(place, offset, restore)
        self._give_up_hanging()
        self._look_ahead()

    def _begin_again(self, place: TopicPartition) -> None:
        """Look anew at what lacks something that the changelog no longer has."""
        restore = self._running.get(place)
        if restore is None or restore.stores is None or restore.is_cancelled:
            return
        self._forget(restore)
        restore.remaining.clear()
        try:
            self._find_ways(restore, restore.stores)
        except StateStoreError as failure:
            self._fail(restore, failure)
            return
        if not restore.remaining:
            self._end(restore, None)
        self._assign()

    def _note_end(self, place: TopicPartition, offset: int, restore: Restore) -> None:
        """Note that nothing decided is left of *place*, up to *offset*."""
        way = restore.remaining[place]
        try:
            way.end_long_restore()
        except StateStoreError as failure:
            self._fail(restore, failure)
            return
        way.logged.has_read_to(offset)
        if restore.is_standby:
            return
        if offset >= way.end:
            self._arrive(place, restore)
        elif way.waits_since is None:
            way.waits_since = time.monotonic()

    def _look_ahead(self) -> None:
        """Note how far changelogs are ahead of standbys."""
        now = time.monotonic()
        if now < self._look_due:
            return
        self._look_due = now + _LOOK_SECONDS
        for standby in self._standbys.values():
            for place, way in standby.remaining.items():
                _, end = self._consumer.get_watermark_offsets(KafkaPartition(*place), cached=True)
                way.end = max(way.end, end, way.following)

    def _give_up_hanging(self) -> None:
        """Fail what waits for a transaction that should long have ended."""
        for place, restore in list(self._running.items()):
            way = restore.remaining.get(place)
            failure = None if way is None else way.hangs(self._hanging_seconds)
            if failure is not None:
                self._fail(restore, failure)

    def _take(self, place: TopicPartition, messages: list[Message]) -> None:
        """Give the store of *place* those of *messages* that it has not got."""
        restore = self._running.get(place)
        if restore is None or restore.is_cancelled:
            return
        way = restore.remaining[place]
        following = [message for message in messages if offset_of(message) >= way.following]
        try:
            if following:
                way.take(following, _WAITING_BYTES // len(self._running))
        except StateStoreError as failure:
            self._fail(restore, failure)

    def _arrive(self, place: TopicPartition, restore: Restore) -> None:
        """Note that one store has everything."""
        reporter = restore.remaining.pop(place).reporter
        if reporter is not None:
            reporter.end()
        del self._running[place]
        if not restore.remaining:
            self._end(restore, None)
        self._assign()

    def _fail(self, restore: Restore, failure: StateStoreError) -> None:
        if restore.is_standby:
            self._lose(restore, failure)
            self._assign()
            return
        self._forget(restore)
        self._assign()
        self._end(restore, failure)

    def _end(self, restore: Restore, failure: BaseException | None) -> None:
        if restore.is_standby:
            restore.let_go()
        elif restore.end(failure):
            self._done.put(restore)
