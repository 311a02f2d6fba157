"""What a topology has written to a topic, as the DataFrame that a sink is given."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from statestores.errors import CapabilityNotSupportedError
from statestores.processing.record_rows import headers_of
from statestores.processing.topic import Topic
from statestores.serdes.windowed_serde import WindowedSerde
from statestores.spi import Serde

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_TIME = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class RecordDecoder:
    """Turns records of one topic into columns. Made to be sent to tasks."""

    topic: Topic[Any, Any]
    """The topic."""

    @property
    def schema(self) -> pa.Schema:
        """The columns: those of Spark's Kafka source, with key and value as the serdes say.

        A windowed key is a struct of the key and the window; what has no type of a column is
        bytes.
        """
        return pa.schema(
            [
                ("key", _kind_of(self.topic.key)),
                ("value", _kind_of(self.topic.value)),
                ("timestamp", _TIME),
                ("headers", _HEADERS),
            ]
        )

    def frame(self, emitted: "DataFrame") -> "DataFrame":
        """Return the records *emitted*, all of the topic, as columns."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # see the package

        columns: StructType = from_arrow_schema(
            self.schema,
            prefer_timestamp_ntz=True,  # the default since 4.3
        )
        return emitted.mapInArrow(self.rows, columns)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield *batches* of records as columns.

        Raises:
            SerializationError: A key or value is not what the serdes read.
        """
        schema = self.schema
        for batch in batches:
            headers = [
                [{"key": name, "value": data} for name, data in each] or None
                for each in headers_of(batch.column("headers"), batch.num_rows)
            ]
            times = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(_TIME)
            yield pa.RecordBatch.from_arrays(
                [
                    _decoded(batch.column("key"), self.topic.key),
                    _decoded(batch.column("value"), self.topic.value),
                    times,
                    pa.array(headers, _HEADERS),
                ],
                schema=schema,
            )


def _kind_of(serde: Serde[Any]) -> pa.DataType:
    if isinstance(serde, WindowedSerde):
        window = [("start_ms", pa.int64()), ("end_ms", pa.int64())]
        return pa.struct([("key", _kind_of(serde.inner)), *window])
    try:
        kind: pa.DataType = serde.arrow_type()
    except CapabilityNotSupportedError:
        return pa.binary()
    return kind


def _decoded(column: pa.Array, serde: Serde[Any]) -> pa.Array:
    kind = _kind_of(serde)
    if isinstance(serde, WindowedSerde):
        keys = [None if data is None else serde.decode(data) for data in column.to_pylist()]
        rows = [
            None if each is None else {"key": key, "start_ms": each.start_ms, "end_ms": each.end_ms}
            for each, key in zip(
                keys,
                _decoded(
                    pa.array(
                        [None if data is None else data[:-16] for data in column.to_pylist()],
                        pa.binary(),
                    ),
                    serde.inner,
                ).to_pylist(),
                strict=True,
            )
        ]
        return pa.array(rows, kind)
    return column if kind == pa.binary() else serde.decode_array(column)
