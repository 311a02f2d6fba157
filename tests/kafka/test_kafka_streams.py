"""The same application in Kafka Streams: each goes on where the other has stopped."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import TestCluster, wait_for
from kafka_streams_peer import StreamsPeer

import statestores as ss
from statestores.kafka import run
from statestores.processing import Record, Topic, Topology, session, tumbling

_CLICKS = [
    Record(key, value, time_ms)
    for key, value, time_ms in [
        ("eur", 1, 10_000),
        ("usd", 2, 10_005),
        ("eur", 3, 10_006),
        # The other one goes on here, in the middle of a window and of a session.
        ("eur", 4, 10_009),
        ("usd", None, 10_012),
        ("usd", 5, 10_014),
        ("gbp", 6, 10_030),
        # And here the first one again.
        ("gbp", 7, 10_036),
        ("eur", 8, 10_037),
        ("usd", 9, 10_038),
        ("eur", None, 10_060),
        ("gbp", 10, 10_061),
    ]
]
_CUTS = (0, 3, 7, len(_CLICKS))


class Clicks:
    """What tools/kafka/streams/Peer.java does."""

    def __init__(self, name: str) -> None:
        """Describe it."""
        self.clicks = Topic(f"{name}-clicks", key=ss.utf8, value=ss.int64, partitions=1)
        self.outputs: dict[str, Topic[Any, Any]] = {
            what: Topic(f"{name}-{what}", key=ss.utf8, value=ss.int64, partitions=1)
            for what in ("counts", "windows", "sessions", "versions")
        }
        self.topology = Topology(name)
        stream = self.topology.stream(self.clicks)
        grouped = stream.group_by_key()
        counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        grouped.count(counts).to(self.outputs["counts"])
        tens = ss.Window("tens", retention_ms=100, window_size_ms=10, key=ss.utf8, value=ss.int64)
        bursts = ss.Session("bursts", retention_ms=100, key=ss.utf8, value=ss.int64)
        for windows, what in (
            (grouped.window(tumbling(10)).count(tens), "windows"),
            (grouped.window(session(8)).count(bursts), "sessions"),
        ):
            windows.to_stream().rekey(lambda record: record.key.key, key=ss.utf8).to(
                self.outputs[what]
            )
        history = ss.Versioned("history", history_retention_ms=1_000, key=ss.utf8, value=ss.int64)
        stream.to_table(history).to_stream().to(self.outputs["versions"])

    def expected(self) -> dict[str, list[Record[Any, Any]]]:
        """Return what the test driver answers."""
        with self.topology.test() as driver:
            for each in _CLICKS:
                driver.topic(self.clicks.name).pipe(each.value, each.key, time_ms=each.time_ms)
            return {
                name: list(driver.topic(topic.name).read_all())
                for name, topic in self.outputs.items()
            }


@pytest.mark.spec("KFK-10", "KFK-15")
@pytest.mark.parametrize(
    "java_turns", [(False, True, False), pytest.param((True, False), marks=pytest.mark.long)]
)
def test_each_goes_on_where_the_other_has_stopped(
    cluster: TestCluster, tmp_path: Path, java_turns: tuple[bool, ...]
) -> None:
    """Every turn begins in an empty directory: what the stores have is of the changelog topics.

    These are made by whoever comes first.
    """
    clicks = Clicks(cluster.name("clicks"))
    cluster.create(clicks.clicks, *clicks.outputs.values())
    expected = clicks.expected()

    def found() -> dict[str, list[Record[Any, Any]]]:
        return {name: cluster.read(topic) for name, topic in clicks.outputs.items()}

    counted = 0
    cuts = [*_CUTS[: len(java_turns)], len(_CLICKS)]
    parts = [_CLICKS[start:stop] for start, stop in pairwise(cuts)]
    for turn, (part, is_java) in enumerate(zip(parts, java_turns, strict=True)):
        cluster.append(clicks.clicks, part)
        counted += sum(each.value is not None for each in part)
        if is_java:
            with StreamsPeer(cluster.address, clicks.topology.name, tmp_path / str(turn)) as peer:

                def has_come(peer: StreamsPeer = peer, counted: int = counted) -> bool:
                    return peer.is_running and len(found()["counts"]) >= counted

                wait_for(has_come, f"the first {counted} counts")
        else:
            run(
                clicks.topology,
                bootstrap_servers=cluster.address,
                state=tmp_path / str(turn),
                backend="sqlite",
                until="idle",
            )

    came = found()

    assert {
        name: (rows, expected[name]) for name, rows in came.items() if rows != expected[name]
    } == {}
