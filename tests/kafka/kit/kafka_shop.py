"""A topology with a store of each kind and a global table, and what goes in."""

from typing import Any

from kafka_cluster import TestCluster

import statestores as ss
from statestores.processing import Record, Topic, Topology, closed, session, tumbling

RATES = [Record("eur", 2, 0), Record("usd", 3, 0)]
CLICKS: list[Record[str, Any]] = [
    Record(key, value, time_ms, headers)
    for key, value, time_ms, headers in [
        ("eur", 1, 0, ()),
        ("usd", 2, 5, (("from", b"shop"),)),
        ("eur", 3, 12, ()),
        ("usd", None, 13, ()),
        ("eur", 4, 31, ()),
        ("eur", 5, 33, ()),
        ("usd", 6, 48, ()),
        ("eur", 7, 90, ()),
    ]
]


class Shop:
    """A topology with a store of each kind, and a global table."""

    def __init__(self, name: str) -> None:
        """Describe it."""
        self.clicks = Topic(f"{name}-clicks", key=ss.utf8, value=ss.int64, partitions=1)
        self.rates = Topic(f"{name}-rates", key=ss.utf8, value=ss.int64, partitions=2)
        self.outputs: dict[str, Topic[Any, Any]] = {}
        self.topology = Topology(name)
        # One task reads two topics, so they have to come to one instance.
        self.extras = Topic(f"{name}-extras", key=ss.utf8, value=ss.int64, partitions=1)
        clicks = self.topology.stream(self.clicks).merge(self.topology.stream(self.extras))
        grouped = clicks.group_by_key()
        grouped.count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64)).to(self._output("counts"))
        minutes = ss.Window(
            "tens", retention_ms=100, window_size_ms=10, key=ss.utf8, value=ss.int64
        )
        windows = grouped.window(tumbling(10)).count(minutes, emit=closed())
        windows.to_stream().rekey(lambda record: record.key.key, key=ss.utf8).to(
            self._output("windows")
        )
        bursts = ss.Session("bursts", retention_ms=100, key=ss.utf8, value=ss.int64)
        grouped.window(session(8)).count(bursts).to_stream().rekey(
            lambda record: record.key.key, key=ss.utf8
        ).to(self._output("sessions"))
        history = ss.Versioned("history", history_retention_ms=1_000, key=ss.utf8, value=ss.int64)
        clicks.to_table(history).to_stream().to(self._output("versions"))
        rates = self.topology.global_table(
            self.rates, ss.KeyValue("rates", key=ss.utf8, value=ss.int64)
        )
        clicks.join(
            rates,
            lambda value, rate: value * rate,
            key="key",
            value=ss.int64,
        ).to(self._output("priced"))

    def _output(self, name: str) -> Topic[str, int]:
        topic = Topic(f"{self.topology.name}-{name}", key=ss.utf8, value=ss.int64, partitions=1)
        self.outputs[name] = topic
        return topic

    def create(self, cluster: TestCluster) -> None:
        """Create its topics."""
        cluster.create(self.clicks, self.extras, self.rates, *self.outputs.values())

    def expected(self) -> dict[str, list[Record[Any, Any]]]:
        """Return what the test driver answers."""
        with self.topology.test() as driver:
            for each in RATES:
                driver.topic(self.rates.name).pipe(each.value, each.key, time_ms=each.time_ms)
            for each in CLICKS:
                driver.topic(self.clicks.name).pipe(
                    each.value, each.key, time_ms=each.time_ms, headers=each.headers
                )
            return {
                name: list(driver.topic(topic.name).read_all())
                for name, topic in self.outputs.items()
            }
