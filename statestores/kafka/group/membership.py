"""One stay of an instance in its group: what it is assigned, and what it reads.

Everything here is called by one thread, the callbacks too: they come while it polls. Partitions
are paused from their assignment until their task is restored (KFK-12), and read from where the
group's committed offsets are. What was polled and no task has accepted is read again.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import BrokerError, InstanceFencedError
from statestores.kafka.broker_errors import broker_error, error_of, settings_error
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.group.back_pressure import BackPressure, wake
from statestores.kafka.group.co_partitions import has_all_partitions
from statestores.kafka.group.members import GroupMembers
from statestores.kafka.group.poll_errors import check_passes
from statestores.kafka.group.silence import Silence
from statestores.kafka.messages import offset_of, place_of
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.readers import consumed
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.writer import Writer
from statestores.spi import TopicPartition

_POLL_RECORDS = 10_000
"""Many, since a task may take what comes of its partition as columns."""
_RESTORING_SECONDS = 0.01
"""How long a poll waits while a task is restored that is to begin at once."""
_GIVING_BACK_SECONDS = 10.0
_LATER = frozenset({KafkaError._STATE, KafkaError._OUTDATED, KafkaError._PREV_IN_PROGRESS})  # noqa: SLF001  # their names
"""What a seek is told of a partition that the client begins to read just now, or gives up."""
_QUIET_SECONDS = 0.02
"""How long nothing may come of the group before a member that has given up everything is closed."""


class Membership:
    """A member of the group, until `leave` or `abandon`."""

    def __init__(
        self,
        plan: Plan,
        settings: dict[str, object],
        tasks: AssignedTasks,
        group: GroupMembers,
        writer: Writer,
        *,
        begins_late: bool,
        is_eager: bool,
        clock_ms: Callable[[], int],
    ) -> None:
        """Join the group, with the *settings* of a consumer; what comes of it is among *tasks*.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        self._plan = plan
        self.tasks = tasks
        self._group = group
        self._writer = writer
        self._is_eager = is_eager
        self._begins_late = begins_late
        self._clock_ms = clock_ms
        self.is_paused = False
        """Whether nothing is read and processed, by the user's wish."""
        self._owned: dict[TopicPartition, float] = {}
        self._asleep: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._has_changed = False
        self._is_assigned = False
        self._is_over = False
        self._failure: BaseException | None = None
        try:
            self._consumer = Consumer(settings, logger=CLIENT_LOGGER)
        except KafkaException as error:
            raise settings_error(error) from error
        self._back_pressure = BackPressure(self._consumer)
        self._silence = Silence(self._consumer)
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
        if self.tasks.restoring:
            wait_seconds = min(wait_seconds, _RESTORING_SECONDS)
        has_come = self._hear(wait_seconds)
        has_begun = self.tasks.begin_restored()
        if self.tasks.restoring or len(self.tasks.by_place) < len(self._owned):
            self._check_whole()
        if self._silence.is_due and not self.is_paused:
            place = self._silence.find(self.tasks.by_place, self._ends, self._back_pressure.held)
            if place is not None:  # as if it had not been read before
                self.tasks.to_seek[place] = self.tasks.by_place[place].accepted[place]
                self._asleep.add(place)
        self._seek()
        if not self._owned:
            self._group.look()
        return has_come or has_begun

    def _hear(self, wait_seconds: float) -> bool:
        """Take records, and what the group has said; return whether a record has come."""
        self._has_changed = False
        messages = consumed(self._consumer, _POLL_RECORDS, wait_seconds)
        if self._failure is not None:
            raise self._failure
        self._writer.poll()
        self._dispatch(messages)
        return bool(messages)

    def process(self, wall_ms: int) -> int:
        """Let each task process what waits; return how many records that were.

        Raises:
            ProcessingError: A record failed, and the policy is to fail.
            BrokerError: Something could not be written.
        """
        if self.is_paused:
            return 0
        done = self.tasks.process(wall_ms)
        for place, task in self.tasks.by_place.items():
            if task.waiting(place):
                continue
            if place not in self.tasks.to_seek:
                task.has_read_to(place, self._ends.get(place, 0))
            if len(task.processed) > 1:
                behind = self.behind(place, task.accepted[place])
                if behind is not None:
                    task.set_lag(place, behind)
        self._back_pressure.balance(self.tasks.by_place)
        return done

    @property
    def has_begun(self) -> bool:
        """Whether the group has assigned what it assigns, and all of it runs; any thread may ask.

        An instance for which no partition is left has begun, too.
        """
        is_known = self._is_assigned or self._group.nothing_is_left
        return is_known and len(self.tasks.by_place) >= len(self._owned)

    def commit(self, wall_ms: int) -> bool:
        """Commit what all tasks have done; see `AssignedTasks.commit`.

        What the group has said meanwhile is heard first: a member that it has given up, because a
        record took too long, has nothing to commit (KFK-30).

        Raises:
            InstanceFencedError: As said; and see `AssignedTasks.commit`.
        """
        self._hear(0.0)
        return self.tasks.commit(wall_ms, self._consumer)

    def pause(self) -> None:
        """Read nothing more, and process nothing, until `resume`; the group keeps the member."""
        self.is_paused = True
        awake = [place for place in self.tasks.by_place if place not in self._asleep]
        self._back_pressure.hold(awake)

    def resume(self) -> None:
        """Go on; partitions are read again as soon as little of them waits."""
        self.is_paused = False

    def behind(self, place: TopicPartition, offset: int) -> int | None:
        """Return how many offsets *place* has from *offset* on; ``None`` while nobody knows."""
        _, end = self._consumer.get_watermark_offsets(KafkaPartition(*place), cached=True)
        if end < 0:
            return None
        return max(0, int(end) - max(offset, self._ends.get(place, 0)))

    def lag(self) -> dict[TopicPartition, int]:
        """Return how far the partitions that are read here are ahead of what was processed."""
        found = {}
        for place, task in self.tasks.by_place.copy().items():
            waiting = task.accepted[place] - task.processed[place]
            behind = self.behind(place, task.accepted[place])
            if behind is not None:
                found[place] = waiting + behind
        return found

    def reached(self) -> dict[TopicPartition, int] | None:
        """Return how far each partition was read when all that came of them is processed.

        ``None`` while something waits, or is not known to have been read to its end; nothing when
        others have everything.
        """
        if not self._owned:
            return {} if self._group.nothing_is_left else None
        if len(self.tasks.by_place) < len(self._owned) or self.tasks.to_seek:
            return None
        if any(task.has_waiting for task in self.tasks.running.values()):
            return None
        if self._ends.keys() != self.tasks.by_place.keys():
            return None
        return {
            place: max(task.accepted[place], self._ends[place])
            for place, task in self.tasks.by_place.items()
        }

    def leave(self, wall_ms: int) -> None:
        """Commit what was done, and leave the group, which assigns the tasks to others at once.

        Raises:
            StateStoreError: As `commit`. It is a member still: `abandon`.
        """
        self.commit(wall_ms)
        self._end()

    def abandon(self) -> None:
        """Leave the group without a commit: what was not committed is processed again."""
        with suppress(BrokerError, InstanceFencedError):  # then the broker ends it, or has
            self._writer.abort()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        try:
            self._drop([*self._owned, *self.tasks.by_place])
            self._give_back()
        finally:
            self._consumer.close()

    def _give_back(self) -> None:
        """Have the group take back what is assigned, before the member is closed.

        `close` would do that as well, and call back while it takes the member apart: librdkafka
        drops what the callback answers if it is done first. The callback then waits without an end,
        with Python's lock in its hands, and so does every other thread (see the caveats).
        """
        deadline = time.monotonic() + _GIVING_BACK_SECONDS
        try:
            self._consumer.unsubscribe()
            while True:
                self._has_changed = False
                consumed(self._consumer, _POLL_RECORDS, _QUIET_SECONDS)
                if not (self._has_changed or self._consumer.assignment()):
                    return
                if time.monotonic() > deadline:
                    CLIENT_LOGGER.warning("the group has not taken back all partitions in time")
                    return
        except KafkaException as error:  # it is no member any more
            CLIENT_LOGGER.debug("nothing is given back to the group: %s", error)

    # Records.

    def _dispatch(self, messages: list[Message]) -> None:
        by_place: dict[tuple[Any, Any], list[Message]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                by_place.setdefault((message.topic(), message.partition()), []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                place = place_of(message)
                if place in self.tasks.by_place:
                    self._ends[place] = offset_of(message)
                    self._silence.heard(place)
            else:
                check_passes(error, place_of(message))
        for pair, found in by_place.items():
            place = TopicPartition(*pair)
            task = self.tasks.by_place.get(place)
            if task is None:
                continue  # its task begins by seeking
            self._silence.heard(place)
            following = task.accepted[place]
            if self._has_changed or place in self.tasks.to_seek or offset_of(found[-1]) < following:
                # Polled before what is now, or too early; a part may be missing in front.
                self.tasks.to_seek[place] = following
            else:
                task.accept(place, found)

    def _seek(self) -> None:
        """Set partitions to where their tasks go on, and have those run that were asleep."""
        if self.is_paused:
            return
        woken = []
        for place, offset in list(self.tasks.to_seek.items()):
            try:
                self._consumer.seek(KafkaPartition(*place, offset))
            except KafkaException as error:
                if error_of(error).code() not in _LATER:
                    raise broker_error(f"go to offset {offset} of {place}", error) from error
                continue  # it is not being read yet
            del self.tasks.to_seek[place]
            self._ends.pop(place, None)
            if place in self._asleep:
                self._consumer.resume([KafkaPartition(*place)])
                self._asleep.discard(place)
                woken.append(place)
        wake(self._consumer, woken)

    # Tasks.

    def _check_whole(self) -> None:
        """Have those tasks restored that have all of their partitions."""
        wanted = {
            TaskKey(self._plan.part_of(each.topic).name, each.partition) for each in self._owned
        }
        for key in wanted - self.tasks.running.keys() - self.tasks.restoring.keys():
            if has_all_partitions(self._plan, key, self._owned):
                self.tasks.restore(key)

    def _drop(self, places: Iterable[TopicPartition]) -> None:
        """Have the tasks no more that read *places*; what they have not committed is forgotten."""
        gone = set(places)
        left = self.tasks.drop(gone)
        if left:  # they wait until the rest comes back
            self._consumer.pause([KafkaPartition(*place) for place in left])
            self._asleep.update(left)
            self._owned |= dict.fromkeys(left, time.monotonic())
        self._back_pressure.keep(self.tasks.by_place)
        for place in gone:
            self._owned.pop(place, None)
            self._asleep.discard(place)
            self._ends.pop(place, None)

    # Callbacks.

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        if self._begins_late:
            # The client asks where a partition ends that has no committed offset, and goes there
            # when the answer comes, also behind a seek (see the caveats). From the beginning on,
            # nothing is missed: what is too early is left out.
            for each in partitions:
                each.offset = OFFSET_BEGINNING
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
        self._has_changed = self._is_assigned = True
        self._group.forget()

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Commit, and give up: the next owner goes on where this one has stopped."""
        try:
            if not self._is_over and self._failure is None:
                self.tasks.commit(self._clock_ms(), consumer)
        except BaseException as error:  # noqa: BLE001  # raised by the poll that is under way
            self._fail(error)
        self._give_up(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Forget what was not committed: somebody else has the partitions by now."""
        dirty = self.tasks.dirty()
        try:
            if not self._is_over and self._failure is None and dirty:
                reason = BrokerError("the group has taken this member for dead")
                self.tasks.roll_back(dirty, reason, self._clock_ms())
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
        self._is_assigned = bool(self._owned)  # else the group says whether something comes
        self._group.forget()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        else:
            CLIENT_LOGGER.warning("after a failure, also: %s: %s", type(error).__name__, error)


def _place(partition: KafkaPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
