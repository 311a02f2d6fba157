"""What PySpark 4.3 has and 4.0 to 4.2 lack, so that streams work on each of them.

===========================  =====  ==================================================
what                         since  before
===========================  =====  ==================================================
batches to a streaming sink  4.1    rows, which `RowStreamWriter` makes batches of
limits of a micro-batch      4.2    all that there is; an option that limits is refused
===========================  =====  ==================================================
"""

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyspark.sql.datasource
from pyspark import __version__
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_BATCH_ROWS: Final = 10_000
"""How many rows Spark puts into a batch by default, where it does so itself."""

SINKS_TAKE_BATCHES: Final = hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
"""Whether a streaming sink is given Arrow batches: PySpark 4.1 and newer."""

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    SOURCES_TAKE_LIMITS = True
except ModuleNotFoundError as error:
    if error.name != "pyspark.sql.streaming.datasource":
        raise
    SOURCES_TAKE_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """What Spark would say of how much to read."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Everything that there is, which is what older Sparks always mean."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most this many rows."""

    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        """At most this many bytes."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A source that Spark tells when to take its end."""


if SINKS_TAKE_BATCHES:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as DataSourceStreamArrowWriter,
    )

__all__ = [
    "SINKS_TAKE_BATCHES",
    "SOURCES_TAKE_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "RowStreamWriter",
    "SupportsTriggerAvailableNow",
    "refuse_limit",
]


def refuse_limit(option: str) -> None:
    """Refuse *option*, which limits a micro-batch, where Spark has no such limits.

    Raises:
        InvalidOptionError: PySpark is older than 4.2.
    """
    if not SOURCES_TAKE_LIMITS:
        raise InvalidOptionError(
            f"the option {option!r} needs PySpark 4.2 or newer, and this is {__version__}, which "
            "gives each micro-batch all that there is; leave it out, or upgrade"
        )


class RowStreamWriter(DataSourceStreamWriter):
    """Hands the rows that PySpark 4.0 gives to a writer of batches, as batches."""

    def __init__(self, writer: Any, schema: StructType) -> None:
        """Write with *writer* what comes as rows of *schema*."""
        self._writer = writer
        self._schema = schema

    def write(self, iterator: "Iterator[Any]") -> WriterCommitMessage:
        """Stage the rows of one task."""
        message: WriterCommitMessage = self._writer.write(_batches(iterator, self._schema))
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Publish the micro-batch."""
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Remove what was staged for it."""
        self._writer.abort(messages, batchId)


def _batches(rows: "Iterator[Any]", schema: StructType) -> "Iterator[pa.RecordBatch]":
    """Yield *rows* as batches, by reversing how Spark made them rows."""
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415  # needs pyarrow

    while chunk := list(islice(rows, _BATCH_ROWS)):
        table = LocalDataToArrowConversion.convert(chunk, schema, use_large_var_types=False)
        yield from table.to_batches()
