"""A topology of many tasks, and the processes that share them until they die."""

import json
import sys
from pathlib import Path
from typing import Any

from death_at_failpoint import die_at

import statestores as ss
from statestores.processing import (
    Context,
    LocalTopics,
    Processor,
    Record,
    Topic,
    Topology,
    run,
    within,
)

PARTITIONS = 3
TICK_MS = 70
VALUES = 11

ORDERS = Topic("orders", key=ss.utf8, value=ss.int64, partitions=PARTITIONS)
SEEN = Topic("seen", key=ss.utf8, value=ss.int64, partitions=PARTITIONS)
COUNTS = Topic("counts", key=ss.int64, value=ss.int64, partitions=2)
SALES = Topic("sales", key=ss.utf8, value=ss.int64, partitions=PARTITIONS)
PAYMENTS = Topic("payments", key=ss.utf8, value=ss.int64, partitions=PARTITIONS)
PAID = Topic("paid", key=ss.utf8, value=ss.utf8, partitions=PARTITIONS)
COUNT_STORE = ss.KeyValue("per-value", key=ss.int64, value=ss.int64)
TASKS = PARTITIONS + 2


class Totals(Processor[str, int, str, int]):
    """Forwards each record with the running total of its key, and at ticks how many there were."""

    totals = ss.KeyValue("totals", key=ss.utf8, value=ss.int64)
    records = ss.KeyValue("records", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Tick."""
        context.every(TICK_MS, self.tick)

    def process(self, record: Record[str, int]) -> None:
        """Add up."""
        totals, records = self.store(self.totals), self.store(self.records)
        total = (totals.get(record.key) or 0) + record.value
        totals.put(record.key, total)
        records.put("all", (records.get("all") or 0) + 1)
        self.forward(record._replace(value=total))

    def tick(self, now_ms: int) -> None:
        """Say how many: without a key, so that it stays in the partition."""
        none: Any = None
        self.forward(Record(none, self.store(self.records).get("all") or 0, now_ms))


def topology(name: str = "shared", *, joined: bool = False) -> Topology:
    """Three tasks with two stores and a timer, and two that count behind a repartition topic.

    If it is *joined*, three more tasks join two streams.
    """
    made = Topology(name)
    orders = made.stream(ORDERS)
    orders.process(Totals, name="totals", key=ss.utf8, value=ss.int64).to(SEEN)
    by_value = orders.rekey("value", key=ss.int64).repartition("by-value", partitions=2)
    by_value.group_by_key().count(COUNT_STORE).to(COUNTS)
    if joined:
        made.stream(SALES).join(
            made.stream(PAYMENTS),
            lambda sale, payment: f"{sale} {payment}",
            within=within(5, grace_ms=ss.DAY),
            value=ss.utf8,
            name="pay",
        ).to(PAID)
    return made


def order(number: int) -> Record[str, int]:
    """Return the input record of that number."""
    return Record(f"customer-{number % 13}", number % VALUES, number * 7)


def payment(number: int) -> Record[str, int]:
    """Return what pays the order of that number, which is also a sale."""
    sold = order(number)
    return Record(sold.key, number, sold.time_ms + 3)


def append_orders(directory: Path, first: int, count: int, *, joined: bool = False) -> None:
    """Append input to the topics in *directory*; if it is *joined*, sales and payments too."""
    numbers = range(first, first + count)
    with LocalTopics(directory / "topics") as topics:
        topics.topic(ORDERS).append(map(order, numbers))
        if joined:
            topics.topic(SALES).append(map(order, numbers))
            topics.topic(PAYMENTS).append(map(payment, numbers))


def run_shared(directory: Path, *, joined: bool = False, **more: Any) -> None:
    """Share in processing what is there."""
    settings: dict[str, Any] = {
        "until": "idle",
        "backend": "sqlite",
        "commit_records": 10,
        "commit_interval_ms": 50,
    }
    run(
        topology(joined=joined),
        state=directory / "state",
        topics=directory / "topics",
        **settings | more,
    )


def written(directory: Path, topic: Topic[Any, Any]) -> list[list[Record[Any, Any]]]:
    """Return what is in each partition of *topic*."""
    with LocalTopics(directory / "topics") as topics:
        opened = topics.topic(topic)
        return [
            [each.record for each in opened.read(partition)]
            for partition in range(opened.partitions)
        ]


def live(
    *,
    directory: str,
    failpoint: str | None,
    at: int,
    backend: str,
    standbys: int = 0,
    joined: bool = False,
    serve: str | None = None,
) -> None:
    """Share the tasks until the end; reaching *failpoint* for the *at*-th time is the end."""
    if failpoint is not None:
        die_at(failpoint, at)
    run_shared(
        Path(directory),
        joined=joined,
        backend=backend,
        until="stopped",
        standbys=standbys,
        serve=serve,
    )


if __name__ == "__main__":
    live(**json.loads(sys.argv[1]))
