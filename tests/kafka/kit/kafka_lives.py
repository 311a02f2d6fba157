"""A topology that counts twice, the instances that run it until they die, and their judge."""

import faulthandler
import json
import os
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from forked_nursery import ForkedNursery
from kafka_cluster import TestCluster

import statestores as ss
from statestores.kafka import cluster as cluster_module
from statestores.kafka import run
from statestores.kafka.readers import consumed
from statestores.kafka.run_arguments import ChangelogFormat, Until
from statestores.kafka.tasks import restorer, waiting_columns, wholes
from statestores.processing import Context, Processor, Record, Topic, Topology
from statestores_conformance.faults.crash_child import die_at, serve

_STACK = "(most recent call first)"
_STACKS_SECONDS = 10.0
_SOAK_PATIENCE_SECONDS = 900.0

KEYS = 23
VALUES = 5
RATE = 100
TICK_MS = 100
_NEVER = 1 << 60
_ONE_BY_ONE = {"least_column_rows": _NEVER, "least_run_rows": _NEVER}
WAYS: dict[str, dict[str, Any]] = {
    "columns": {"least_column_rows": 2},
    "runs": {"least_column_rows": _NEVER, "least_run_rows": 2},
    "cache": {**_ONE_BY_ONE, "cache_max_bytes": 1 << 20},
    "records": _ONE_BY_ONE,
}
"""How an instance processes what is at hand."""

_LONG_RESTORES = ("columns", "cache")
"""Where what is restored waits as columns, although it is little."""
_SNAPSHOT_MS = 1_000
_WHOLE_AFTER = 10
"""After so many offsets a store is written whole, into a changelog of frames."""
SETTINGS = {
    # A dead instance is missed, and its transaction ended, after two seconds.
    "producer.transaction.timeout.ms": 2_000,
    "consumer.fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
CLASSIC = {"consumer.session.timeout.ms": 2_000, "consumer.heartbeat.interval.ms": 200}


class Numbering(Processor[str, int, str, int]):
    """Numbers the records of each key, and remembers more than it says."""

    seen = ss.KeyValue("seen", key=ss.utf8, value=ss.int64)
    last = ss.Versioned("last", history_retention_ms=ss.HOUR, key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Also write by the clock, so that a commit need not have consumed anything."""
        context.every(TICK_MS, self.tick, clock="wall")

    def process(self, record: Record[str, int]) -> None:
        """Number and forward."""
        number = (self.store(self.seen).get(record.key) or 0) + 1
        self.store(self.seen).put(record.key, number)
        self.store(self.last).put(record.key, record.value, record.time_ms)
        self.forward(record.with_value(number))

    def tick(self, now_ms: int) -> None:
        """Write something."""
        self.store(self.seen).put("ticks", now_ms)


class Lives:
    """The topics and the topology of one application, and what it has been given."""

    def __init__(self, name: str, partitions: int) -> None:
        """Describe it."""
        self.name = name
        self.orders = Topic(f"{name}-orders", key=ss.utf8, value=ss.int64, partitions=partitions)
        self.numbered = Topic(
            f"{name}-numbered", key=ss.utf8, value=ss.int64, partitions=partitions
        )
        self.rates = Topic(f"{name}-rates", key=ss.int64, value=ss.int64, partitions=2)
        self.counted = Topic(f"{name}-counted", key=ss.int64, value=ss.int64, partitions=2)
        self.priced = Topic(f"{name}-priced", key=ss.int64, value=ss.int64, partitions=2)
        self.given = 0

    def topology(self) -> Topology:
        """Number each key's records in one part; count values, and price them, in another."""
        shop = Topology(self.name)
        orders = shop.stream(self.orders)
        orders.process(Numbering, name="numbering", key=ss.utf8, value=ss.int64).to(self.numbered)
        by_value = orders.rekey("value", key=ss.int64).repartition("by-value", partitions=2)
        counts = ss.KeyValue("per-value", key=ss.int64, value=ss.int64)
        by_value.group_by_key().count(counts).to(self.counted)
        history = ss.Versioned("rates", history_retention_ms=ss.HOUR, key=ss.int64, value=ss.int64)
        rates = shop.table(self.rates, history)
        priced = by_value.join_as_of(rates, lambda value, rate: value + rate, value=ss.int64)
        priced.to(self.priced)
        return shop

    def create(self, cluster: TestCluster) -> None:
        """Create its topics, give the rates, and have who dies be missed soon."""
        cluster.miss_soon(self.name)
        cluster.create(self.orders, self.rates, self.numbered, self.counted, self.priced)
        cluster.append(self.rates, [Record(each, RATE, 1) for each in range(VALUES)])

    def give(self, cluster: TestCluster, count: int) -> None:
        """Append orders."""
        numbers = range(self.given, self.given + count)
        cluster.append(
            self.orders,
            (Record(f"key-{each % KEYS}", each % VALUES, 1 + each) for each in numbers),
        )
        self.given += count


def _up_to(count: int) -> list[int]:
    return [*range(1, count + 1)]


class Answers:
    """Reads what comes out, from the beginning, as it comes."""

    def __init__(self, cluster: TestCluster, lives: Lives) -> None:
        """Begin with nothing read."""
        self._lives = lives
        self._names = [each.name for each in (lives.numbered, lives.counted, lives.priced)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.address,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [
                KafkaPartition(topic.name, each, OFFSET_BEGINNING)
                for topic in (lives.numbered, lives.counted, lives.priced)
                for each in range(topic.partitions or 1)
            ]
        )
        self.found: dict[str, dict[Any, list[int]]] = {
            name: defaultdict(list) for name in self._names
        }

    def are_all(self) -> bool:
        """Read on; return whether everything that was given shows in each topic."""
        return self.missing() <= 0

    def missing(self) -> int:
        """Read on; return how much of what was given one of the topics does not show yet."""
        for message in consumed(self._consumer, 5_000, 0.05):
            if message.error() is None:
                topic = message.topic() or ""
                number = ss.int64.decode(message.value() or b"")
                self.found[topic][message.key()].append(number)
        numbered, counted, priced = (self.found[name] for name in self._names)
        shown = (
            sum(map(max, numbered.values())),
            sum(map(max, counted.values())),
            sum(map(len, priced.values())),
        )
        return self._lives.given - min(shown)

    def judge(self, *, every_update: bool) -> None:
        """See that each key was numbered 1 to n, in order, and nothing else came out.

        Columns and a cache leave out counts before the last one of a batch or a commit; without
        *every_update*, each is more than the one before, and the last is that of all records.
        """
        numbered, counted, priced = (self.found[name] for name in self._names)
        given = Counter(each % VALUES for each in range(self._lives.given))

        assert {key: rows for key, rows in numbered.items() if rows != _up_to(len(rows))} == {}
        assert sum(map(len, numbered.values())) == self._lives.given
        assert {ss.int64.decode(key): rows[-1] for key, rows in counted.items()} == given
        assert {key: rows for key, rows in counted.items() if rows != sorted(set(rows))} == {}
        assert not every_update or sum(map(len, counted.values())) == self._lives.given
        assert {ss.int64.decode(key): rows for key, rows in priced.items()} == {
            value: [value + RATE] * count for value, count in given.items()
        }

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


class Instance:
    """One place at which instances run, one after the other, over one state."""

    def __init__(self, directory: Path, name: str, arguments: dict[str, Any]) -> None:
        """Start the process that forks them."""
        directory.mkdir(parents=True, exist_ok=True)
        self.state = directory / name
        self.nursery = ForkedNursery(Path(__file__))
        self._arguments = {**arguments, "state": str(self.state)}
        self.pid = 0

    def start(self, failpoint: str | None = None, at: int = 1, *, until: Until = "stopped") -> None:
        """Start one; reaching *failpoint* for the *at*-th time kills it."""
        asked = json.dumps({**self._arguments, "failpoint": failpoint, "at": at, "until": until})
        self.pid = int(self.nursery._ask(f"start {asked}"))

    def signal(self, number: signal.Signals) -> None:
        """Send the signal *number*."""
        os.kill(self.pid, number)

    def stacks(self) -> str:
        """Return where each thread is of the instance that runs, and what it has complained of.

        Stopped or not: it is had go on first.
        """
        told = self.nursery.errors()
        if self.ended():
            return f"{told}\nit has ended"
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + _STACKS_SECONDS
        more = ""
        # One thread comes after the other, and the one that processes last.
        while (_STACK not in told or more) and time.monotonic() < deadline:
            time.sleep(0.2)
            more = self.nursery.errors()
            told += more
        return told

    def ended(self) -> bool:
        """Whether it has ended."""
        return not self.nursery.is_running()

    def code(self) -> int:
        """Kill it, if it has not ended; return how it ended."""
        return self.nursery.kill()


def live(
    *,
    address: str,
    name: str,
    partitions: int,
    protocol: Any,
    backend: str,
    changelog_format: ChangelogFormat,
    way: str,
    snapshots: str | None,
    state: str,
    failpoint: str | None,
    at: int,
    until: Until,
) -> None:
    """Run an instance until it is over; SIGUSR1 has it say where it is."""
    faulthandler.register(signal.SIGUSR1)
    if failpoint is not None:
        die_at(failpoint, at)
    wholes._MOST_OFFSETS = _WHOLE_AFTER
    if way in _LONG_RESTORES:
        waiting_columns.LEAST_RECORDS, restorer._WAITING_BYTES = 50, 5_000
    if os.environ.get("STATESTORES_SOAK") == "1":
        # A broker that is killed on a machine with ten soaks takes minutes to be there again.
        cluster_module.PATIENCE_SECONDS = _SOAK_PATIENCE_SECONDS
    run(
        Lives(name, partitions).topology(),
        bootstrap_servers=address,
        state=state,
        backend=backend,
        changelog_format=changelog_format,
        **WAYS[way],
        snapshots=snapshots,
        snapshot_interval_ms=_SNAPSHOT_MS,
        group_protocol=protocol,
        settings=SETTINGS | (CLASSIC if protocol == "classic" else {}),
        commit_interval_ms=250,
        commit_records=50,
        standby_replicas=1,
        until=until,
    )


if __name__ == "__main__":
    serve(live)
