"""The data source: what Spark asks first, on the driver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from statestores.errors import InvalidOptionError
from statestores.spark.given_root import GivenRoot, store_at
from statestores.spark.options.foreign_names import without_catalog_properties
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.options.stream import (
    StreamOptions,
    without_sparks_options,
    without_stream_options,
)
from statestores.spark.source.kafka_reader import KafkaStateReader
from statestores.spark.source.metadata_reader import MetadataReader
from statestores.spark.source.reader import StateStoreReader
from statestores.spark.source.write_by_snapshot import by_snapshot
from statestores.spark.source.write_conflicts import expected_ends
from statestores.spark.source.write_plan import plan_write
from statestores.spark.source.writer import StateStoreWriter
from statestores.spark.source_name import SOURCE_NAME
from statestores.spark.state_path import is_kafka_state
from statestores.state_root import is_state_root


class StateStoresDataSource(DataSource):
    """State roots, and directories of Kafka Streams to read, as ``format("statestores")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """Return the columns that a load with these options gives."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # needs pyarrow

        schema: StructType = from_arrow_schema(
            # Spark does not say whether it is for a stream.
            self._reader(
                without_stream_options(without_catalog_properties(self.options))
            ).arrow_schema(),
            prefer_timestamp_ntz=True,  # the default since 4.3
        )
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and reads; *schema* must be the store's own."""
        reader = self._reader(self.options)
        self._check_schema(schema)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return what plans and reads the changes as they come."""
        from statestores.spark.source.stream_reader import StateStoreStreamReader  # noqa: PLC0415

        options = SourceOptions.for_reading(without_stream_options(self.options))
        root = GivenRoot.of(options.path, options.storage)
        entry = store_at(root, options.store_name)
        stream = StreamOptions.from_options(self.options)
        reader = StateStoreStreamReader(
            root, entry.specification, entry.partitions, options, stream
        )
        self._check_schema(schema)
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802  # Spark's signature
        """Return what stages and publishes each micro-batch of a streaming DataFrame."""
        from statestores.spark.source.stream_writer import stream_writer  # noqa: PLC0415

        options = SourceOptions.for_writing(without_sparks_options(self.options))
        if batch_only := sorted(
            options.given & {"expectedOffset", "ifExists", "onConflict", "snapshot"}
        ):
            instead = "give snapshotInterval" if "snapshot" in batch_only else "leave it out"
            raise InvalidOptionError(f"the option {batch_only[0]!r} is not for streams; {instead}")
        plan = plan_write(GivenRoot.of(options.path, options.storage), options, schema)
        return stream_writer(plan, schema, overwrite=overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001  # Spark's signature
        """Return what stages and publishes the rows of a DataFrame."""
        options = SourceOptions.for_writing(self.options)
        root = GivenRoot.of(options.path, options.storage)
        if options.snapshot_interval is not None:
            raise InvalidOptionError(
                "the option 'snapshotInterval' is for streams; give snapshot=auto or always"
            )
        plan = plan_write(root, options, schema)
        plan = replace(plan, by_snapshot=by_snapshot(plan, options, overwrite=overwrite))
        ends = (
            {}
            if plan.skipped
            else expected_ends(root, plan.specification.name, plan.partitions, options)
        )
        return StateStoreWriter(plan, overwrite=overwrite, expected_ends=ends)

    def _check_schema(self, schema: StructType) -> None:
        """Accept the columns that Spark expects, if they are the store's own.

        Raises:
            InvalidOptionError: One is not; the message names it, and both types.
        """
        expected = self.schema()
        theirs, ours = _types_of(schema), _types_of(expected)
        if theirs == ours:
            return
        wrong = f"there are {len(theirs)} columns, and the store has {len(ours)}"
        for (name, kind), (own, own_kind) in zip(theirs, ours, strict=False):
            if (name, kind) != (own, own_kind):
                wrong = (
                    f"the column {name!r} of schema() is {kind.simpleString()}, where the store "
                    f"has {own!r} of the type {own_kind.simpleString()}"
                )
                break
        raise InvalidOptionError(
            f"{wrong}; leave schema() out, and choose columns with the option 'columns': the store "
            f"has {expected.simpleString()}"
        )

    def _reader(
        self, given: Mapping[str, str]
    ) -> StateStoreReader | KafkaStateReader | MetadataReader:
        options = SourceOptions.for_reading(given)
        root = GivenRoot.of(options.path, options.storage)
        path = root.directory
        if path is not None and not is_state_root(path) and is_kafka_state(path):
            return KafkaStateReader(path, options)
        if options.metadata is not None:
            return MetadataReader(root, options.metadata, options)
        entry = store_at(root, options.store_name)
        return StateStoreReader(
            root, entry.specification, entry.partitions, options, placement=entry.placement
        )


def _types_of(schema: StructType) -> list[tuple[str, Any]]:
    """Return names and types; whether nulls may be there does not matter."""
    return [(field.name, field.dataType) for field in schema.fields]
