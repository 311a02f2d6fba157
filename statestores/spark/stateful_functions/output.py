"""What a stateful function has emitted: checked, kept in files, and read from them.

The files of a micro-batch are named by the moment that commits its state. So a micro-batch that
comes again gives the same rows, whatever the function would give today.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from statestores.arrow.file_access import checksum_of, reporting
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.durable_directory import make_directory, make_durable
from statestores.spark.stateful_functions.output_place import OutputPlace
from statestores.spark.stateful_functions.plan import CHANNEL_COLUMN
from statestores.staging.staged_rows import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")
_ROWS = 10_000
"""Rows as dictionaries that become a batch together."""

_PAIR = 2

_OBJECT_BYTES = 32 * 1024 * 1024
"""Bytes of rows, before they are compressed, that are put as one object."""


def declared_schema(columns: "StructType") -> pa.Schema:
    """Return *columns* as Arrow has them, nulls allowed where Spark allows them."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # see the package

    # An older PySpark knows no other zone, and does not ask.
    knows_zones = "timezone" in signature(to_arrow_schema).parameters
    options: dict[str, Any] = {"timezone": "UTC"} if knows_zones else {}
    schema: pa.Schema = to_arrow_schema(columns, **options)
    return schema


def checked_batches(emitted: object, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches and tables that a function has *emitted*, with exactly *schema*.

    ``None`` instead of an iterable means nothing. Columns may come in any order, and in any of the
    layouts that Arrow has for a type of Spark's.

    Raises:
        InvalidTypeError: Something is no batch, or a column of another type: the message names it
            and both types.
        InvalidArgumentError: A column is missing or unknown, or has a null that is not allowed.
    """
    if emitted is None:
        return
    if isinstance(emitted, pa.RecordBatch | pa.Table):
        emitted = (emitted,)
    if not isinstance(emitted, Iterable):
        raise InvalidTypeError(
            f"the function must return batches, tables or None, got {emitted!r}; yield them"
        )
    for each in emitted:
        if isinstance(each, pa.RecordBatch):
            yield _checked(each, schema)
        elif isinstance(each, pa.Table):
            for batch in each.combine_chunks().to_batches():
                yield _checked(batch, schema)
        else:
            raise InvalidTypeError(
                "the function must emit pyarrow.RecordBatch or pyarrow.Table, got "
                f"{type(each).__name__}"
            )


def batches_of_rows(emitted: object, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the dictionaries that a function has *emitted* as batches with *schema*.

    Raises:
        InvalidTypeError: Something is no dictionary, or a value is not of its column's type; times
            without a zone are none of a timestamp, nor are those with one of a timestamp_ntz.
        InvalidArgumentError: A column is unknown.
    """
    if emitted is None:
        return
    if not isinstance(emitted, Iterable):
        raise InvalidTypeError(
            f"the function must return dictionaries or None, got {emitted!r}; yield them"
        )
    known = set(schema.names)
    waiting: list[dict[str, Any]] = []
    for row in emitted:
        if not isinstance(row, dict):
            raise InvalidTypeError(
                f"the function must emit dictionaries of columns, got {row!r}; for batches leave "
                'by="rows" out'
            )
        if not row.keys() <= known:
            raise _unknown(min(row.keys() - known), schema)
        waiting.append(row)
        if len(waiting) == _ROWS:
            yield _from_rows(waiting, schema)
            waiting = []
    if waiting:
        yield _from_rows(waiting, schema)


def write_outputs(
    place: OutputPlace,
    attempt: str,
    partition: int,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    channels: Sequence[str] = (),
) -> tuple[StagedFile, ...]:
    """Write *batches* into new files, durably: at least one for each of the *channels* with rows.

    Their names begin with *attempt*, and `channel_of` says which channel a file is of. In a
    directory there is one for each, or one in all without channels; objects are small enough to be
    put at once.

    Raises:
        StorageError: A file cannot be written.
    """
    named = _by_channel(batches, channels)
    directory = place.directory
    if directory is None:
        return _put_outputs(place, attempt, partition, named, schema)
    return _write_files(directory, attempt, partition, named, schema)


def _by_channel(
    batches: Iterable[pa.RecordBatch], channels: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield *batches* that have rows, each with what ends the name of its file."""
    for batch in batches:
        if batch.num_rows:
            channel = batch.column(CHANNEL_COLUMN)[0].as_py() if channels else None
            yield "" if channel is None else f"-{channels.index(channel):03d}", batch


def _write_files(
    directory: Path,
    attempt: str,
    partition: int,
    batches: Iterable[tuple[str, pa.RecordBatch]],
    schema: pa.Schema,
) -> tuple[StagedFile, ...]:
    make_directory(directory)
    rows: dict[str, int] = {}
    with ExitStack() as stack, reporting("write into", directory):
        writers: dict[str, pa.RecordBatchWriter] = {}
        for channel, batch in batches:
            name = f"{attempt}{channel}.arrow"
            if name not in writers:
                file = stack.enter_context(pa.OSFile(str(directory / name), "wb"))
                made = pa.ipc.new_file(file, schema, options=_COMPRESSION)
                writers[name], rows[name] = stack.enter_context(made), 0
            writers[name].write_batch(batch)
            rows[name] += batch.num_rows
    if not rows:
        return ()
    with reporting("write into", directory):
        for name in rows:
            make_durable(directory / name)
        make_durable(directory)
        return tuple(
            StagedFile(
                name=name,
                partition=partition,
                rows=count,
                bytes=(directory / name).stat().st_size,
                crc32c=checksum_of(directory / name),
            )
            for name, count in rows.items()
        )


def _put_outputs(
    place: OutputPlace,
    attempt: str,
    partition: int,
    batches: Iterable[tuple[str, pa.RecordBatch]],
    schema: pa.Schema,
) -> tuple[StagedFile, ...]:
    """Put *batches* as objects, of each channel in their order."""
    put: list[StagedFile] = []
    waiting: dict[str, list[pa.RecordBatch]] = {}

    def put_waiting(channel: str) -> None:
        rows = waiting.pop(channel)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema, options=_COMPRESSION) as writer:
            for batch in rows:
                writer.write_batch(batch)
        name = f"{attempt}-{len(put):04d}{channel}.arrow"
        count = sum(batch.num_rows for batch in rows)
        data = sink.getvalue().to_pybytes()
        put.append(place.put(name, data, partition=partition, rows=count))

    for channel, batch in batches:
        waiting.setdefault(channel, []).append(batch)
        if sum(each.nbytes for each in waiting[channel]) >= _OBJECT_BYTES:
            put_waiting(channel)
    for channel in list(waiting):
        put_waiting(channel)
    return tuple(put)


def channel_of(file: StagedFile, channels: Sequence[str]) -> str:
    """Return which of the *channels* a file of `write_outputs` is of."""
    return channels[int(file.name.removesuffix(".arrow").rpartition("-")[2])]


def emitted_frame(
    spark: "SparkSession", place: OutputPlace, files: Sequence[StagedFile], columns: "StructType"
) -> "DataFrame":
    """Return the rows in *files* as a DataFrame, a task for each file."""
    if not files:
        return spark.createDataFrame([], columns)
    each = list(files)

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from emitted_rows(place, each[number])

    numbers = spark.range(0, len(each), 1, len(each))
    return numbers.mapInArrow(read, columns)


def emitted_rows(place: OutputPlace, file: StagedFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file.

    Raises:
        StoreNotFoundError, StoreCorruptedError, StorageError: It is not what it was.
    """
    with place.opened(file) as rows:
        for number in range(rows.num_record_batches):
            yield rows.get_batch(number)


def _checked(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return *batch* with exactly *schema*."""
    names = batch.schema.names
    for name in names:
        if name not in schema.names:
            raise _unknown(name, schema)
    columns = []
    for field in schema:
        if names.count(field.name) != 1:
            raise InvalidArgumentError(
                f"the function has emitted the column {field.name!r} {names.count(field.name)} "
                f"times, and output_schema has it once; emitted: {', '.join(names)}"
            )
        columns.append(_as_declared(batch.column(field.name), field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_declared(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return *column* with the type of *field*, if it is that one to Spark.

    Raises:
        InvalidTypeError: It is another one.
        InvalidArgumentError: It has a null, and the field allows none.
    """
    if column.null_count and not field.nullable:
        raise InvalidArgumentError(
            f"the function has emitted a null in the column {field.name!r}, which output_schema "
            "declares as NOT NULL"
        )
    if column.type == field.type:
        return column
    try:
        if _spark_type(column.type) == _spark_type(field.type):
            return column.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidTypeError(
            f"the column {field.name!r} of {column.type} does not fit into {field.type}: {error}"
        ) from error
    raise InvalidTypeError(
        f"the function has emitted the column {field.name!r} as {column.type}, and output_schema "
        f"declares {_spark_type(field.type)}, which is {field.type}; cast it"
    )


def _spark_type(kind: pa.DataType) -> str | None:
    """Return the name of Spark's type for *kind*; ``None`` if there is none."""
    from pyspark.errors import PySparkTypeError  # noqa: PLC0415  # see the package
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    try:
        return str(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())
    except PySparkTypeError:
        return None


def _from_rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        _refuse_zones(values, field.type, field.name)
        try:
            column = pa.array(values, field.type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InvalidTypeError(
                f"the function has emitted a value in the column {field.name!r} that is no "
                f"{field.type}: {error}"
            ) from error
        columns.append(_as_declared(column, field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _refuse_zones(values: Iterable[Any], kind: pa.DataType, column: str) -> None:
    """Accept *values* for *kind* with no time whose zone Arrow would make up, or leave out.

    What is no such value at all, Arrow says.

    Raises:
        InvalidTypeError: There is one.
    """
    if pa.types.is_timestamp(kind):
        has_zone = kind.tz is not None
        for value in values:
            if isinstance(value, datetime) and (value.utcoffset() is not None) != has_zone:
                raise InvalidTypeError(
                    f"the function has emitted {value!r} in the column {column!r}, where "
                    + (
                        "timestamps are instants: say its zone, as replace(tzinfo=UTC) does"
                        if has_zone
                        else "a timestamp_ntz has no zone: leave it out, as replace(tzinfo=None) "
                        "does"
                    )
                )
    elif pa.types.is_struct(kind):
        structs = [value for value in values if isinstance(value, dict)]
        for field in kind:
            _refuse_zones((value.get(field.name) for value in structs), field.type, column)
    elif pa.types.is_map(kind):
        pairs = [
            pair
            for value in values
            if isinstance(value, list | dict)
            for pair in (value.items() if isinstance(value, dict) else value)
            if isinstance(pair, tuple | list) and len(pair) == _PAIR
        ]
        for place, part in enumerate((kind.key_type, kind.item_type)):
            _refuse_zones((pair[place] for pair in pairs), part, column)
    elif pa.types.is_list(kind):
        lists = [value for value in values if isinstance(value, list | tuple)]
        _refuse_zones((each for value in lists for each in value), kind.value_type, column)


def _unknown(name: object, schema: pa.Schema) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the function has emitted the column {name!r}, which output_schema does not have; "
        f"it has: {', '.join(schema.names)}"
    )
