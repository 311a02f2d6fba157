"""The session of the calling thread: which one Spark takes it to be, and whose query runs it.

Spark looks for Python sources of a write in the *active* session of the thread. A thread of the
user's has none, and the one in which a query calls `foreachBatch` has a clone of the query's.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from statestores.errors import InvalidArgumentError

QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""What tells the thread of a query which one it is; the id is that of the checkpoint."""


@contextmanager
def active_session(spark: Any) -> Iterator[None]:
    """Make *spark* the active session of this thread within the block, if it has none."""
    sessions = _sessions(spark)
    if sessions.getActiveSession().isDefined():
        yield
        return
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001  # no other way
    try:
        yield
    finally:
        sessions.clearActiveSession()


def query_id(spark: Any) -> str:
    """Return the id of the query within which this is called.

    Raises:
        InvalidArgumentError: It is not called within one.
    """
    query = spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise InvalidArgumentError(
            "a micro-batch is processed by a query: call it from the function given to "
            "writeStream.foreachBatch(...)"
        )
    return str(query)


def is_clone_for_query(spark: Any, owners: Iterable[Any]) -> bool:
    """Return whether *spark* is what a query of one of the sessions *owners* runs this thread in.

    Such a clone has an identity of its own, and Spark does not say which session it is a clone of.
    """
    query = spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        return False
    active = _sessions(spark).getActiveSession()
    if not active.isDefined() or not active.get().equals(spark._jsparkSession):  # noqa: SLF001
        return False
    return any(owner._jsparkSession.streams().get(query) is not None for owner in owners)  # noqa: SLF001


def _sessions(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.classic.SparkSession  # noqa: SLF001
