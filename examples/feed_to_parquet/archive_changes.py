"""Every change of a store as Parquet, while the store is in use; for audit or a warehouse.

    python examples/feed_to_parquet/archive_changes.py

The stream reads changelogs and takes no lock, so the application keeps writing. Each run archives
what is new since the last one: the checkpoint knows the offsets. Folding the archive gives the
store's content again, which is checked.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import statestores as ss
from statestores.spark import ensure_java

STOCK = ss.KeyValue("stock", key=ss.utf8, value=ss.int64)


def archive(spark: SparkSession, directory: Path) -> DataFrame:
    """Append the changes that are new to the archive, and return the archive."""
    query = (
        spark.readStream.format("statestores")
        .option("readChangeFeed", "true")
        .load(str(directory / "state"))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "archive"))
    )
    query.awaitTermination()
    return spark.read.parquet(str(directory / "archive"))


def folded(archived: DataFrame) -> DataFrame:
    """Return the content that the changes lead to: of each key the last one, unless it deletes.

    A clear, which an overwrite by Spark writes, drops all that its partition had before it.
    """
    cleared = "max(if(operation = 'clear', offset, -1)) OVER (PARTITION BY partition) AS cleared"
    kept = archived.selectExpr("*", cleared).where("offset > cleared")
    changes = kept.selectExpr("key", "struct(offset, operation, value) AS change")
    last = changes.groupBy("key").agg({"change": "max"}).toDF("key", "last")
    return last.where("last.operation = 'put'").selectExpr("key", "last.value")


def main(spark: SparkSession, directory: Path) -> None:
    """Archive twice, with a store that is open for writing all the time."""
    root = ss.StateRoot.create(directory / "state")
    root.add_store(STOCK, partitions=1)
    with ss.open_logged_store(root, "stock", backend="rocksdb") as stock:
        for item, count in (("apples", 10), ("pears", 4), ("plums", 7)):
            stock.store.put(item, count)
        stock.commit()
        print("changes archived:", archive(spark, directory).count())
        stock.store.put("apples", 9)
        stock.store.delete("pears")
        stock.commit()
        archived = archive(spark, directory)
        print("changes archived:", archived.count())
        archived.orderBy("offset").select("offset", "operation", "key", "value").show()
        content = dict(stock.store.range())
    print("the archive leads to", dict(sorted(map(tuple, folded(archived).collect()))))
    print("the store has       ", content)


if __name__ == "__main__":
    ensure_java()
    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(temporary))
    session.stop()
