"""Who comes takes its share, who leaves gives its own; tasks that stay are left alone."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.kafka import runner
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.processing import Topic, Topology

_TASKS = 6
_CLASSIC = {"consumer.heartbeat.interval.ms": 200}


class _Stores(TaskStores):
    """Stores that note when they are opened, which each restore does, and closed."""

    noted: list[tuple[str, int, str]]

    def __init__(
        self, application: str, part: Any, partition: int, directory: Path, **more: Any
    ) -> None:
        super().__init__(application, part, partition, directory, **more)
        self._me = (directory.name, partition)
        self.noted.append((*self._me, "opened"))

    def close(self) -> None:
        """Note it, and close."""
        self.noted.append((*self._me, "closed"))
        super().close()


class _Group:
    """Instances of one application, and which tasks each of them has."""

    def __init__(self, begin: Callable[[str], ThreadedInstance]) -> None:
        self._begin = begin
        self._live: dict[str, ThreadedInstance] = {}
        self.tasks: dict[str, set[int]] = {}

    def come(self, name: str) -> None:
        """Have one come."""
        self._live[name] = self._begin(name)

    def leave(self, name: str) -> None:
        """Have one leave."""
        self._live.pop(name).leave()

    def moved(self) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
        """Return which tasks each one has got and has given, once all of them run again."""

        def settled() -> dict[str, set[int]]:
            found = {
                name: {number for _, number in each.places("running")}
                for name, each in self._live.items()
            }
            counts = list(map(len, found.values()))
            is_whole = sorted(set().union(*found.values())) == [*range(_TASKS)]
            is_even = max(counts) - min(counts) <= 1
            return found if is_whole and is_even and sum(counts) == _TASKS else {}

        before, self.tasks = self.tasks, wait_for(settled, "tasks that run again")
        names = before.keys() | self.tasks.keys()
        got = {name: self.tasks.get(name, set()) - before.get(name, set()) for name in names}
        given = {name: before.get(name, set()) - self.tasks.get(name, set()) for name in names}
        return got, given


@pytest.mark.spec("KFK-4", "KFK-31")
@pytest.mark.parametrize(("protocol", "topics"), [("consumer", 1), ("classic", 1), ("consumer", 2)])
def test_tasks_stay_where_they_are(
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: Any,
    topics: int,
) -> None:
    """With KIP-848, who came shifted tasks between others: `range` goes by names.

    It is what tasks of several topics need. Those of one are assigned by `uniform` now.
    """
    monkeypatch.setattr(_Stores, "noted", [], raising=False)
    monkeypatch.setattr(runner, "TaskStores", _Stores)
    name = cluster.name("sticky")
    read: list[Topic[str, int]] = [
        Topic(f"{name}-{each}", key=ss.utf8, value=ss.int64, partitions=_TASKS)
        for each in range(topics)
    ]
    cluster.create(*read)
    topology = Topology(name)
    stream = topology.stream(read[0])
    for each in read[1:]:
        stream = stream.merge(topology.stream(each))
    stream.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))

    with ExitStack() as stack:
        group = _Group(
            lambda name: stack.enter_context(
                ThreadedInstance(
                    cluster,
                    topology,
                    tmp_path / name,
                    group_protocol=protocol,
                    settings=_CLASSIC if protocol == "classic" else None,
                )
            )
        )
        for deed, who in (
            (group.come, "a"),
            (group.come, "b"),
            (group.come, "c"),
            (group.leave, "c"),
        ):
            _Stores.noted.clear()
            deed(who)
            got, given = group.moved()

            # Whatever moves, nothing else is touched: each closing is a giving, each restore a
            # getting.
            assert sorted(_Stores.noted) == sorted(
                [(each, task, "opened") for each in got for task in got[each]]
                + [(each, task, "closed") for each in given for task in given[each]]
            )
            if topics == 1:
                moved = set.union(*given.values())
                assert {each for each in got if got[each]} & {
                    each for each in given if given[each]
                } == set()
                assert moved in (set(), got[who] or given[who])
