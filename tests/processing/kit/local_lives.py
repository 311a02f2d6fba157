"""A topology that uses all of the local runner, and the processes that run it until they die."""

from collections import Counter
from pathlib import Path
from typing import Any

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
from statestores_conformance.faults.crash_child import die_at, serve

TICK_MS = 50
COMMIT_RECORDS = 20
APART_MS = 5
"""How far an order and its payment may be apart; the next order of a customer is later."""

ORDERS = Topic("orders", key=ss.utf8, value=ss.int64, partitions=1)
PAYMENTS = Topic("payments", key=ss.utf8, value=ss.int64, partitions=1)
PAID = Topic("paid", key=ss.utf8, value=ss.utf8, partitions=1)
SEEN = Topic("seen", key=ss.utf8, value=ss.int64, partitions=1)
COUNTS = Topic("counts", key=ss.int64, value=ss.int64, partitions=2)
COUNT_STORE = ss.KeyValue("per-value", key=ss.int64, value=ss.int64)


class Ticker(Processor[str, int, str, int]):
    """Forwards each record, and at each tick of stream time how many there were."""

    last = ss.KeyValue("last", key=ss.utf8, value=ss.int64)
    total = ss.KeyValue("total", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Tick."""
        context.every(TICK_MS, self.tick)

    def process(self, record: Record[str, int]) -> None:
        """Count and forward."""
        store = self.store(self.total)
        store.put("records", (store.get("records") or 0) + 1)
        self.store(self.last).put(record.key, record.value)
        self.forward(record)

    def tick(self, now_ms: int) -> None:
        """Say how many."""
        self.forward(Record("tick", self.store(self.total).get("records") or 0, now_ms))


def topology() -> Topology:
    """Two stores, a timer and a join in one part, and an aggregate behind a repartition topic."""
    shop = Topology("lives")
    orders = shop.stream(ORDERS)
    orders.join(
        shop.stream(PAYMENTS),
        lambda order, payment: f"{order} {payment}",
        within=within(APART_MS),
        how="left",
        value=ss.utf8,
        name="pay",
    ).to(PAID)
    ticked = orders.process(Ticker, name="ticker", key=ss.utf8, value=ss.int64)
    ticked.to(SEEN)
    by_value = ticked.rekey("value", key=ss.int64).repartition("by-value", partitions=2)
    by_value.group_by_key().count(COUNT_STORE).to(COUNTS)
    return shop


def order(number: int) -> Record[str, int]:
    """Return the input record of that number."""
    headers = (("number", str(number).encode()),) if number % 3 else ()
    return Record(f"customer-{number % 7}", number % 13, number * 7, headers)


def payment(number: int) -> Record[str, int] | None:
    """Return the payment of the order of that number, if it is paid."""
    paid = order(number)
    return None if number % 4 == 0 else Record(paid.key, number, paid.time_ms + 3)


def append_orders(directory: Path, first: int, count: int) -> None:
    """Append so many orders, and their payments, to the topics in *directory*."""
    numbers = range(first, first + count)
    with LocalTopics(directory / "topics") as topics:
        topics.topic(ORDERS).append(map(order, numbers))
        topics.topic(PAYMENTS).append(filter(None, map(payment, numbers)))


def run_all(directory: Path, **more: Any) -> None:
    """Process everything that is there."""
    settings: dict[str, Any] = {"commit_records": COMMIT_RECORDS, "backend": "sqlite"} | more
    run(
        topology(),
        state=directory / "state",
        topics=directory / "topics",
        until="idle",
        **settings,
    )


def written(directory: Path) -> dict[str, list[Any]]:
    """Return what is in each partition of each output topic, with its offsets."""
    places: list[tuple[Topic[Any, Any], int]] = [(SEEN, 0), (PAID, 0), (COUNTS, 0), (COUNTS, 1)]
    with LocalTopics(directory / "topics") as topics:
        return {
            f"{topic.name}-{partition}": list(topics.topic(topic).read(partition))
            for topic, partition in places
        }


def expected_seen(numbers: int) -> list[Record[str, int]]:
    """Return what `SEEN` has to have: by a loop, and a list."""
    found = []
    ticked_ms: int | None = None
    for number in range(numbers):
        found.append(order(number))
        for record in filter(None, (order(number), payment(number))):
            due = record.time_ms // TICK_MS * TICK_MS
            if ticked_ms is None or due > ticked_ms:
                ticked_ms = due
                found.append(Record("tick", number + 1, record.time_ms))
    return found


def expected_paid(numbers: int) -> list[str]:
    """Return what `PAID` has to have of orders with a payment, in any order."""
    return [
        f"{order(number).value} {number}"
        for number in range(numbers)
        if payment(number) is not None
    ]


def expected_counts(seen: list[Record[str, int]]) -> Counter[int]:
    """Return how often each value was seen."""
    return Counter(record.value for record in seen)


def live(*, directory: str, failpoint: str | None, at: int, backend: str) -> None:
    """Process everything that is there; reaching *failpoint* for the *at*-th time ends it.

    In runs: what is compared with it goes record by record.
    """
    if failpoint is not None:
        die_at(failpoint, at)
    run_all(Path(directory), backend=backend, least_run_rows=1)


if __name__ == "__main__":
    # Arrow imports pandas when it makes its first array: half a second in each life.
    serve(live, preload=["pandas", "pyarrow.pandas_compat"])
