"""The data source with a process that dies while it commits. Sent to Spark's workers by value."""

import os
import signal
from pathlib import Path
from typing import cast

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores import failpoints
from statestores.spark.session.older_pyspark import RowStreamWriter
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.stream_writer import StateStoreStreamWriter

PUBLISHED = "published"
"""The step after all failpoints: the store has the batch, and Spark has not heard of it."""


class DyingWriter(StateStoreStreamWriter):
    """A writer whose commit kills its process, once."""

    failpoint: str
    marker: Path
    victims: list[int]

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  # Spark's name
    ) -> None:
        """Die at the failpoint, or when the batch is published."""
        if self.failpoint != PUBLISHED:
            failpoints.arm(self.failpoint, self._die)
        try:
            super().commit(messages, batchId)
        finally:
            failpoints.disarm()
        if self.failpoint == PUBLISHED:
            self._die()

    def _die(self) -> None:
        if not self.marker.exists():
            self.marker.touch()
            for victim in [*self.victims, os.getpid()]:
                os.kill(victim, signal.SIGKILL)


class DyingSource(StateStoresDataSource):
    """The data source, of which the process that commits kills itself at a named step, once.

    Options: the step is `failpoint`; `marker` is a file that says that it has happened; `victims`
    are processes that are killed first, such as the driver's.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's signature
        """Return the writer, armed."""
        failpoint, marker = self.options.pop("failpoint"), self.options.pop("marker")
        victims = self.options.pop("victims", "")
        writer = super().streamWriter(schema, overwrite)
        armed = writer._writer if isinstance(writer, RowStreamWriter) else writer
        armed.__class__ = DyingWriter
        dying = cast("DyingWriter", armed)  # since the line before
        dying.failpoint, dying.marker = failpoint, Path(marker)
        dying.victims = [int(victim) for victim in victims.split()]
        return writer
