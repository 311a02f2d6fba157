"""What fills the topics of a topology on Spark: streaming DataFrames, and where to get them.

Whatever a source is, its rows become records in the bytes of their topic, before they are sent to
the partitions that their keys say.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructType, TimestampNTZType, TimestampType

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingDriverError,
    SerializationError,
)
from statestores.processing.serdes import header_bytes
from statestores.processing.topic import Topic
from statestores.spark.columns import json_text
from statestores.spark.source_name import SOURCE_NAME
from statestores.spark.stateful_functions.output import declared_schema
from statestores.spark.topology.record_columns import EMITTED_ROWS, RECORD_DDL
from statestores.spi import Serde

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USED = ("key", "value", "timestamp", "headers")
_OF_KAFKA = frozenset({"topic", "partition", "offset", "timestampType"})
"""What Spark's Kafka source gives besides, which is passed over."""


class StreamSource(ABC):
    """Describes a streaming DataFrame; nothing is opened."""

    @abstractmethod
    def frame(self, spark: "SparkSession", topic: Topic[Any, Any]) -> "DataFrame":
        """Return the DataFrame that fills *topic*.

        It has a column ``value``, and as far as there are such ``key``, ``timestamp``, ``headers``.

        Raises:
            StateStoreError: It cannot be read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(StreamSource):
    """Files that appear in a directory, as Spark reads them."""

    path: str | PathLike[str]
    """The directory, or whatever else Spark takes."""

    schema: "StructType | str"
    """Their columns, as a schema or DDL."""

    format: str = "json"
    """Their format: ``json``, ``parquet``, ``csv`` or another one of Spark's."""

    key: str | None = None
    """The column of the key, with dots for fields in fields, or an expression of SQL; ``None``:
    records have no key."""

    value: str | None = None
    """That of the value; ``None``: all columns, as a struct."""

    time: str | None = None
    """That of the time, a timestamp or milliseconds; ``None``: that of the micro-batch."""

    options: Mapping[str, str | int] = field(default_factory=dict)
    """Those of Spark's source, such as ``maxFilesPerTrigger``."""

    def frame(self, spark: "SparkSession", topic: Topic[Any, Any]) -> "DataFrame":
        """Return the rows of the files as records of *topic*."""
        reader = spark.readStream.format(self.format).schema(self.schema).options(**self.options)
        found = reader.load(fspath(self.path))
        value = f.struct("*") if self.value is None else f.expr(self.value)
        columns = [value.alias("value")]
        if self.key is not None:
            columns.append(f.expr(self.key).alias("key"))
        if self.time is not None:
            columns.append(f.expr(self.time).alias("timestamp"))
        return found.select(*columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic(StreamSource):
    """A topic of a Kafka cluster, read by Spark's Kafka source, which has to be installed."""

    bootstrap_servers: str
    """The brokers, as ``host:port``, with commas."""

    topic: str | None = None
    """Its name on the cluster; ``None``: that of the topology."""

    options: Mapping[str, str | int] = field(default_factory=dict, repr=False)
    """Those of Spark's source; ``startingOffsets`` is ``earliest`` unless they say otherwise."""

    def frame(self, spark: "SparkSession", topic: Topic[Any, Any]) -> "DataFrame":
        """Return the records, headers included.

        Raises:
            MissingDriverError: Spark has no Kafka source.
        """
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.topic or topic.name,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            **self.options,
        }
        try:
            return spark.readStream.format("kafka").options(**options).load()
        except AnalysisException as error:
            if "Kafka Integration" in str(error):  # the guide that Spark names then
                raise MissingDriverError(
                    "Spark has no source 'kafka': start the session with the package "
                    "org.apache.spark:spark-sql-kafka-0-10 of Spark's own version, in "
                    f"spark.jars.packages ({error})"
                ) from error
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFeed(StreamSource):
    """The changes of a store, a record each: a deletion has no value."""

    root: str | PathLike[str]
    """The state root, or its URL in an object store."""

    store: str | None = None
    """The store; not needed where the state root has only one."""

    options: Mapping[str, str | int] = field(default_factory=dict, repr=False)
    """Those of the data source for streams, such as ``maxRecordsPerTrigger``."""

    def frame(self, spark: "SparkSession", topic: Topic[Any, Any]) -> "DataFrame":
        """Return the changes, each at its time, or at that of its commit.

        One that removes everything has no key, and fails the query.
        """
        reader = spark.readStream.format(SOURCE_NAME).options(
            readChangeFeed="true", commitColumns="true"
        )
        if self.store is not None:
            reader = reader.option("storeName", self.store)
        found = reader.options(**self.options).load(fspath(self.root))
        refused = f.raise_error(
            f.lit(
                f"the store that fills {topic.name!r} was overwritten: the feed says so with a "
                "change that has no key, and a topic has no record for that; begin with a new "
                "state, or let the store be changed key by key"
            )
        ).cast(found.schema["key"].dataType)
        key = f.when(f.col("operation") == "clear", refused).otherwise(f.col("key"))
        committed = f.col("_commit_timestamp")
        time = f.coalesce("timestamp", committed) if "timestamp" in found.columns else committed
        return found.select(key.alias("key"), "value", time.alias("timestamp"))


Source: TypeAlias = "StreamSource | DataFrame"
"""What fills a topic: a description, or any streaming DataFrame with the columns of a record."""


def records(frame: "DataFrame", topic: Topic[Any, Any]) -> "DataFrame":
    """Return the rows of *frame* as records of *topic*, with the columns `RECORD_DDL`.

    Columns of the type of the topic's serdes are encoded by them; for JSON, structs and the like
    are turned into it. Binary columns are taken as the topic's bytes.

    Raises:
        InvalidTypeError: It is no stream, or a column is of another type.
        InvalidArgumentError: A column is missing or unknown.
    """
    if not frame.isStreaming:
        raise InvalidTypeError(
            f"the source of {topic.name!r} is no stream: read it with readStream, or write it to "
            "a table or to files that a stream reads"
        )
    names = set(frame.columns)
    if "value" not in names:
        raise InvalidArgumentError(
            f"the source of {topic.name!r} has no column 'value'; it has: "
            f"{', '.join(frame.columns)}"
        )
    if unknown := sorted(names - {*_USED} - _OF_KAFKA):
        raise InvalidArgumentError(
            f"the source of {topic.name!r} has the column {unknown[0]!r}, and a record has key, "
            "value, timestamp and headers; put several columns into the value with struct(...)"
        )
    columns = [column for column in _USED if column in names]
    chosen = frame.select(
        *(_milliseconds(frame, topic) if name == "timestamp" else f.col(name) for name in columns)
    )
    if "timestamp" not in names:
        chosen = chosen.withColumn("timestamp", f.unix_millis(f.current_timestamp()))
    encoder = RecordEncoder(topic)
    encoder.check(declared_schema(chosen.schema))
    return chosen.mapInArrow(encoder.rows, RECORD_DDL)


def _milliseconds(frame: "DataFrame", topic: Topic[Any, Any]) -> "Column":
    kind = frame.schema["timestamp"].dataType
    if isinstance(kind, TimestampType):
        return f.unix_millis("timestamp").alias("timestamp")
    if isinstance(kind, TimestampNTZType):
        return f.unix_millis(f.col("timestamp").cast("timestamp")).alias("timestamp")
    if isinstance(kind, LongType):
        return f.col("timestamp")
    raise InvalidTypeError(
        f"the column 'timestamp' of the source of {topic.name!r} is {kind.simpleString()}; it must "
        "be a timestamp, or milliseconds as a bigint"
    )


@dataclass(frozen=True)
class RecordEncoder:
    """Turns columns into records of one topic. Made to be sent to tasks."""

    topic: Topic[Any, Any]
    """The topic."""

    def check(self, schema: pa.Schema) -> None:
        """Accept columns that can become records.

        Raises:
            InvalidTypeError: One cannot; the message names it and both types.
        """
        empty = schema.empty_table()
        for name, serde in (("key", self.topic.key), ("value", self.topic.value)):
            if name in schema.names:
                try:
                    _encoded(empty[name].combine_chunks(), serde)
                except (SerializationError, CapabilityNotSupportedError) as error:
                    raise InvalidTypeError(
                        f"the column {name!r} of the source of {self.topic.name!r} is "
                        f"{schema.field(name).type}, and the topic's serde is {serde.name!r}: "
                        f"{error}"
                    ) from error

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield *batches* as `EMITTED_ROWS`.

        Raises:
            SerializationError: A key or value is not what the serdes write.
            InvalidArgumentError: A row has no time.
        """
        for batch in batches:
            count = batch.num_rows
            if batch.column("timestamp").null_count:
                raise InvalidArgumentError(
                    f"the source of {self.topic.name!r} has a null in 'timestamp'; fill it, or "
                    "leave such rows out"
                )
            columns = {
                "key": pa.nulls(count, pa.binary()),
                "headers": pa.nulls(count, pa.binary()),
                **{name: batch.column(name) for name in batch.schema.names},
            }
            yield pa.RecordBatch.from_arrays(
                [
                    pa.repeat(pa.scalar(self.topic.name, pa.string()), count),
                    _encoded(columns["key"], self.topic.key),
                    _encoded(columns["value"], self.topic.value),
                    columns["timestamp"],
                    _packed(columns["headers"]),
                ],
                schema=EMITTED_ROWS,
            )


def _encoded(column: pa.Array, serde: Serde[Any]) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if serde.name == "json" and pa.types.is_nested(kind):
        column = json_text(column, serde)
    return serde.encode_array(column)


def _packed(column: pa.Array) -> pa.Array:
    """Return headers, lists of names and bytes as Kafka's source has them, as a topic has them."""
    if pa.types.is_binary(column.type) or column.null_count == len(column):
        return (
            column.cast(pa.binary())
            if pa.types.is_binary(column.type)
            else pa.nulls(len(column), pa.binary())
        )
    return pa.array(
        [
            header_bytes(tuple((each["key"], each["value"] or b"") for each in row))
            if row
            else None
            for row in column.to_pylist()
        ],
        pa.binary(),
    )
