"""A topology that has every store that a topology can have, and what it is run on."""

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
    closed,
    run,
    session,
    tumbling,
    within,
)

PARTITIONS = 3
ORDERS = Topic("orders", key=ss.utf8, value=ss.utf8, partitions=PARTITIONS)
PAYMENTS = Topic("payments", key=ss.utf8, value=ss.utf8, partitions=PARTITIONS)
SHOPS = Topic("shops", key=ss.utf8, value=ss.utf8, partitions=2)
OF_KEYS = {
    "latest",
    "shops",
    "counts",
    "first-customer",
    "means",
    "minutes",
    "visits",
    "paid-left",
    "paid-right",
}
"""The stores whose keys are those of records."""

OF_TASKS = {
    "by-hour",
    "timers",
    "minutes-pending",
    "paid-waiting",
    "late-waiting",
    "placed-subscriptions",
    "placed-owed",
    "first-customer-values",
}
"""The stores whose keys are none of records, without those of the tasks themselves."""


class ByHour(Processor[str, str, str, str]):
    """Counts by hour, whatever the key, and remembers when it last looked."""

    hours = ss.KeyValue("by-hour", key=ss.int64_sorted, value=ss.int64)
    timers = ss.KeyValue("timers", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, str]) -> None:
        """Look every second."""
        context.every(1_000, self.look)

    def process(self, record: Record[str, str]) -> None:
        """Count."""
        hours, hour = self.store(self.hours), record.time_ms // 1_000
        hours.put(hour, (hours.get(hour) or 0) + 1)

    def look(self, now_ms: int) -> None:
        """Remember the time."""
        self.store(self.timers).put("last look", now_ms)


def topology() -> Topology:
    """Tables, aggregates, windows, all joins, a processor, suppression."""
    made = Topology("many")
    orders, payments = made.stream(ORDERS), made.stream(PAYMENTS)
    shops = made.table(SHOPS, ss.KeyValue("shops", key=ss.utf8, value=ss.utf8))
    orders.process(ByHour, name="by-hours")
    latest = orders.to_table(ss.KeyValue("latest", key=ss.utf8, value=ss.utf8))
    latest.join(
        shops, lambda order, shop: order + shop, foreign_key=lambda order: order, name="placed"
    )
    by_value = orders.group_by("value", key=ss.utf8)
    counts = by_value.count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    latest.group_by("value", "key", key_serde=ss.utf8, value_serde=ss.utf8).min(
        "value", ss.KeyValue("first-customer", key=ss.utf8, value=ss.utf8)
    )
    by_value.mean("time_ms", ss.KeyValue("means", key=ss.utf8))
    counts.suppress(wait_ms=10_000, name="late")
    by_value.window(tumbling(1_000)).count(
        ss.Window(
            "minutes", retention_ms=ss.HOUR, window_size_ms=1_000, key=ss.utf8, value=ss.int64
        ),
        emit=closed(),
    )
    by_value.window(session(300)).count(
        ss.Session("visits", retention_ms=ss.HOUR, key=ss.utf8, value=ss.int64)
    )
    orders.join(
        payments,
        lambda order, payment: f"{order} {payment}",
        within=within(500, grace_ms=5_000),
        how="outer",
        name="paid",
    )
    return made


def run_all(directory: Path, **more: Any) -> None:
    """Process orders, payments and shops to their end."""
    with LocalTopics(directory / "topics") as topics:
        for topic, step in ((ORDERS, 50), (PAYMENTS, 130)):
            topics.topic(topic).append(
                Record(f"customer-{at % 17}", f"shop-{at % 5}", at * step) for at in range(100)
            )
        topics.topic(SHOPS).append(Record(f"shop-{at}", "town", at) for at in range(5))
    settings: dict[str, Any] = {"backend": "sqlite", "until": "idle"} | more
    run(topology(), state=directory / "state", topics=directory / "topics", **settings)
