"""Topologies drawn at random give on a cluster what the test driver gives, whatever dies."""

import random
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest
from forked_nursery import ForkedNursery
from kafka_cluster import TestCluster, wait_for

import statestores as ss
from statestores.kafka.messages import record_of
from statestores.processing import RawRecord, Topic
from statestores.semantics.expiry.wall_clock import wall_clock_ms

KIT = str(Path(__file__).parents[2] / "processing" / "random_topologies" / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

from drawing import Drawing  # noqa: E402  # after the path to it
from drawn_records import drawn_records  # noqa: E402
from drawn_runs import (  # noqa: E402
    LOOP,
    Found,
    as_written,
    contents,
    differences,
    explained,
    gather,
    rows_of,
    written_topics,
)
from drawn_topology import drawn_topology  # noqa: E402

_SEEDS = (122_006, 122_021, 122_024, 122_028, 122_036, 122_038)
_FAILPOINTS = (
    "kafka.changes-written",
    "kafka.committed",
    "kafka.store-committed",
    "commit.apply.before",
    "commit.apply.after",
)
_DEATHS = 2
_HIGHEST_MS = 2_000


def _records(seed: int, drawing: Drawing) -> list[tuple[str, RawRecord]]:
    """Return what is drawn, today, as brokers keep it, in the order in which it comes up."""
    today_ms = wall_clock_ms() // ss.DAY * ss.DAY
    waiting: dict[str, list[RawRecord]] = {}
    for topic, record in drawn_records(seed * 7 + 1, drawing.sources, may_fail=drawing.may_fail):
        time_ms = record.time_ms if 0 <= record.time_ms < _HIGHEST_MS else _HIGHEST_MS
        waiting.setdefault(topic, []).append(record.with_time(today_ms + time_ms))
    in_order = []
    while waiting:
        topic = min(waiting, key=lambda name: (waiting[name][0].time_ms, name))
        in_order.append((topic, waiting[topic].pop(0)))
        if not waiting[topic]:
            del waiting[topic]
    return in_order


def _wanted(drawing: Drawing, records: list[tuple[str, RawRecord]]) -> Found:
    """Return what the test driver gives."""
    found = Found()
    with drawing.topology.test(backend="memory", commit_each=False) as driver:
        for topic, record in records:
            driver.topic(drawing.prefix + topic).pipe_bytes(record)
        driver.settle()
        driver.commit()
        gather(driver, drawing, found)
        found.stores = dict(contents(driver, drawing.stores))
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.spec("KFK-2", "KFK-6", "KFK-8", "KFK-9", "KFK-16")
@pytest.mark.parametrize("seed", _SEEDS)
def test_drawn_topologies_give_what_the_driver_gives(
    cluster: TestCluster, tmp_path: Path, seed: int
) -> None:
    """Outputs in their order, letters and stores, over an instance that dies twice in commits."""
    prefix = f"{cluster.name('drawn')}-"
    drawing = drawn_topology(seed, prefix)
    graph = drawing.topology.build()
    records = _records(seed, drawing)
    internal = {topic.name for topic in graph.internal_topics}
    outer = [Topic(name, partitions=1) for name in graph.topics if name not in internal]
    cluster.create(*outer, **{"retention.ms": "-1"})
    for topic, record in records:
        cluster.append(Topic(prefix + topic, partitions=1), [record], partition=0)
    drawn = random.Random(seed)
    deaths = [(drawn.choice(_FAILPOINTS), drawn.choice([1, 2, 3])) for _ in range(_DEATHS)]
    codes: list[int] = []
    with closing(ForkedNursery(Path(__file__).parents[1] / "kit" / "kafka_drawn.py")) as nursery:
        for failpoint, at in [*deaths, ("", 0)]:
            nursery.start(
                {
                    "address": cluster.address,
                    "seed": seed,
                    "prefix": prefix,
                    "state": str(tmp_path),
                    "failpoint": failpoint,
                    "at": at,
                }
            )
            wait_for(lambda: not nursery.is_running(), "an end", nursery.errors)
            codes.append(nursery.kill())
            assert codes[-1] == 0 or failpoint, nursery.errors()
    assert -signal.SIGKILL in codes

    wanted, found = _wanted(drawing, records), Found()
    for name in written_topics(drawing, graph):
        messages = cluster.messages(prefix + name, [0])
        found.written[name] += map(as_written, map(record_of, messages))
    found.dropped = wanted.dropped  # nobody has counted what was done again
    for name in wanted.stores:
        with ss.open_store(tmp_path / name / "0", graph.stores[name], backend="sqlite") as store:
            found.stores[name] = rows_of(store)
    with explained(drawing):
        wrong = list(differences(wanted, found, LOOP, is_cached=False, goes_around=False))
        assert wrong == []
