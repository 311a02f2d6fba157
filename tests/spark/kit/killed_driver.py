"""A driver that copies a store as a stream, to be killed while it does.

Run as a program: SOURCE TARGET CHECKPOINT ROWS [FAILPOINT MARKER]. With a failpoint the process
that commits kills the driver there, its Java and itself, if there is no file MARKER yet.
"""

import sys
from typing import Any

import dying_source
from driver_session import processes_of, started
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from store_streams import feed, run


def copy(
    spark: SparkSession, source: str, target: str, checkpoint: str, rows: str, **options: Any
) -> StreamingQuery:
    """Start to copy the changes of *source* into *target*, so many *rows* a micro-batch."""
    return (
        feed(spark, source, maxRecordsPerTrigger=rows)
        .select("key", "value")
        .writeStream.format("dying" if options else "statestores")
        .options(**{"storeName": "s", "numPartitions": 3, **options})
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )


def main(arguments: list[str]) -> None:
    """Copy all that there is, if nothing comes in between."""
    spark = started("local[2]")
    options: dict[str, Any] = {}
    if len(arguments) > 4:
        cloudpickle.register_pickle_by_value(dying_source)  # type: ignore[no-untyped-call]  # Spark's
        spark.dataSource.register(dying_source.DyingSource)
        victims = " ".join(map(str, processes_of(spark)))
        options = {"failpoint": arguments[4], "marker": arguments[5], "victims": victims}
    run(copy(spark, *arguments[:4], **options))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
