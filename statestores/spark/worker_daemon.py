"""PySpark's daemon with our readers and writers imported before it forks its workers.

Spark's own daemon is empty when it forks: each worker imports pyarrow, pandas and `statestores`
itself, which is most of a second of CPU time, and Spark starts a worker anew after each ``take``,
``show`` and ``LIMIT``. With this daemon they are there. It is chosen when the session is built::

    SparkSession.builder.config("spark.python.daemon.module", "statestores.spark.worker_daemon")

Nothing else changes: what a worker runs, and when it ends, is `pyspark.daemon`'s. Spark plans a
query in daemons of its own, which the setting does not reach.
"""

import gc
from importlib import import_module

_MODULES = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "statestores.reading.partition_reader",
    "statestores.spark.source.source",
    "statestores.spark.columns",
    "statestores.spark.stateful_functions.task",
    "statestores.spark.temporal.frame",
)
"""What workers of ours import, by the modules that import the rest; no backend is among them."""


def import_first() -> None:
    """Import what workers need, and tell the collector to leave it alone.

    `pyspark.daemon` collects after each task: it would go through all of it, and copy its pages.
    """
    for name in _MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_first()
    import_module("pyspark.daemon").manager()
