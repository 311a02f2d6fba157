"""The data source with a process that dies while it commits. Sent to Spark's workers by value."""

import os
import signal
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores.spark.source import StateStoresDataSource


class DyingSource(StateStoresDataSource):
    """The data source, of which the process that commits kills itself at a named step, once.

    Options: the step is `failpoint`, or "published" for after all of them; `marker` is a file that
    says that it has happened; `victims` are processes that are killed first, the driver's perhaps.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's signature
        """Return the writer, its commit armed."""
        failpoint, marker = self.options.pop("failpoint"), self.options.pop("marker")
        victims = [int(each) for each in self.options.pop("victims", "").split()]
        writer: Any = super().streamWriter(schema, overwrite)
        commit = type(writer).commit

        class DyingWriter(type(writer)):  # type: ignore[misc]  # known when it runs
            def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
                from statestores import failpoints  # noqa: PLC0415  # in the process that commits

                def die() -> None:
                    if not os.path.exists(marker):  # noqa: PTH110  # sent to another process
                        open(marker, "w").close()  # noqa: PTH123  # the same
                        for victim in [*victims, os.getpid()]:
                            os.kill(victim, signal.SIGKILL)

                if failpoint == "published":
                    commit(self, messages, batchId)
                    die()
                    return
                failpoints.arm(failpoint, die)
                try:
                    commit(self, messages, batchId)
                finally:
                    failpoints.disarm()

        writer.__class__ = DyingWriter
        return writer  # type: ignore[no-any-return]  # what it was, and dies
