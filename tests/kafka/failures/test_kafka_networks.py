"""Security settings on a broker that asks for them, and a network that is slow and cuts."""

from pathlib import Path
from typing import Any

import pytest
from kafka_broker_process import BrokerProcess
from kafka_cluster import TestCluster, wait_for
from kafka_patience import Patience
from kafka_proxy import BadNetwork
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import BrokerError
from statestores.kafka import cluster as cluster_module
from statestores.kafka import run
from statestores.processing import Record, Topic, Topology

_KEYS = 7
_COUNTED = 50


class Numbered:
    """Numbers the records of each key."""

    def __init__(self, cluster: TestCluster, count: int) -> None:
        """Create its topics, with *count* records to number."""
        name = cluster.name("numbered")
        self.given = Topic(f"{name}-given", key=ss.utf8, value=ss.int64, partitions=2)
        self.numbers = Topic(f"{name}-numbers", key=ss.utf8, value=ss.int64, partitions=2)
        self.count = count
        self.topology = Topology(name)
        store = ss.KeyValue("numbers", key=ss.utf8, value=ss.int64)
        self.topology.stream(self.given).group_by_key().count(store).to(self.numbers)
        cluster.create(self.given, self.numbers)
        cluster.append(
            self.given, [Record(f"k{each % _KEYS}", 1, 1 + each) for each in range(count)]
        )

    def judge(self, cluster: TestCluster) -> None:
        """See that each key is numbered 1 to n."""
        found: dict[str, list[int]] = {}
        for record in cluster.read(self.numbers):
            found.setdefault(record.key, []).append(record.value)

        assert sum(map(len, found.values())) == self.count
        assert all(numbers == [*range(1, len(numbers) + 1)] for numbers in found.values())


@pytest.mark.spec("KFK-3", "KFK-33")
@pytest.mark.parametrize("security", ["ssl", "sasl_ssl"])
def test_security_reaches_every_client(
    broker: BrokerProcess,
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    security: str,
) -> None:
    """Certificates of both sides, or a name and a password; without them nothing is said."""
    certificates = broker.directory / "tls"
    settings: dict[str, Any] = {
        "security.protocol": security,
        "ssl.ca.location": str(certificates / "ca.pem"),
        "consumer.fetch.wait.max.ms": 100,
    }
    if security == "ssl":
        address = broker.tls_address
        secrets = {
            "ssl.certificate.location": str(certificates / "client.crt"),
            "ssl.key.location": str(certificates / "client.key"),
        }
    else:
        address = broker.sasl_address
        secrets = {
            "sasl.mechanism": "PLAIN",
            "sasl.username": "shop",
            "sasl.password": "shop-secret",
        }
    numbered = Numbered(cluster, 50)

    def attempt(more: dict[str, Any]) -> None:
        run(
            numbered.topology,
            bootstrap_servers=address,
            state=tmp_path,
            backend="sqlite",
            settings={**settings, **more},
            until="idle",
        )

    attempt(secrets)
    numbered.judge(cluster)
    patience = Patience()
    monkeypatch.setattr(cluster_module, "time", patience)
    monkeypatch.setattr(cluster_module, "REQUEST_SECONDS", 1.0)
    wrong: dict[str, Any] = {"error_cb": patience.end}
    why = "certificate"
    if security == "sasl_ssl":
        wrong |= {**secrets, "sasl.password": "guessed"}
        why = "Invalid username or password"
    with pytest.raises(BrokerError, match=f"the client says: .*{why}"):
        attempt(wrong)


@pytest.mark.long
@pytest.mark.spec("KFK-2", "KFK-13")
def test_each_record_counts_once_over_a_bad_network(
    broker: BrokerProcess, cluster: TestCluster, tmp_path: Path
) -> None:
    """Every answer is late, and every so many-th has its connection cut."""
    numbered = Numbered(cluster, _COUNTED)
    through = TestCluster(broker.proxy_address)
    with (
        BadNetwork(
            broker.proxy_address, broker.behind_address, delay_ms=3, chunks_until_cut=40
        ) as network,
        ThreadedInstance(through, numbered.topology, tmp_path, commit_records=5) as instance,
    ):
        wait_for(
            lambda: instance.failure is not None or len(cluster.read(numbered.numbers)) >= _COUNTED,
            "all numbers",
        )
        assert instance.failure is None, instance.failure
        assert network.cuts > 0
    numbered.judge(cluster)
