"""When a run until idle ends that is one of several instances."""

from pathlib import Path
from threading import Timer

import pytest
from kafka_cluster import TestCluster
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.kafka import KafkaProgress, KafkaRunner
from statestores.processing import Record, Topic, Topology

_KEYS = {f"key-{each}" for each in range(20)}
_NAP_SECONDS = 2.0


@pytest.mark.spec("KFK-20")
def test_a_run_until_idle_waits_for_what_others_have(cluster: TestCluster, tmp_path: Path) -> None:
    """It ended when its own partitions were read, though the other had not begun with its own.

    Three runs until idle lost records so, to whoever had ended: what the last one sent through the
    repartition topic, before it ended too, waited in partitions that nobody had any more.
    """
    name = cluster.name("idle")
    words = Topic(f"{name}-words", key=ss.utf8, value=ss.int64, partitions=2)
    counted = Topic(f"{name}-counted", key=ss.utf8, value=ss.int64, partitions=2)
    topology = Topology(name)
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(words).group_by_key().count(counts).to(counted)
    cluster.create(words, counted)
    cluster.append(words, [Record(key, 1, 1_000) for key in _KEYS])

    other = ThreadedInstance(cluster, topology, tmp_path / "other")
    waking = Timer(_NAP_SECONDS, other.runner.resume)

    def has_committed(told: KafkaProgress) -> None:
        if told.processed and waking.ident is None:
            waking.start()

    runner = KafkaRunner(
        topology,
        cluster.address,
        tmp_path / "idle",
        backend="sqlite",
        settings={"consumer.fetch.wait.max.ms": 100},
        until="idle",
        progress=has_committed,
    )
    other.runner.pause()
    with other:
        other.wait_for("running", 2)
        runner.run()

        assert other.runner.report().processed > 0
        assert {record.key for record in cluster.read(counted)} == _KEYS
    waking.join()
