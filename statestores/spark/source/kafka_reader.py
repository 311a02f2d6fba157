"""Batch reads of the state directory that a Kafka Streams application has left behind.

Nothing is written, and no Java reads it: each task opens the databases of one partition itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from statestores.errors import InvalidOptionError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.serdes.serde_registry import serde_by_name
from statestores.spark.options.keys import selection_from_options
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spi.serde import Serde

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from statestores.migration import KafkaKind


@dataclass(frozen=True)
class KafkaPartition(InputPartition):
    """What one task reads."""

    number: int
    """The partition of the store."""


class KafkaStateReader(DataSourceReader):
    """Reads one store of a stopped application."""

    def __init__(self, path: Path, options: SourceOptions) -> None:
        """Find the store, and its kind.

        Raises:
            InvalidOptionError: An option has no meaning for Kafka's files, or they do not tell
                what an option would.
            StoreLockedError: The application is running.
            StateStoreError: The directory cannot be read.
        """
        from statestores.migration import KafkaKind, KafkaStateDirectory  # noqa: PLC0415  # needs pyarrow

        _check_options(options)
        self._path = path
        self._options = options
        with KafkaStateDirectory(path) as state:
            name = options.store_name
            if name is None:
                if len(state.names) != 1:
                    raise InvalidOptionError(
                        f"{str(path)!r} has {len(state.names)} stores of Kafka Streams "
                        f"({', '.join(sorted(state.names))}); name one with the option 'storeName'"
                    )
                (name,) = state.names
            found = state.store(name)
            kind = None if options.kafka_kind is None else KafkaKind(options.kafka_kind)
            if kind is None and found.kind is None:
                kinds = ", ".join(sorted(each.value for each in found.kinds)) or "none known"
                raise InvalidOptionError(
                    f"the bytes of the store {name!r} do not tell its kind, which can be: {kinds}; "
                    "say it with the option 'kafkaKind'"
                )
            self._kind = state.kind_of(name, kind).value
        self._store = name
        for number in options.partitions or ():
            if number not in found.partitions:
                raise InvalidOptionError(
                    f"the option 'partitions' names {number}, and the store {name!r} has here "
                    f"the partitions {', '.join(map(str, found.partitions))}"
                )
        self._numbers = options.partitions or found.partitions
        is_versioned = self._kind == KafkaKind.VERSIONED.value
        if options.history and not is_versioned:
            raise InvalidOptionError(
                f"the option 'history' is for versioned stores, and {name!r} is a {self._kind} "
                "store of Kafka Streams"
            )
        self._latest_only = is_versioned and not options.history
        selection_from_options(options, self._serdes()["key"])

    def arrow_schema(self) -> "pa.Schema":
        """Return the schema of the batches that `read` gives."""
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often

        from statestores.migration import ROW_SCHEMAS  # noqa: PLC0415  # needs pyarrow
        from statestores.spark.columns import spark_schema  # noqa: PLC0415  # needs pyarrow

        rows = ROW_SCHEMAS[self._kafka_kind()]
        names = self._options.columns or tuple(rows.names)
        if unknown := [name for name in names if name not in rows.names]:
            raise InvalidOptionError(
                f"the option 'columns' names {unknown[0]!r}; the columns are: "
                f"{', '.join(rows.names)}"
            )
        fields = [rows.field(name) for name in names]
        for name, serde in self._serdes().items():
            if name in names:
                place = names.index(name)
                fields[place] = fields[place].with_type(serde_or_raw(serde).arrow_type())
        return spark_schema(pa.schema(fields), raw=self._options.raw)

    def partitions(self) -> list[InputPartition]:
        """Return a task for each partition that lies there."""
        return [KafkaPartition(number) for number in self._numbers]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition, in the order of the files."""
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often

        from statestores.migration import KafkaStateDirectory  # noqa: PLC0415  # needs pyarrow
        from statestores.spark.columns import to_spark  # noqa: PLC0415  # needs pyarrow

        assert isinstance(partition, KafkaPartition)  # noqa: S101  # what `partitions` planned
        schema = self.arrow_schema()
        serdes = self._serdes()
        keys = selection_from_options(self._options, serdes["key"])
        with KafkaStateDirectory(self._path) as state:
            for batch in state.read(self._store, partition.number, kind=self._kafka_kind()):
                rows = batch if keys is None else keys.filter(batch)
                if "valid_to" in rows.schema.names:
                    rows = rows.filter(rows.column("value").is_valid())
                    if self._latest_only:
                        rows = rows.filter(rows.column("valid_to").is_null())
                columns = [
                    serde_or_raw(serdes[name]).decode_array(rows.column(name))
                    if name in serdes
                    else rows.column(name)
                    for name in schema.names
                ]
                yield to_spark(pa.RecordBatch.from_arrays(columns, names=schema.names), schema)

    def _kafka_kind(self) -> "KafkaKind":
        from statestores.migration import KafkaKind  # noqa: PLC0415  # needs pyarrow

        return KafkaKind(self._kind)

    def _serdes(self) -> dict[str, Serde[Any] | None]:
        """Return what reads keys and values; Kafka's files do not say it."""
        named = {"key": self._options.key_serde, "value": self._options.value_serde}
        return {
            column: None if name is None or self._options.raw else serde_by_name(name)
            for column, name in named.items()
        }


def _check_options(options: SourceOptions) -> None:
    """Refuse what Kafka's files cannot answer."""
    if options.as_of_ms is not None:
        raise InvalidOptionError(
            "the option 'asOf' is for state roots: the files of Kafka Streams do not say how far "
            "back a history goes; read with history=true and filter by valid_from and valid_to"
        )
    if options.metadata is not None:
        raise InvalidOptionError(
            "the option 'metadata' is for state roots; a state directory of Kafka Streams says of "
            "itself only what its rows are"
        )
    if options.read_change_feed or options.offset is not None:
        raise InvalidOptionError(
            "the options 'readChangeFeed' and 'offset' are for state roots: a state directory of "
            "Kafka Streams has rows, and its changelog is a topic of the broker"
        )
    if foreign := [name for name in options.content_only if name != "history"]:
        raise InvalidOptionError(
            f"the option {foreign[0]!r} is for state roots, and this is a state directory of Kafka "
            "Streams; leave it out"
        )
