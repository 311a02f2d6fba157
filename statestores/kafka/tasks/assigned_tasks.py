"""The tasks of one stay in the group: begun when they are restored, run, and committed as one.

What the group says is for `Membership`; here is what becomes of it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest
from time import perf_counter_ns

from confluent_kafka import Consumer

from statestores.errors import BrokerError
from statestores.failpoints import reach
from statestores.kafka.broker_errors import TooManyAbortsError, TransactionAbortedError
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.kafka_task import KafkaTask
from statestores.kafka.tasks.restore import Restore
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.kafka.tasks.task_writer import TaskWriter
from statestores.kafka.writer import Writer
from statestores.spi import TopicPartition

_STEP_RECORDS = 500
"""Records that a task takes before the next one has its turn, and the clock is looked at."""
_MOST_ABORTS = 20
"""Aborts without a commit in between, after which the run ends: it is not going to get better."""


class AssignedTasks:
    """Used by the thread that polls."""

    def __init__(
        self,
        plan: Plan,
        open_stores: Callable[[TaskKey], TaskStores],
        restorer: Restorer,
        writer: Writer,
        global_stores: Callable[[], Mapping[str, object]],
        *,
        commit_records: int,
        least_column_rows: int,
        least_run_rows: int,
        cache_max_bytes: int,
        clock_ms: Callable[[], int],
    ) -> None:
        """Begin without any."""
        self._plan = plan
        self._open_stores = open_stores
        self._restorer = restorer
        self._writer = writer
        self._global_stores = global_stores
        self._commit_records = commit_records
        self._least_column_rows, self._least_run_rows = least_column_rows, least_run_rows
        self._cache_max_bytes = cache_max_bytes
        self._clock_ms = clock_ms
        self.running: dict[TaskKey, KafkaTask] = {}
        self.restoring: dict[TaskKey, Restore] = {}
        self.finished: list[KafkaTask] = []
        """Tasks that were closed, for their counts."""
        self.by_place: dict[TopicPartition, KafkaTask] = {}
        """Which task reads a partition."""
        self.to_seek: dict[TopicPartition, int] = {}
        """Where partitions are to be read from, of tasks that have begun or gone back."""
        self.aborts = 0
        self._aborts_in_a_row = 0

    # Coming and going.

    def restore(self, key: TaskKey) -> None:
        """Have the stores of a task restored."""
        open_stores = partial(self._open_stores, key)
        restore = Restore(self._plan.task_id(key), open_stores, self._plan.places(key))
        self.restoring[key] = restore
        self._restorer.begin(restore)

    def begin_restored(self) -> bool:
        """Run the tasks whose stores are restored; return whether there was one.

        Raises:
            StateStoreError: A task could not be restored.
        """
        restored = self._restorer.finished()
        for restore in restored:
            self._begin(restore)
        return bool(restored)

    def _begin(self, restore: Restore) -> None:
        key = next(key for key, each in self.restoring.items() if each is restore)
        del self.restoring[key]
        if restore.failure is not None or restore.stores is None:
            raise restore.failure or BrokerError(f"the task {key} was not restored")
        part = self._plan.part(key)
        stores = restore.stores
        try:
            stores.note_position(restore.inputs, restore.committed)
            task = KafkaTask(
                stores,
                TaskWriter(self._writer, self._plan.written(part), key.partition),
                restore.next_offsets,
                description=self._plan.description,
                wall_ms=self._clock_ms(),
                errors=self._plan.graph.errors,
                max_task_idle_ms=self._plan.graph.max_task_idle_ms,
                global_stores=self._global_stores(),
                least_column_rows=self._least_column_rows,
                least_run_rows=self._least_run_rows,
                cache_max_bytes=self._cache_max_bytes,
            )
        except BaseException:
            stores.close()
            raise
        if restore.must_say_beginnings:
            task.told = {}
        self.running[key] = task
        for place, offset in restore.next_offsets.items():
            self.by_place[place] = task
            self.to_seek[place] = offset
            task.set_lag(place, max(0, restore.input_ends[place] - offset))

    def drop(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Have the tasks no more that read *places*; what they have not committed is forgotten.

        Returns what else they read.
        """
        gone = set(places)
        left: list[TopicPartition] = []
        with ExitStack() as closing:  # all of them, also when one cannot be closed
            for key, task in list(self.running.items()):
                if gone.intersection(task.processed):
                    del self.running[key]
                    closing.callback(task.close)
                    self.finished.append(task)
                    for place in task.processed:
                        self.by_place.pop(place, None)
                        self.to_seek.pop(place, None)
                    left += [place for place in task.processed if place not in gone]
            for key, restore in list(self.restoring.items()):
                if gone.intersection(restore.inputs):
                    del self.restoring[key]
                    closing.callback(restore.cancel)
        return left

    # Work.

    def process(self, wall_ms: int) -> int:
        """Let each task process what waits; return how many records that were.

        Raises:
            ProcessingError: A record failed, and the policy is to fail.
        """
        done = 0
        for task in self.running.values():
            left = max(0, self._commit_records - task.uncommitted)
            done += task.advance(wall_ms, left if task.takes_rows else min(_STEP_RECORDS, left))
        return done

    @property
    def wants_commit(self) -> bool:
        """Whether a task has asked for a commit, has as many records as it may, or cannot write."""
        return self._writer.has_failed or any(
            task.runtime.commit_requested or task.uncommitted >= self._commit_records
            for task in self.running.values()
        )

    def commit(self, wall_ms: int, consumer: Consumer) -> bool:
        """Commit what all tasks have done, if anything, as one; return whether it is committed.

        Raises:
            BrokerError, InstanceFencedError: See `Writer.commit`.
            StateStoreError: It is committed, and a store could not follow: open it again.
        """
        dirty = self.dirty()
        for task in self.running.values():
            task.runtime.commit_requested = False
        if not dirty:
            return False
        offsets: dict[TopicPartition, int] = {}
        began_ns = perf_counter_ns()
        try:
            for task in dirty:
                offsets |= task.prepare_commit()
            self._write_changes(dirty, consumer)
            reach("kafka.changes-written")
            self._writer.commit(offsets, consumer)
            is_told = self._writer.commit_offsets(offsets, consumer)
        except TransactionAbortedError as error:
            self.roll_back(dirty, error, wall_ms)
            return False
        reach("kafka.committed")
        for task in dirty:
            task.commit_stores()
            if is_told:
                task.told = dict(task.committed)
            reach("kafka.store-committed")
        self._aborts_in_a_row = 0
        ended_ns = perf_counter_ns()
        for task in dirty:
            task.meter.commits.record(ended_ns - began_ns, ended_ns)
        return True

    def _write_changes(self, tasks: list[KafkaTask], consumer: Consumer) -> None:
        """Write what the stores of *tasks* have changed, step by step, behind their outputs.

        Before each step the group is asked whether it has us still (KFK-44).
        """
        committed = {place: at for task in tasks for place, at in task.committed.items()}
        steps = zip_longest(*[task.append_changes() for task in tasks])
        is_left = True
        while is_left:
            self._writer.end_step()
            reach("kafka.step-written")
            self._writer.confirm(committed, consumer)
            is_left = next(steps, None) is not None

    def dirty(self) -> list[KafkaTask]:
        """Return the tasks that have done something since the last commit."""
        return [task for task in self.running.values() if task.has_uncommitted]

    def roll_back(self, tasks: list[KafkaTask], error: Exception, wall_ms: int) -> None:
        """Take back the transaction under way, and have *tasks* go on from the last commit.

        Raises:
            BrokerError, InstanceFencedError: That cannot be done, or was done too often.
        """
        self.aborts += 1
        self._aborts_in_a_row += 1
        if self._aborts_in_a_row > _MOST_ABORTS:
            raise TooManyAbortsError(
                f"{_MOST_ABORTS} transactions in a row could not be committed; the last: {error}"
            ) from error
        CLIENT_LOGGER.warning("a transaction is taken back: %s", error)
        self._writer.abort()
        for task in tasks:
            task.rollback(wall_ms)
            self.to_seek |= task.accepted

    def superfluous(self) -> dict[TopicPartition, int]:
        """Return before which offsets changelogs of frames have nothing that is needed."""
        return {
            logged.changelog: logged.wholes.superfluous
            for task in self.running.values()
            for logged in task.stores.logged.values()
            if logged.wholes.superfluous
        }

    def offsets_of(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the next offsets that the group has of the partitions of *topics* read here."""
        names = set(topics)
        return {
            place: task.told[place]
            for place, task in self.by_place.items()
            if place.topic in names and place in task.told
        }
