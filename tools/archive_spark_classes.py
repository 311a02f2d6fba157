"""Write the archive of Spark's classes with which the sessions of tests start.

``python tools/archive_spark_classes.py ARCHIVE``, the first step of ``make pytest``. Java reads and
checks some 15,000 classes before a session answers its first query: half of the processor time of
one that lives for a few queries. What is in an archive (class data sharing) it need not read again.
Archived are the classes that batches, streams, Python data sources and Python functions load.

The archive is a convenience. Where it cannot be written, or is of another Java or another Spark,
sessions start without it.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from spark_home import spark_home

from statestores.errors import MissingDriverError
from statestores.spark import ensure_java


def main(archive: Path) -> None:
    """Run a session that writes *archive* at its end."""
    unfinished = archive.with_name(f".{archive.name}")
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
    # An archive is of the very paths of its classes: those that tests have.
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -XX:ArchiveClassesAtExit={unfinished}"
    ensure_java()
    with tempfile.TemporaryDirectory() as scratch:
        _use_spark(Path(scratch))
    unfinished.replace(archive)


def _use_spark(scratch: Path) -> None:
    """Do once what sessions of tests do, and wait until Java has ended by itself."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    root, table, copy = (str(scratch / name) for name in ("state", "table", "copy"))
    rows = session.createDataFrame([(b"a", b"1"), (b"b", b"2")], ["key", "value"])
    rows.write.format("statestores").options(storeName="s", numPartitions=2).save(
        root, mode="append"
    )
    read = session.read.format("statestores").load(root)
    twice = udf(lambda value: value + value, "binary")
    read.select("key", twice("value").alias("twice")).join(rows, "key").write.parquet(table)
    session.read.parquet(table).groupBy("key").count().orderBy("key").toPandas()
    changes = session.readStream.format("statestores").option("readChangeFeed", "true").load(root)
    writer = changes.writeStream.format("parquet").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{copy}.checkpoint").start(copy).awaitTermination()
    java = pyspark.SparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001  # nothing public waits for it
    session.stop()
    java.stdin.close()
    java.wait()


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep what Java says on standard error from whoever sets the project up."""
    with tempfile.TemporaryFile() as said:
        standard_error = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


if __name__ == "__main__":
    try:
        with _quietly():
            main(Path(sys.argv[1]).resolve())
    except (MissingDriverError, OSError) as error:
        print(f"setup: no archive of Spark's classes ({error}): its tests start more slowly")
