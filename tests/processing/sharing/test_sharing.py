"""Several runs on one state: who has which task, what they refuse of each other, how they end."""

import fcntl
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_lives import COUNTS, ORDERS, SEEN, TASKS, append_orders, topology, written

import statestores as ss
from statestores.errors import (
    StoreCorruptedError,
    StoreLockedError,
    TopologyMismatchError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.processing import LocalRunner, LocalTopics, Record, Topic, Topology
from statestores.processing.local import Items, read_instances, retention
from statestores.processing.local.sharing.assignment import assign, share_of
from statestores.processing.local.sharing.instances import InstanceFile, remove_dead_instances
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.local.upkeep import Upkeep
from statestores.spi import TopicPartition
from statestores_conformance.many_cases import for_each

_PATIENCE_SECONDS = 120.0

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _runner(directory: Path, made: Topology | None = None, **more: Any) -> LocalRunner:
    settings: dict[str, Any] = {"backend": "memory", "commit_interval_ms": 20, "commit_records": 20}
    return LocalRunner(
        made or topology(), directory / "state", directory / "topics", **settings | more
    )


class _Running:
    """A run on a thread of its own: to the others it is as a process."""

    def __init__(self, runner: LocalRunner) -> None:
        self.runner = runner
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as failure:  # noqa: BLE001  # raised again by `stop`
            self.failure = failure

    def stop(self) -> None:
        self.runner.stop()
        self.thread.join()
        if self.failure is not None:
            raise self.failure


@contextmanager
def _running(*runners: LocalRunner) -> Iterator[list[_Running]]:
    with ExitStack() as stack:
        started = []
        for runner in runners:
            started.append(_Running(runner))
            stack.callback(started[-1].stop)
        yield started


def _until(is_over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_over():
        assert time.monotonic() < deadline
        time.sleep(0.04)


def _shares(directory: Path) -> list[int]:
    return sorted(len(each.active) for each in read_instances(directory / "state"))


@pytest.mark.spec("PRC-68", "PRC-69")
def test_tasks_are_spread_evenly_and_taken_over(tmp_path: Path) -> None:
    """A newcomer gets its share; when it ends, the others get it back; results do not change."""
    append_orders(tmp_path, 0, 100)
    with _running(_runner(tmp_path)) as (one,):
        _until(lambda: _shares(tmp_path) == [TASKS])
        with _running(_runner(tmp_path, threads=2, endpoint="localhost:1")) as (two,):
            _until(lambda: _shares(tmp_path) == [2, 3])
            append_orders(tmp_path, 100, 100)
            newer = read_instances(tmp_path / "state")[1]
            with _running(_runner(tmp_path)):
                _until(lambda: _shares(tmp_path) == [1, 2, 2])
            _until(lambda: _shares(tmp_path) == [2, 3])
            one.stop()
            _until(lambda: _shares(tmp_path) == [TASKS])
            two.stop()
    append_orders(tmp_path, 200, 100)
    _runner(tmp_path, until="idle").run()
    append_orders(tmp_path / "alone", 0, 300)
    _runner(tmp_path / "alone", until="idle").run()

    assert written(tmp_path, SEEN) == written(tmp_path / "alone", SEEN)
    assert newer.endpoint == "localhost:1"
    assert {store for task in newer.active for store in task.stores} >= {"per-value"}


@pytest.mark.spec("PRC-54", "PRC-68")
def test_a_run_until_idle_ends_when_all_are_idle(tmp_path: Path) -> None:
    """Whoever ends first, everything has been processed and committed by then, by all of them."""
    append_orders(tmp_path, 0, 600)
    found: list[int] = []

    def count_at_end(runner: LocalRunner) -> None:
        runner.run()
        found.append(sum(map(len, written(tmp_path, COUNTS))))

    threads = [
        threading.Thread(target=count_at_end, args=[_runner(tmp_path, until="idle")])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [600] * 3
    assert read_instances(tmp_path / "state") == []


@pytest.mark.spec("PRC-72")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"made": topology("other")}, "another topology than 'other'"),
        ({"sources": {"orders": Items([])}}, "with other sources and sinks: none"),
        ({"topics": "elsewhere"}, "with other topics"),
    ],
)
def test_another_run_on_the_same_state_is_refused(
    tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    """Another topology, other sources, other topics; the first one goes on."""
    append_orders(tmp_path, 0, 10)
    made, topics = more.pop("made", topology()), more.pop("topics", "topics")
    with _running(_runner(tmp_path)):
        _until(lambda: _shares(tmp_path) == [TASKS])
        other = LocalRunner(made, tmp_path / "state", tmp_path / topics, backend="memory", **more)
        with pytest.raises(TopologyMismatchError, match=told):
            other.run()

        assert _shares(tmp_path) == [TASKS]


@pytest.mark.spec("PRC-72")
def test_a_newer_form_of_a_running_topology_is_refused(tmp_path: Path) -> None:
    """It would be accepted if nobody ran the older one, which does not know the new store."""

    def shop(*, is_newer: bool) -> Topology:
        made = Topology("shop")
        lines = made.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
        lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
        if is_newer:
            more = made.stream(Topic("more", key=ss.utf8, value=ss.utf8))
            more.group_by_key().count(ss.KeyValue("others", key=ss.utf8, value=ss.int64))
        return made

    with _running(_runner(tmp_path, shop(is_newer=False))):
        _until(lambda: _shares(tmp_path) == [1])
        with pytest.raises(TopologyMismatchError, match="another form of it"):
            _runner(tmp_path, shop(is_newer=True)).run()
    _runner(tmp_path, shop(is_newer=True), until="idle").run()


@pytest.mark.spec("PRC-11", "PRC-68")
def test_a_task_waits_for_a_source_that_another_process_reads(tmp_path: Path) -> None:
    """Records of two topics are taken by their times, although one of them is filled slowly."""
    gate = threading.Event()
    left, right = (Topic(name, key=ss.utf8, value=ss.int64) for name in ("left", "right"))

    def late() -> Iterator[Record[str, int]]:
        yield Record("l", 1, 1)
        assert gate.wait(_PATIENCE_SECONDS)
        yield from (Record("l", at, at) for at in (3, 5))

    def merged() -> Topology:
        made = Topology("merged")
        made.stream(left).merge(made.stream(right)).to(Topic("both", key=ss.utf8, value=ss.int64))
        return made

    sources = {
        "left": Items(lambda committed: islice(late(), committed, None)),
        "right": Items([Record("r", at, at) for at in (2, 4, 6)]),
    }
    with _running(
        _runner(tmp_path, merged(), sources=sources, until="idle"),
        _runner(tmp_path, merged(), sources=sources, until="idle"),
    ):
        _until(lambda: len(read_instances(tmp_path / "state")) == 2)
        gate.set()
        _until(lambda: not read_instances(tmp_path / "state"))
    with LocalTopics(tmp_path / "topics") as topics:
        both = topics.topic(Topic("both", key=ss.utf8, value=ss.int64))
        values = [each.record.value for each in both.read()]

    assert values == [1, 2, 3, 4, 5, 6]


@pytest.mark.spec("PRC-67", "PRC-79")
def test_records_leave_behind_readers_of_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other process has not read stays; what both have read leaves."""
    monkeypatch.setattr(retention, "SEAL_BYTES", 200)
    by_value = Topic("shared-by-value-repartition")
    with (
        _running(_runner(tmp_path), _runner(tmp_path)),
        LocalTopics(tmp_path / "topics") as topics,
    ):
        _until(lambda: _shares(tmp_path) == [2, 3])
        number = 0
        while not all(
            number and log.first_offset
            for log in topics.topic(by_value).logs  # made when they joined
        ):
            append_orders(tmp_path, number, 30)
            number += 30
            time.sleep(0.05)
    _runner(tmp_path, until="idle").run()

    assert sum(map(len, written(tmp_path, COUNTS))) == number


@pytest.mark.spec("PRC-79")
def test_no_record_leaves_while_a_task_that_reads_it_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows then how far it has come."""
    monkeypatch.setattr(retention, "SEAL_BYTES", 1)
    graph = topology().build()
    name = graph.internal_topics[0].name
    upkeep = Upkeep(graph, sources=(), sinks=(), retention={})
    with LocalTopics(tmp_path) as topics:
        opened = {each: topics.topic(topic) for each, topic in graph.topics.items()}
        opened[name].append_bytes([Record(b"", b"", at) for at in range(3)], partition=0)
        log = opened[name].logs[0]
        upkeep.remove(opened, {"1_1": {TopicPartition(name, 1): 0}})
        assert log.first_offset == 0
        upkeep.remove(opened, {"1_0": {TopicPartition(name, 0): 3}})
        assert log.first_offset == 3


def test_whoever_waits_for_a_lock_is_told_to_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says whom it waits for; when the run is to end, it gives up after a while."""
    now = [0.0]
    ending = [False]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1))

    def locked() -> None:
        ending[0] = now[0] > 30
        raise StoreLockedError("'x' is open in process 7")

    with pytest.raises(StoreLockedError):
        Patience(lambda: ending[0]).wait_for(locked)

    assert caplog.messages[:2] == [
        "waiting for 11 s: 'x' is open in process 7",
        "waiting for 22 s: 'x' is open in process 7",
    ]


@pytest.mark.spec("PRC-71")
def test_what_dead_instances_have_left_is_not_seen_and_removed(tmp_path: Path) -> None:
    """Their lock is free. That by which instances join is free most of the time, and stays.

    It was removed as the lock of a dead instance named OWNER; of two that joined at that moment,
    one would have locked a file that was no longer there.
    """
    alive = InstanceFile(tmp_path, "shop", {})
    directory = tmp_path / "@instances"
    DirectoryLock.acquire(directory).release()
    for suffix in (".json", ".alive"):
        (directory / f"dead{suffix}").write_text("{}")

    assert [each.topology for each in read_instances(tmp_path)] == ["shop"]
    remove_dead_instances(tmp_path)
    assert {each.stem for each in directory.iterdir()} == {alive.instance.instance, "OWNER"}
    alive.close()
    alive.close()
    assert [each.name for each in directory.iterdir()] == [LOCK_FILE]


@pytest.mark.spec("PRC-71")
@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"format": 2}, UnsupportedFormatError),
        ({"active": {"0_0": {}}}, StoreCorruptedError),
        ({"host": 1}, StoreCorruptedError),
        ({"active": {"0_0": {"part": "p", "reads": {"t": {"x": 1}}}}}, StoreCorruptedError),
    ],
)
def test_a_malformed_instance_is_refused(
    tmp_path: Path, change: dict[str, Any], failure: type[Exception]
) -> None:
    """A file of a live process that nobody of ours has written."""
    with InstanceFile(tmp_path, "shop", {}) as file:
        path = tmp_path / "@instances" / f"{file.instance.instance}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

        with pytest.raises(failure, match=path.name):
            read_instances(tmp_path)


@pytest.mark.spec("PRC-71")
def test_an_instance_appears_with_its_lock(tmp_path: Path) -> None:
    """There is no moment at which it could be taken for a dead one."""
    with InstanceFile(tmp_path, "shop", {}) as file:
        lock = tmp_path / "@instances" / f"{file.instance.instance}.alive"
        with lock.open() as opened, pytest.raises(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)


_TASKS = tuple(f"0_{number}" for number in range(5))


@pytest.mark.spec("PRC-69")
@for_each(
    ("mine", "elsewhere", "place", "instances", "release", "claim"),
    [
        ((), (), 0, 1, (), _TASKS),
        ((), (), 1, 2, (), ("0_1", "0_3", "0_0", "0_2", "0_4")),
        (_TASKS, (), 0, 2, ("0_1", "0_3"), ()),
        (_TASKS, (), 1, 2, ("0_0", "0_2", "0_4"), ()),
        (("0_1",), ("0_0", "0_2"), 1, 3, (), ("0_4", "0_3")),
        (("0_0", "0_1"), _TASKS[2:], 0, 2, (), ()),
        (("0_0",), (), 4, 6, (), ("0_4", "0_1", "0_2", "0_3")),
        (("0_0",), (), 5, 6, ("0_0",), ()),
    ],
)
def test_what_an_instance_takes_and_gives_up(
    mine: tuple[str, ...],
    elsewhere: tuple[str, ...],
    place: int,
    instances: int,
    release: tuple[str, ...],
    claim: tuple[str, ...],
) -> None:
    """Its share, its own tasks first; it gives up those that are more others'."""
    found = assign(_TASKS, mine=mine, elsewhere=elsewhere, place=place, instances=instances)

    assert (found.release, found.claim) == (release, claim)


@pytest.mark.spec("PRC-69")
@given(
    tasks=st.integers(1, 12),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=8),
)
def test_whoever_comes_and_goes_shares_are_even_after_some_polls(
    tasks: int, changes: list[tuple[bool, int]]
) -> None:
    """By locks alone: nobody ever has a task that another one has, and none is left lying."""
    names = [f"0_{number}" for number in range(tasks)]
    have: dict[int, set[str]] = {0: set()}
    for comes, who in changes:
        if comes:
            have.setdefault(max(have) + 1, set())
        elif len(have) > 1:
            del have[sorted(have)[who % len(have)]]
        for _ in range(3):
            for place, instance in enumerate(sorted(have)):
                told = {task for other in have if other != instance for task in have[other]}
                found = assign(
                    names, mine=have[instance], elsewhere=told, place=place, instances=len(have)
                )
                have[instance] -= set(found.release)
                have[instance] |= set(found.claim[: found.most])
                assert sum(map(len, have.values())) == len(set().union(*have.values()))

        expected = [share_of(tasks, place, len(have)) for place in range(len(have))]
        assert [len(have[instance]) for instance in sorted(have)] == expected
        assert set().union(*have.values()) == set(names)


def test_the_input_is_spread(tmp_path: Path) -> None:
    """What the other tests take for granted."""
    append_orders(tmp_path, 0, 100)

    assert all(written(tmp_path, ORDERS))
