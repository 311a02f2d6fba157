"""One stay of an instance in its group: what it is assigned, and the tasks that come of it.

Everything here is called by one thread, the callbacks too: they come while it polls. Partitions
are paused from their assignment until their task is restored (KFK-12), and read from where the
group's committed offsets are. What was polled and no task has accepted is read again.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import (
    BrokerError,
    InstanceFencedError,
    OffsetOutOfRangeError,
    TopologyMismatchError,
)
from statestores.failpoints import reach
from statestores.kafka.broker_errors import (
    TransactionAbortedError,
    broker_error,
    error_of,
    settings_error,
)
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import may_pass
from statestores.kafka.global_tables import GlobalTables
from statestores.kafka.kafka_task import KafkaTask
from statestores.kafka.messages import offset_of
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.restorer import Restore, Restorer
from statestores.kafka.task_stores import TaskStores
from statestores.kafka.writer import TaskWriter, Writer
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import TopicPartition

_POLL_RECORDS = 1_000
_STEP_RECORDS = 500
"""Records that a task takes before the next one has its turn, and the clock is looked at."""
_PAUSE_AT = 10_000
_RESUME_AT = 1_000
"""How many records wait for another partition's when theirs is paused, and resumed."""
_MOST_ABORTS = 20
"""Aborts without a commit in between, after which the run ends: it is not going to get better."""
_CO_PARTITION_SECONDS = 60.0
"""How long a task may have a part of its partitions: longer than any rebalance."""


class Membership:
    """A member of the group, until `leave` or `abandon`."""

    def __init__(
        self,
        plan: Plan,
        settings: dict[str, object],
        open_stores: Callable[[TaskKey], TaskStores],
        restorer: Restorer,
        writer: Writer,
        global_tables: GlobalTables,
        *,
        is_eager: bool,
        commit_records: int,
    ) -> None:
        """Join the group, with the *settings* of a consumer.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        self._plan = plan
        self._open_stores = open_stores
        self._restorer = restorer
        self._writer = writer
        self._globals = global_tables
        self._is_eager = is_eager
        self._commit_records = commit_records
        self.tasks: dict[TaskKey, KafkaTask] = {}
        self.restoring: dict[TaskKey, Restore] = {}
        self.aborts = 0
        self.finished: list[KafkaTask] = []
        """Tasks that were closed, for their counts."""
        self._aborts_in_a_row = 0
        self._owned: dict[TopicPartition, float] = {}
        self._by_place: dict[TopicPartition, KafkaTask] = {}
        self._to_seek: dict[TopicPartition, int] = {}
        self._asleep: set[TopicPartition] = set()
        self._held: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._has_changed = False
        self._is_over = False
        self._failure: BaseException | None = None
        try:
            self._consumer = Consumer(settings, logger=CLIENT_LOGGER)
        except KafkaException as error:
            raise settings_error(error) from error
        self._consumer.subscribe(
            plan.subscription,
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    # What the runner calls.

    def poll(self, wait_seconds: float) -> bool:
        """Take what has come: records, assignments, restored tasks; return whether anything has.

        Raises:
            BrokerError, InstanceFencedError: The broker refuses; see `Writer.commit`.
            TopologyMismatchError: The group's assignment tears tasks apart.
            StateStoreError: A task could not be restored.
        """
        self._has_changed = False
        messages = self._consumer.consume(_POLL_RECORDS, wait_seconds)
        if self._failure is not None:
            raise self._failure
        self._writer.poll()
        self._dispatch(messages)
        restored = self._restorer.finished()
        for restore in restored:
            self._begin(restore)
        if self.restoring or len(self._by_place) < len(self._owned):
            self._check_whole()
        self._seek()
        return bool(messages or restored)

    def process(self, wall_ms: int) -> int:
        """Let each task process what waits; return how many records that were.

        Raises:
            ProcessingError: A record failed, and the policy is to fail.
            BrokerError: Something could not be written.
        """
        done = 0
        for task in self.tasks.values():
            done += task.advance(
                wall_ms, min(_STEP_RECORDS, max(0, self._commit_records - task.uncommitted))
            )
        for place, task in self._by_place.items():
            waiting = task.waiting(place)
            if waiting == 0 and len(task.processed) > 1:
                behind = self.behind(place, task.accepted[place])
                if behind is not None:
                    task.set_lag(place, behind)
            if waiting > _PAUSE_AT and place not in self._held:
                self._consumer.pause([KafkaPartition(*place)])
                self._held.add(place)
            elif waiting <= _RESUME_AT and place in self._held:
                self._consumer.resume([KafkaPartition(*place)])
                self._held.discard(place)
        return done

    @property
    def wants_commit(self) -> bool:
        """Whether a task has asked for a commit, or has as many records as it may."""
        return any(
            task.runtime.commit_requested or task.uncommitted >= self._commit_records
            for task in self.tasks.values()
        )

    def commit(self, wall_ms: int) -> bool:
        """Commit what all tasks have done, if anything, as one; return whether it is committed.

        Raises:
            BrokerError, InstanceFencedError: See `Writer.commit`.
            StateStoreError: It is committed, and a store could not follow: open it again.
        """
        dirty = [task for task in self.tasks.values() if task.has_uncommitted]
        for task in self.tasks.values():
            task.runtime.commit_requested = False
        if not dirty:
            return False
        offsets: dict[TopicPartition, int] = {}
        try:
            for task in dirty:
                offsets |= task.append_changes()
            reach("kafka.changes-written")
            self._writer.commit(offsets, self._consumer)
        except TransactionAbortedError as error:
            self._roll_back(dirty, error, wall_ms)
            return False
        reach("kafka.committed")
        for task in dirty:
            task.commit_stores()
            reach("kafka.store-committed")
        self._writer.commit_offsets(offsets, self._consumer)
        self._aborts_in_a_row = 0
        return True

    def behind(self, place: TopicPartition, offset: int) -> int | None:
        """Return how many offsets *place* has from *offset* on; ``None`` while nobody knows."""
        _, end = self._consumer.get_watermark_offsets(KafkaPartition(*place), cached=True)
        if end < 0:
            return None
        return max(0, int(end) - max(offset, self._ends.get(place, 0)))

    def lag(self) -> dict[TopicPartition, int]:
        """Return how far the partitions that are read here are ahead of what was processed."""
        found = {}
        for place, task in self._by_place.copy().items():
            waiting = task.accepted[place] - task.processed[place]
            behind = self.behind(place, task.accepted[place])
            if behind is not None:
                found[place] = waiting + behind
        return found

    def is_at_end(
        self, ends: Callable[[Iterable[TopicPartition]], dict[TopicPartition, int]]
    ) -> bool:
        """Whether all is processed that *ends* says is there, of all that is assigned here."""
        if not self._owned or len(self._by_place) < len(self._owned) or self._to_seek:
            return False
        if any(task.has_waiting for task in self.tasks.values()):
            return False
        if self._ends.keys() != self._by_place.keys():
            return False
        reached = {
            place: max(task.accepted[place], self._ends[place])
            for place, task in self._by_place.items()
        }
        return all(reached[place] >= end for place, end in ends(reached).items())

    def offsets_of(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the committed next offsets of the partitions of *topics* that are read here."""
        names = set(topics)
        return {
            place: task.committed[place]
            for place, task in self._by_place.items()
            if place.topic in names
        }

    def leave(self, wall_ms: int) -> None:
        """Commit what was done, and leave the group, which assigns the tasks to others at once.

        Raises:
            StateStoreError: As `commit`.
        """
        try:
            self.commit(wall_ms)
        finally:
            self._end()

    def abandon(self) -> None:
        """Leave the group without a commit: what was not committed is processed again."""
        with suppress(BrokerError, InstanceFencedError):  # then the broker ends it, or has
            self._writer.abort()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._drop(list(self._owned))
        self._consumer.close()

    # Records.

    def _dispatch(self, messages: list[Message]) -> None:
        by_place: dict[TopicPartition, list[Message]] = {}
        for message in messages:
            place = TopicPartition(message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                by_place.setdefault(place, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                self._ends[place] = offset_of(message)
            else:
                self._judge(error, place)
        for place, found in by_place.items():
            task = self._by_place.get(place)
            if task is None:
                continue  # its task begins by seeking
            if self._has_changed or place in self._to_seek:
                # Polled before what is now; a part of it may be missing in front.
                self._to_seek[place] = task.accepted[place]
            else:
                task.accept(place, found)

    def _judge(self, error: KafkaError, place: TopicPartition) -> None:
        """Raise what does not pass on its own."""
        if error.code() in {KafkaError._NO_OFFSET, KafkaError._AUTO_OFFSET_RESET}:  # noqa: SLF001  # their names
            raise OffsetOutOfRangeError(
                f"{place.topic!r} has nothing at the group's offset in partition "
                f"{place.partition}: {error.str()}; choose offset_reset='earliest' or 'latest', or "
                "set the group's offsets"
            )
        if error.fatal() or not (
            may_pass(error) or error.code() == KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001  # its name
        ):
            raise broker_error("read as a member of the group", KafkaException(error))
        CLIENT_LOGGER.warning("%s: %s", error.name(), error.str())

    def _seek(self) -> None:
        """Set partitions to where their tasks go on, and have those run that were asleep."""
        for place, offset in list(self._to_seek.items()):
            try:
                self._consumer.seek(KafkaPartition(*place, offset))
            except KafkaException as error:
                if error_of(error).code() != KafkaError._STATE:  # noqa: SLF001  # its name
                    raise broker_error(f"go to offset {offset} of {place}", error) from error
                continue  # it is not being read yet
            del self._to_seek[place]
            self._ends.pop(place, None)
            if place in self._asleep:
                self._consumer.resume([KafkaPartition(*place)])
                self._asleep.discard(place)

    # Tasks.

    def _check_whole(self) -> None:
        """Have those tasks restored that have all of their partitions."""
        wanted = {
            TaskKey(self._plan.part_of(each.topic).name, each.partition) for each in self._owned
        }
        now = time.monotonic()
        for key in wanted - self.tasks.keys() - self.restoring.keys():
            places = self._plan.places(key)
            missing = [place for place in places if place not in self._owned]
            if not missing:
                restore = Restore(self._plan.task_id(key), partial(self._open_stores, key), places)
                self.restoring[key] = restore
                self._restorer.begin(restore)
            elif any(
                now - self._owned[each] > _CO_PARTITION_SECONDS
                for each in places
                if each in self._owned
            ):
                raise TopologyMismatchError(
                    f"the group assigns {', '.join(map(str, set(places) - set(missing)))} to this "
                    f"instance and {', '.join(map(str, missing))} to another, and one task reads "
                    "them all; have the broker's assignor 'range' enabled, and no other members "
                    f"in the group {self._plan.application!r}"
                )

    def _begin(self, restore: Restore) -> None:
        """Run a task whose stores are restored."""
        key = next(key for key, each in self.restoring.items() if each is restore)
        del self.restoring[key]
        if restore.failure is not None or restore.stores is None:
            raise restore.failure or BrokerError(f"the task {key} was not restored")
        part = self._plan.part(key)
        stores = restore.stores
        try:
            task = KafkaTask(
                stores,
                TaskWriter(self._writer, self._plan.written(part), key.partition),
                restore.next_offsets,
                wall_ms=wall_clock_ms(),
                errors=self._plan.graph.errors,
                max_task_idle_ms=self._plan.graph.max_task_idle_ms,
                global_stores=self._globals.stores,
            )
        except BaseException:
            stores.close()
            raise
        self.tasks[key] = task
        for place, offset in restore.next_offsets.items():
            self._by_place[place] = task
            self._to_seek[place] = offset
            task.set_lag(place, max(0, restore.input_ends[place] - offset))

    def _roll_back(self, tasks: list[KafkaTask], error: Exception, wall_ms: int) -> None:
        """Take back the transaction under way, and go on from the last commit.

        Raises:
            BrokerError, InstanceFencedError: That cannot be done, or was done too often.
        """
        self.aborts += 1
        self._aborts_in_a_row += 1
        if self._aborts_in_a_row > _MOST_ABORTS:
            raise BrokerError(
                f"{_MOST_ABORTS} transactions in a row could not be committed; the last: {error}"
            ) from error
        CLIENT_LOGGER.warning("a transaction is taken back: %s", error)
        self._writer.abort()
        for task in tasks:
            task.rollback(wall_ms)
            self._to_seek |= task.accepted

    def _drop(self, places: Iterable[TopicPartition]) -> None:
        """Have the tasks no more that read *places*; what they have not committed is forgotten."""
        gone = set(places)
        for key, task in list(self.tasks.items()):
            if gone.intersection(task.processed):
                del self.tasks[key]
                task.close()
                self.finished.append(task)
                for place in task.processed:
                    self._by_place.pop(place, None)
                    self._to_seek.pop(place, None)
                    self._held.discard(place)
                left = [place for place in task.processed if place not in gone]
                if left:  # they wait until the rest comes back
                    self._consumer.pause([KafkaPartition(*place) for place in left])
                    self._asleep.update(left)
        for key, restore in list(self.restoring.items()):
            if gone.intersection(restore.inputs):
                del self.restoring[key]
                restore.cancel()
        for place in gone:
            self._owned.pop(place, None)
            self._asleep.discard(place)
            self._ends.pop(place, None)

    # Callbacks.

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        try:
            if self._is_eager:
                consumer.assign(partitions)
            else:
                consumer.incremental_assign(partitions)
            consumer.pause(partitions)
        except KafkaException as error:
            self._fail(broker_error("take over partitions", error))
            return
        now = time.monotonic()
        for place in map(_place, partitions):
            self._owned[place] = now
            self._asleep.add(place)
        self._has_changed = True

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Commit, and give up: the next owner goes on where this one has stopped."""
        try:
            if not self._is_over and self._failure is None:
                self.commit(wall_clock_ms())
        except BaseException as error:  # noqa: BLE001  # raised by the poll that is under way
            self._fail(error)
        self._give_up(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Forget what was not committed: somebody else has the partitions by now."""
        dirty = [task for task in self.tasks.values() if task.has_uncommitted]
        try:
            if not self._is_over and self._failure is None and dirty:
                reason = BrokerError("the group has taken this member for dead")
                self._roll_back(dirty, reason, wall_clock_ms())
        except BaseException as error:  # noqa: BLE001  # raised by the poll that is under way
            self._fail(error)
        self._give_up(consumer, partitions)

    def _give_up(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        try:
            self._drop(map(_place, partitions))
            if self._is_eager:
                consumer.unassign()
            else:
                consumer.incremental_unassign(partitions)
        except BaseException as error:  # noqa: BLE001  # raised by the poll that is under way
            self._fail(error)
        self._has_changed = True

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error


def _place(partition: KafkaPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
