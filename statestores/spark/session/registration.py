"""Making ``format("statestore")`` work for a session, and undoing it."""

from functools import cache
from threading import Lock
from typing import Any

from statestores.errors import InvalidTypeError
from statestores.spark.session.name_routing import NameRouting, SparkClasses, is_connect
from statestores.spark.session.worker_python import check_worker_python

_lock = Lock()


def register(spark: Any) -> None:
    """Let ``format("statestore")`` of *spark* read and write state roots too, also as streams.

    ``format("statestores")`` needs no call. Spark's own checkpoints are read by Spark's own source
    as before: what lies at the path decides. Calling it again is no error, and other sessions are
    not affected.

    Also makes ``save()`` of either name take the modes ``errorifexists``, which is Spark's
    default, and ``ignore``; and ``readStream`` needs no option ``readChangeFeed``.

    Raises:
        InvalidTypeError: It is no session.
        MissingDriverError: Spark's workers run in another Python, without what is needed.
    """
    with _lock:
        routing = _routing(spark)
        check_worker_python(spark)
        routing.add(spark)


def unregister(spark: Any) -> None:
    """Undo `register`: Spark is as it was. Calling it without `register` is no error.

    Raises:
        InvalidTypeError: It is no session.
    """
    with _lock:
        _routing(spark).remove(spark)


def _routing(spark: Any) -> NameRouting:
    """Return the routing of the flavour of *spark*."""
    if not hasattr(spark, "dataSource"):
        raise InvalidTypeError(
            f"expected a SparkSession, got {spark!r}; build one with SparkSession.builder"
        )
    return _connect_routing() if is_connect(spark) else _classic_routing()


@cache
def _classic_routing() -> NameRouting:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # workers import this package too
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter  # noqa: PLC0415
    from pyspark.sql.streaming.readwriter import (  # noqa: PLC0415
        DataStreamReader,
        DataStreamWriter,
    )

    return NameRouting(
        SparkClasses(
            session=SparkSession,
            reader=DataFrameReader,
            writer=DataFrameWriter,
            stream_reader=DataStreamReader,
            stream_writer=DataStreamWriter,
        )
    )


@cache
def _connect_routing() -> NameRouting:
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter  # noqa: PLC0415
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    from pyspark.sql.connect.streaming.readwriter import (  # noqa: PLC0415
        DataStreamReader,
        DataStreamWriter,
    )

    return NameRouting(
        SparkClasses(
            session=SparkSession,
            reader=DataFrameReader,
            writer=DataFrameWriter,
            stream_reader=DataStreamReader,
            stream_writer=DataStreamWriter,
        )
    )
