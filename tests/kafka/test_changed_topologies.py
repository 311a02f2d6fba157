"""A topology that has changed, where no directory says what it was: the changelogs do."""

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import TestCluster

import statestores as ss
from statestores.errors import StoreCorruptedError, TopologyMismatchError, UnsupportedFormatError
from statestores.kafka import run
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.kafka.tasks.noted_topology import NotedTopology
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.processing import Record, Topic, Topology, tumbling
from statestores.processing.topology import describe

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100, "producer.linger.ms": 0}


class Sales:
    """An application in several forms."""

    def __init__(self, name: str) -> None:
        """Describe its topics."""
        self.name = name
        self.sales = Topic(f"{name}-sales", key=ss.utf8, value=ss.int64, partitions=1)
        self.totals = Topic(f"{name}-totals", key=ss.utf8, value=ss.int64, partitions=1)

    def _begin(self) -> tuple[Topology, Any]:
        topology = Topology(self.name)
        return topology, topology.stream(self.sales).group_by_key()

    def counting(self, store: str = "totals", size_ms: int = 10, *, more: bool = False) -> Topology:
        """Count by key, and in windows of *size_ms*; with *more*, keep what was first as well."""
        topology, group = self._begin()
        group.count(ss.KeyValue(store, key=ss.utf8, value=ss.int64)).to(self.totals)
        window = ss.Window(
            "windows", retention_ms=ss.HOUR, window_size_ms=size_ms, key=ss.utf8, value=ss.int64
        )
        group.window(tumbling(size_ms)).count(window)
        if more:
            group.reduce(lambda one, _: one, ss.KeyValue("first", key=ss.utf8, value=ss.int64))
        return topology

    def summing(self) -> Topology:
        """Sum where the count was."""
        topology, group = self._begin()
        group.sum("value", ss.KeyValue("totals", key=ss.utf8, value=ss.int64)).to(self.totals)
        window = ss.Window(
            "windows", retention_ms=ss.HOUR, window_size_ms=10, key=ss.utf8, value=ss.int64
        )
        group.window(tumbling(10)).count(window)
        return topology

    def averaging(self) -> Topology:
        """Have floats where the integers were, of as many bytes."""
        topology, group = self._begin()
        group.sum(
            lambda record: float(record.value),
            ss.KeyValue("totals", key=ss.utf8, value=ss.float64),
        )
        return topology


@pytest.mark.spec("KFK-53", "PRC-6", "PRC-105")
@pytest.mark.parametrize(
    "changelog_format", ["rows", pytest.param("frames", marks=pytest.mark.long)]
)
def test_what_changelogs_are_of_is_known_without_the_directory(
    cluster: TestCluster, tmp_path: Path, changelog_format: ChangelogFormat
) -> None:
    """What a topology had been was noted in the state directory, and nowhere else.

    An instance on another machine, or in a container with an empty disk, took the changelogs for
    what it needed: a sum went on from a count (7 of 5 and a count of 2), floats from the bytes of
    integers, windows of ten seconds were part of longer ones, and a store with a new name began
    with nothing, all without a word. It is refused now, and nothing has been processed.
    """
    sales = Sales(cluster.name("changed"))
    cluster.create(sales.sales, sales.totals)
    directories = iter(range(100))

    def start(topology: Topology) -> None:
        cluster.append(sales.sales, [Record("a", 5, 1), Record("a", 5, 12)])
        run(
            topology,
            bootstrap_servers=cluster.address,
            state=tmp_path / str(next(directories)),
            backend="sqlite",
            settings=_FAST,
            changelog_format=changelog_format,
            until="idle",
        )

    start(sales.counting())
    for form, told in [
        (sales.summing(), "the step 'totals' was 'count' and is now 'sum'"),
        (sales.averaging(), "the store 'totals' was"),
        (sales.counting(size_ms=20), "the store 'windows' was"),
        (sales.counting(store="sums"), "the store 'totals' is gone"),
    ]:
        with pytest.raises(TopologyMismatchError, match=told) as refused:
            start(form)
        assert f"'{sales.name}-{sales.sales.name}-task-changelog'" in str(refused.value)
        assert "give the topology another name to begin anew" in str(refused.value)

    start(sales.counting(more=True))
    # Who has the earlier form would not write what is kept now.
    with pytest.raises(TopologyMismatchError, match="the store 'first' is gone"):
        start(sales.counting())
    start(sales.counting(more=True))

    totals = [record.value for record in cluster.read(sales.totals)]
    assert totals == [*range(1, 17)]


def _stores(tmp_path: Path, topology: Topology) -> TaskStores:
    (part,) = topology.build().sub_topologies
    return TaskStores(
        topology.name,
        part,
        0,
        tmp_path,
        backend="sqlite",
        options=None,
        durability=ss.Durability.PROCESS_CRASH,
    )


@pytest.mark.spec("KFK-53")
def test_the_note_is_of_the_commit_that_has_it(tmp_path: Path) -> None:
    """One that is rolled back has noted nothing; one that did is not followed by another."""
    topology = Sales("noted").counting()
    with _stores(tmp_path, topology) as stores:
        noted = NotedTopology(stores.own, describe(topology.build()))
        noted.write()
        stores.rollback()
        noted.has_committed()
        noted.write()
        is_written_again = stores.has_pending_writes
        stores.own.commit(3)
        noted.has_committed()
        noted.write()

        assert is_written_again
        assert not stores.has_pending_writes
        NotedTopology(stores.own, describe(topology.build()))
        with pytest.raises(TopologyMismatchError, match="'totals' is gone"):
            NotedTopology(stores.own, describe(Sales("noted").counting("sums").build()))


@pytest.mark.spec("KFK-53", "LAY-24")
@pytest.mark.parametrize(
    ("row", "error"),
    [
        (b"{", StoreCorruptedError),
        (json.dumps({"format": 1}).encode(), StoreCorruptedError),
        (json.dumps({"format": 2}).encode(), UnsupportedFormatError),
    ],
)
def test_a_note_that_no_release_writes_is_refused(
    tmp_path: Path, row: bytes, error: type[Exception]
) -> None:
    """By the name of its changelog."""
    topology = Sales("noted").counting()
    with _stores(tmp_path, topology) as stores:
        own: Any = stores.own.store
        own.put(b"topology", row)

        with pytest.raises(error, match="noted-noted-sales-task-changelog"):
            NotedTopology(stores.own, describe(topology.build()))
