"""Python imports this when it starts: Spark's planners are forked with what they need.

Spark plans a query in Python daemons of its own, one for each thing that it asks a source, which
`spark.python.daemon.module` does not reach. They are empty when they fork: each planner imports
pyarrow, pandas and `statestores` itself, most of a second of the processor. Spark starts another
after each error and each minute of rest. Only the session of the tests has this directory on its
path; the programs that tests start have Spark's own planners.
"""

import sys
from importlib import import_module

if sys.orig_argv[-2:-1] == ["pyspark.daemon"] and sys.orig_argv[-1].startswith("pyspark.sql."):
    import_module(sys.orig_argv[-1])
    import_module("statestores.spark.worker_daemon").import_first()
