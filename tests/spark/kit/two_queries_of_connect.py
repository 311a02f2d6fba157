"""A program: the queries of `two_queries` in a client of Spark Connect.

Prints the wrong answers while nobody offers filters, those while a user does, and the setting that
the server had after `register`.
"""

import sys

from pyspark.sql import SparkSession
from two_queries import ROWS, SETTING, wrong_queries

from statestores.spark import ensure_java, register


def main(path: str) -> None:
    """Start a server, and ask it."""
    ensure_java()
    # Pyspark's stubs have the builder of the classic session only.
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    register(spark)
    setting = spark.conf.get(SETTING)
    rows = spark.createDataFrame(ROWS, "key string, value long").coalesce(1)
    to = rows.write.format("statestore").option("storeName", "s").option("numPartitions", 1)
    to.save(path)
    wrong = wrong_queries(spark.read.format("statestore").load(path))
    spark.conf.set(SETTING, "true")
    wrong_when_offered = wrong_queries(spark.read.format("statestores").load(path))
    print(wrong, wrong_when_offered, setting)  # noqa: T201  # what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
