"""A versioned store from a file of history, and then by an application without Spark.

    python examples/bootstrap_store/bootstrap_rates.py

Spark writes the history as one staged write: all of it or nothing. The application that opens the
store afterwards restores its engine from the changelog, and goes on where the history ends.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import statestores as ss
from statestores.spark import ensure_java

PARTITIONS = 2
CURRENCIES = {"EUR": 1.08, "GBP": 1.26, "JPY": 0.006, "CHF": 1.13}


def history(directory: Path) -> Path:
    """Write the file that a data provider would: one line a currency and day."""
    lines = ["day,currency,rate"]
    for day in range(1, 29):
        lines += [
            f"2024-02-{day:02},{currency},{base + day / 1000:.3f}"
            for currency, base in CURRENCIES.items()
        ]
    file = directory / "rates.csv"
    file.write_text("\n".join(lines))
    return file


def bootstrap(spark: SparkSession, file: Path, state: Path) -> None:
    """Make the store of the file's rows; fail if there is a store already."""
    rates = spark.read.csv(str(file), header=True, schema="day date, currency string, rate double")
    (
        rates.selectExpr("currency AS key", "rate AS value", "timestamp(day) AS valid_from")
        .write.format("statestores")
        .option("storeName", "rates")
        .option("historyRetention", "365d")
        .option("numPartitions", PARTITIONS)
        .option("ifExists", "fail")
        .mode("append")
        .save(str(state))
    )


def rates_as_of(state: Path, time_ms: int) -> Iterator[tuple[str, float]]:
    """Open the store as an application does, and yield each currency's rate at a time."""
    for partition in range(PARTITIONS):
        with ss.open_logged_store(state, "rates", partition, backend="rocksdb") as rates:
            for currency in CURRENCIES:
                version = rates.store.get(currency, as_of_ms=time_ms)
                if version is not None:  # else it is in another partition
                    yield currency, version.value


def main(spark: SparkSession, directory: Path) -> None:
    """Bootstrap, look at one day, and show that a second bootstrap changes nothing."""
    state = directory / "state"
    bootstrap(spark, history(directory), state)
    spark.read.format("statestores").load(str(state)).orderBy("key").show()
    noon_ms = 1_708_084_800_000  # 2024-02-16T12:00:00Z
    print("rates at noon of 16 February:", dict(sorted(rates_as_of(state, noon_ms))))
    try:
        bootstrap(spark, history(directory), state)
    except Exception as error:  # noqa: BLE001  # Spark wraps ours
        print(
            "a second bootstrap:",
            next(line for line in str(error).splitlines() if "exists" in line),
        )


if __name__ == "__main__":
    ensure_java()
    session = SparkSession.builder.master("local[2]").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(temporary))
    session.stop()
