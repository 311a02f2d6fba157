"""Transactions of others that are open: they are waited for, and not without end."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import TestCluster
from kafka_shop import CLICKS, Shop

from statestores.errors import BrokerError
from statestores.kafka import KafkaRunner, run, undecided
from statestores.kafka.cluster import Cluster
from statestores.kafka.tasks import restorer
from statestores.spi import TopicPartition

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}


@pytest.mark.spec("KFK-12")
def test_a_transaction_that_nobody_ends_is_told(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was killed left one behind, and two instances waited for it, without a word."""
    monkeypatch.setattr(restorer, "_HANGING_SECONDS", -9.5)  # beside the ten of a transaction
    shop = Shop(cluster.name("hangs"))
    shop.create(cluster)
    arguments: dict[str, Any] = {
        "bootstrap_servers": cluster.address,
        "backend": "sqlite",
        "settings": _FAST,
        "until": "idle",
    }
    run(shop.topology, state=tmp_path / "a", **arguments)
    hanging = cluster.producer(**{"transactional.id": "x", "transaction.timeout.ms": 60_000})
    hanging.init_transactions()
    hanging.begin_transaction()
    changelog = f"{shop.topology.name}-counts-changelog"
    hanging.produce(changelog, bytes(16), b"eur", 0)
    hanging.flush()

    with pytest.raises(BrokerError, match=rf"{changelog}' for 0 s, from offset 0 .* find-hanging"):
        run(shop.topology, state=tmp_path / "b", **arguments)

    hanging.abort_transaction()
    run(shop.topology, state=tmp_path / "b", **arguments)


@pytest.mark.spec("KFK-20", "KFK-14")
def test_the_end_of_a_run_waits_for_transactions(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed moments ago was hidden from a run, which ended without its own records.

    A partition learns later than its producer that a transaction is committed. Here one is
    committed only after the run has asked where its input ends; one of a global table before it.
    """
    shop = Shop(cluster.name("late"))
    shop.create(cluster)
    late = {}
    for topic, key in ((shop.clicks, b"eur"), (shop.rates, b"eur")):
        late[topic.name] = producer = cluster.producer(**{"transactional.id": topic.name})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic.name, (7).to_bytes(8, "big", signed=True), key, 0, timestamp=1)
        producer.flush()
    asked = Cluster.ends

    def ends(
        self: Cluster, partitions: Iterable[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, int]:
        places = list(partitions)
        found = asked(self, places, committed=committed)
        if committed:  # what it hides is committed once it is said
            for name in late.keys() & {place.topic for place in places}:
                late.pop(name).commit_transaction()
        return found

    monkeypatch.setattr(Cluster, "ends", ends)
    run(
        shop.topology,
        bootstrap_servers=cluster.address,
        state=tmp_path,
        backend="sqlite",
        settings=_FAST,
        until="idle",
    )

    assert not late
    assert [record.value for record in cluster.read(shop.outputs["counts"])] == [1]
    assert [record.value for record in cluster.read(shop.outputs["priced"])] == [49]


@pytest.mark.spec("KFK-20")
def test_an_open_transaction_is_not_waited_for_without_end(
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A producer that commits once a minute would keep a run that ends when it is idle."""
    monkeypatch.setattr(undecided, "PATIENCE_SECONDS", 0.0)
    shop = Shop(cluster.name("open"))
    shop.create(cluster)
    cluster.append(shop.clicks, CLICKS[:1])
    producer = cluster.producer(**{"transactional.id": "open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(shop.clicks.name, bytes(8), b"eur", 0)
    producer.flush()

    told = run(
        shop.topology,
        bootstrap_servers=cluster.address,
        state=tmp_path,
        backend="sqlite",
        settings=_FAST,
        until="idle",
    )

    producer.abort_transaction()
    assert told.processed == 1
    assert f"{shop.clicks.name}/0 from offset 1 has not come yet" in caplog.text


@pytest.mark.spec("KFK-14")
def test_a_run_that_reads_its_global_tables_can_be_stopped(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM was heard only when all of the table was read, which may take hours."""
    monkeypatch.setattr(undecided, "PATIENCE_SECONDS", 600.0)
    shop = Shop(cluster.name("stopped"))
    shop.create(cluster)
    producer = cluster.producer(**{"transactional.id": shop.topology.name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(shop.rates.name, bytes(8), b"eur", 0)
    producer.flush()
    runner = KafkaRunner(shop.topology, cluster.address, tmp_path, backend="sqlite", settings=_FAST)
    runner.stop()

    assert runner.run().processed == 0
    producer.abort_transaction()
