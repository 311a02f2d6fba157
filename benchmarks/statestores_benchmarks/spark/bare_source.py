"""A data source in Python that only hands over Arrow batches: the floor under ours.

Spark starts its planner, sends tasks to Python workers and takes Arrow from them; the rows are
ready in advance. No source in Python can be faster.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

_BATCH_ROWS = 65_536
_KEY, _VALUE = b"0" * 16, b"a" * 100


class BareReader(DataSourceReader):
    """Gives each partition its share of the rows, all of them alike."""

    def __init__(self, rows: int, partitions: int) -> None:
        """Read nothing."""
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        left = self._rows * (partition.value + 1) // self._partitions
        left -= self._rows * partition.value // self._partitions
        most = min(left, _BATCH_ROWS)
        columns = [pa.array([each] * most, pa.binary()) for each in (_KEY, _VALUE)]
        fields = [pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        while left:
            part = batch.slice(0, min(left, _BATCH_ROWS))
            left -= part.num_rows
            yield part


class BareSource(DataSource):
    """``format("bare")`` with the options ``rows`` and ``partitions``."""

    @classmethod
    def name(cls) -> str:
        """Return the name in ``format``."""
        return "bare"

    def schema(self) -> str:
        """Return the columns of a store of bytes."""
        return "key binary not null, value binary"

    def reader(self, schema: StructType) -> BareReader:  # Spark names it
        """Return the reader."""
        return BareReader(int(self.options["rows"]), int(self.options["partitions"]))
