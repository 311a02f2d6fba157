"""Orders with the rate that was valid when each of them was placed, while rates are corrected.

    python examples/temporal_join/price_orders.py

The rates are in a versioned store, which another program writes. The stream of orders is joined as
of their times; a rate that becomes known later than an order that it is for is used from the next
micro-batch on.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import statestores as ss
from statestores.spark import ensure_java, temporal_join

RATES = ss.Versioned("rates", history_retention_ms=30 * ss.DAY, key=ss.utf8, value=ss.float64)


def publish_rates(state: Path, rates: list[tuple[str, float, int]]) -> None:
    """Put rates into the store, each with the time from which on it is valid."""
    root = ss.StateRoot.create(state)
    root.add_store(RATES, partitions=1)
    with ss.open_logged_store(root, "rates") as store:
        for currency, rate, time_ms in rates:
            store.store.put(currency, rate, timestamp_ms=time_ms)
        store.commit()


def place(orders: Path, number: int, placed: Sequence[tuple[int, str, float, int]]) -> None:
    """Let orders arrive."""
    orders.mkdir(exist_ok=True)
    names = ("id", "currency", "amount", "time_ms")
    lines = [json.dumps(dict(zip(names, order, strict=True))) for order in placed]
    (orders / f"{number}.json").write_text("\n".join(lines))


def price(spark: SparkSession, directory: Path) -> DataFrame:
    """Price all orders that there are now, and return those that were ever priced."""
    orders = spark.readStream.schema("id long, currency string, amount double, time_ms long")
    priced = temporal_join(
        orders.json(str(directory / "orders")),
        directory / "state",
        on="currency",
        at="time_ms",
        value_name="rate",
        valid_from_name="rate_since",
        max_age_ms=ss.DAY,
    ).selectExpr("id", "currency", "rate", "rate_since", "amount * rate AS dollars")
    query = (
        priced.writeStream.format("parquet")  # the result is a stream like any other
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "priced"))
    )
    query.awaitTermination()
    return spark.read.parquet(str(directory / "priced")).orderBy("id")


def main(spark: SparkSession, directory: Path) -> None:
    """Price orders twice, with a rate that is corrected in between."""
    publish_rates(directory / "state", [("EUR", 1.08, 0), ("EUR", 1.10, 2 * ss.HOUR)])
    place(directory / "orders", 0, [(1, "EUR", 100, ss.HOUR), (2, "EUR", 100, 3 * ss.HOUR)])
    price(spark, directory).show()
    publish_rates(directory / "state", [("EUR", 1.09, ss.HOUR)])  # known late
    late = [(3, "EUR", 100, ss.HOUR), (4, "EUR", 100, 3 * ss.DAY), (5, "XAU", 1, ss.HOUR)]
    place(directory / "orders", 1, late)
    price(spark, directory).show()


if __name__ == "__main__":
    ensure_java()
    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(temporary))
    session.stop()
