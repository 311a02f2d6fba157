"""A topology from files to files, and the processes that run it until they die."""

import json
from pathlib import Path

import statestores as ss
from statestores.processing import Topic, Topology, run
from statestores.processing.local import JsonLines, ParquetSink, retention
from statestores_conformance.faults.crash_child import die_at, serve

ORDERS = Topic("orders", key=ss.utf8, value=ss.json)
TOTALS = Topic("totals", key=ss.utf8, value=ss.int64, partitions=2)


def write_orders(directory: Path, first: int, count: int) -> None:
    """Add lines to one file, or a new one each second time."""
    file = directory / "in" / f"{first // (2 * count):04d}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        for number in range(first, first + count):
            order = {"user": f"user-{number % 7}", "at": number * 7, "amount": number}
            lines.write(json.dumps(order) + "\n")


def run_all(directory: Path) -> None:
    """Process all lines that are there."""
    retention.SEAL_BYTES = 2_000  # so that records leave the topics in each life
    shop = Topology("edges")
    orders = (
        shop.stream(ORDERS).rekey("value.user", key=ss.utf8).repartition("by-user", partitions=2)
    )
    store = ss.KeyValue("sums", key=ss.utf8, value=ss.int64)
    orders.group_by_key().sum("value.amount", store).to(TOTALS)
    run(
        shop,
        state=directory / "state",
        topics=directory / "topics",
        sources={"orders": JsonLines(directory / "in", time="at")},
        sinks={"totals": ParquetSink(directory / "out", max_rows=20)},
        backend="sqlite",
        commit_records=15,
        until="idle",
    )


def live(*, directory: str, failpoint: str | None, at: int) -> None:
    """Process everything that is there; reaching *failpoint* for the *at*-th time ends it."""
    if failpoint is not None:
        die_at(failpoint, at)
    run_all(Path(directory))


if __name__ == "__main__":
    # Arrow imports pandas when it makes its first array: half a second in each life.
    serve(live, preload=["pandas", "pyarrow.pandas_compat"])
