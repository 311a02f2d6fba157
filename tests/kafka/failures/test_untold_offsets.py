"""At least once, offsets that the group has not taken are told again, and nothing goes before."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException

import statestores as ss
from statestores.kafka.group.confirmation import Confirmation
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.plain_writer import PlainWriter
from statestores.kafka.tasks.restore import Restore
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.processing import Topic, Topology
from statestores.spi import TopicPartition

_NUMBERS = Topic("numbers", key=ss.utf8, value=ss.int64, partitions=1)
_COMES_BACK = KafkaError.COORDINATOR_NOT_AVAILABLE


class _Writer(PlainWriter):
    """Has what is written at once; the group is asked, and told, as ever."""

    def __init__(self) -> None:
        self._failure = None
        self._confirmation = Confirmation()
        self.largest_bytes = 1_000_000
        self._written = 0

    def write(self, *record: Any) -> None:
        *_, delivered = record
        if callable(delivered):
            delivered(None, SimpleNamespace(offset=lambda: self._written))
        self._written += 1

    def end_step(self) -> None:
        """Nothing waits."""


class _Group:
    """Takes offsets, but for the calls that are answered by an error; it stands for the client."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.offset: int | None = None

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> list[Any]:
        error = self.answers.pop(0) if self.answers else None
        if error is not None:
            raise KafkaException(KafkaError(error))
        self.offset = offsets[0].offset
        return offsets


class _Message:
    """What a client gives: a number, at an offset as large."""

    def __init__(self, number: int) -> None:
        self._number = number

    def offset(self) -> int:
        return self._number

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return ss.int64.encode(self._number)

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, 1 + self._number

    def headers(self) -> None:
        return None


class _Tasks:
    """One task that counts numbers, and has begun at offset 7."""

    def __init__(self, directory: Path, *, is_late: bool = False) -> None:
        topology = Topology("shop")
        counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        topology.stream(_NUMBERS).group_by_key().count(counts)
        graph = topology.build()
        [part] = graph.sub_topologies
        key = TaskKey(part.name, 0)
        durability = ss.Durability.PROCESS_CRASH
        stores = TaskStores(
            "shop", part, 0, directory, backend="sqlite", options=None, durability=durability
        )
        self.place = TopicPartition(_NUMBERS.name, 0)
        restore = Restore(Plan(graph, {_NUMBERS.name: 1}).task_id(key), lambda: stores, ())
        restore.stores = stores
        restore.next_offsets = restore.input_ends = {self.place: 7}
        restore.must_say_beginnings = is_late
        self.tasks = AssignedTasks(
            Plan(graph, {_NUMBERS.name: 1}),
            lambda _: stores,
            SimpleNamespace(finished=lambda: [restore]),  # type: ignore[arg-type]  # the restorer
            _Writer(),
            dict,
            commit_records=100,
            least_column_rows=1_000,
            least_run_rows=1_000,
            cache_max_bytes=0,
            clock_ms=lambda: 0,
        )
        self.tasks.restoring[key] = restore
        assert self.tasks.begin_restored()
        self.task = self.tasks.running[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tasks.drop([self.place])

    def process(self, *numbers: int) -> None:
        self.task.accept(self.place, [_Message(each) for each in numbers])  # type: ignore[misc]
        assert self.tasks.process(0) == len(numbers)

    def superfluous(self) -> int | None:
        """Before which offset the topic is purged, as if it were a repartition topic."""
        return self.tasks.offsets_of([_NUMBERS.name]).get(self.place)


@pytest.mark.spec("KFK-7", "KFK-47")
def test_nothing_is_purged_that_the_group_may_go_back_to(tmp_path: Path) -> None:
    """What the stores had committed was purged, also where the group had not taken the offsets.

    Who started again after a crash was behind the topic's first record then, and with
    ``offset_reset="error"`` each start ended with `OffsetOutOfRangeError` from there on.
    """
    group: Any = _Group(None, _COMES_BACK)
    with _Tasks(tmp_path) as tasks:
        tasks.process(7, 8, 9)
        assert tasks.tasks.commit(0, group)

        assert (group.offset, tasks.superfluous()) == (7, 7)
        assert tasks.task.committed == {tasks.place: 10}


@pytest.mark.spec("KFK-47")
def test_offsets_that_were_not_taken_are_told_again(tmp_path: Path) -> None:
    """They waited for the next record; an instance that was stopped meanwhile kept them for itself.

    The next one processed the last records once more, after an end in order.
    """
    group: Any = _Group(None, _COMES_BACK)
    with _Tasks(tmp_path) as tasks:
        tasks.process(7, 8, 9)
        assert tasks.tasks.commit(0, group)
        assert tasks.tasks.commit(0, group)

        assert (group.offset, tasks.superfluous()) == (10, 10)
        assert not tasks.tasks.commit(0, group)


@pytest.mark.spec("KFK-25", "KFK-47")
def test_a_beginning_that_was_not_taken_is_told_again(tmp_path: Path) -> None:
    """It was not, and with ``"latest"`` a later start left out what had come since."""
    group: Any = _Group(_COMES_BACK, None, _COMES_BACK)
    with _Tasks(tmp_path, is_late=True) as tasks:
        assert tasks.superfluous() is None
        tasks.tasks.commit(0, group)
        tasks.tasks.commit(0, group)

        assert group.offset == tasks.superfluous() == 7
        assert not tasks.tasks.commit(0, group)
