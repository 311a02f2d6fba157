"""The data source: what Spark asks first, on the driver."""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from statestores.errors import InvalidOptionError
from statestores.spark.kafka_reader import KafkaStateReader, is_kafka_state
from statestores.spark.options import SourceOptions
from statestores.spark.reader import StateStoreReader
from statestores.spark.source_name import SOURCE_NAME
from statestores.spark.state_path import require_local_path
from statestores.spark.writer import StateStoreWriter, plan_write
from statestores.state_root import StateRoot, is_state_root


class StateStoresDataSource(DataSource):
    """State roots, and directories of Kafka Streams to read, as ``format("statestores")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """Return the columns that a load with these options gives."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # needs pyarrow

        schema: StructType = from_arrow_schema(self._reader().arrow_schema())
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and reads; *schema* has to be the store's own."""
        reader = self._reader()
        expected = self.schema()
        if _types_of(schema) != _types_of(expected):
            raise InvalidOptionError(
                f"the columns of this store are {expected.simpleString()}, got "
                f"{schema.simpleString()}; leave schema() out, and choose with the option columns"
            )
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001  # Spark's signature
        """Return what stages and publishes the rows of a DataFrame."""
        options = SourceOptions.for_writing(self.options)
        path = require_local_path(options.path)
        plan = plan_write(path, options, schema)
        return StateStoreWriter(plan, overwrite=overwrite)

    def _reader(self) -> StateStoreReader | KafkaStateReader:
        options = SourceOptions.for_reading(self.options)
        path = require_local_path(options.path)
        if not is_state_root(path) and is_kafka_state(path):
            return KafkaStateReader(path, options)
        entry = StateRoot.open(path).store(options.store_name)
        return StateStoreReader(path, entry.specification, entry.partitions, options)


def _types_of(schema: StructType) -> list[tuple[str, Any]]:
    """Return names and types; whether nulls may be there does not matter."""
    return [(field.name, field.dataType) for field in schema.fields]
