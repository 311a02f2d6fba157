"""Parquet files as a sink, exactly once: a file becomes visible with the commit (PRC-64).

The files::

    DIRECTORY/<topic>-<partition>-<first offset>-<last offset>.parquet
    DIRECTORY/_statestores-sink.json                    whose they are

A commit has the files in its record; they are written under a name that begins with a dot, and
renamed. So a file that can be seen is whole, and one is made of the same offsets again only under
the same name.
"""

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from statestores.arrow.file_access import reporting, write_durably
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidTypeError,
    SerializationError,
    StoreMismatchError,
)
from statestores.failpoints import reach
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.files.local_path import local_path
from statestores.processing.local.sinks.sink import Delivery, LocalSink, SinkWriter
from statestores.processing.serdes import decoded
from statestores.processing.topic import Topic
from statestores.processing.windows import check_count, check_duration
from statestores.spi import Serde
from statestores.tasks.commits.task_outputs import OutputFiles

SINK_FILE = "_statestores-sink.json"
"""What says whose files a directory has."""

_FORMAT = 1
_OWN = (
    pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
)


@dataclass(frozen=True)
class ParquetSink(LocalSink):
    """Writes the records of a topic to Parquet files in a directory, each of them once.

    Columns are ``key``, ``value``, ``time``, ``partition`` and ``offset``: key and value as the
    columns of their serdes, JSON as text. With a *schema*, values are dicts, and each of its fields
    is a column instead of ``value``.
    """

    directory: str | PathLike[str]
    """Where the files go; made if missing. One topic of one state writes to a directory."""

    schema: pa.Schema | None = field(default=None, kw_only=True)
    """The columns of values that are dicts."""

    max_rows: int = field(default=1_000_000, kw_only=True)
    """A commit is due when so many rows wait, which are held in memory until then."""

    every_ms: int = field(default=10_000, kw_only=True)
    """Or when the first of them has waited so long. A run that ends commits what waits."""

    def writer(self, topic: Topic[Any, Any], state: str) -> SinkWriter:
        """Claim the directory."""
        check_count("max_rows", self.max_rows)
        check_duration("every_ms", self.every_ms)
        schema = _schema_of(topic, self.schema)
        directory = local_path(self.directory, "a sink's directory")
        _claim(directory, topic.name, state)
        return _ParquetWriter(self, topic, directory, schema)


class _ParquetWriter:
    """Collects rows by partition, and makes a file of each with the commit."""

    def __init__(
        self, sink: ParquetSink, topic: Topic[Any, Any], directory: Path, schema: pa.Schema
    ) -> None:
        self._sink, self._topic, self._directory, self._schema = sink, topic, directory, schema
        self._rows: dict[int, list[tuple[Any, ...]]] = {}
        self._count = 0
        self._since_ms = 0
        self._key, self._value = topic.key, topic.value
        self._names = None if sink.schema is None else tuple(sink.schema.names)

    @property
    def has_pending(self) -> bool:
        """Whether rows wait."""
        return bool(self._count)

    def is_due(self, wall_ms: int) -> bool:
        """Whether there are enough, or the first has waited long enough."""
        too_many = self._count >= self._sink.max_rows
        return too_many or wall_ms - self._since_ms >= self._sink.every_ms

    def deliver(self, delivery: Delivery, wall_ms: int) -> None:
        """Keep a row: what cannot be a column is refused here, and not with the commit."""
        partition, offset, (key, value, time_ms, _) = delivery
        decoded(self._key, key)
        found = decoded(self._value, value)
        values: tuple[Any, ...] = (value,)
        if self._names is not None:
            row_of = {} if found is None else found
            self._check(row_of)
            values = tuple(row_of.get(name) for name in self._names)
        row = (key, *values, time_ms, partition, offset)
        if not self._count:
            self._since_ms = wall_ms
        self._rows.setdefault(partition, []).append(row)
        self._count += 1

    def record(self) -> OutputFiles:
        """Return a file for each partition."""
        files = {}
        for partition, rows in sorted(self._rows.items()):
            first, last = rows[0][-1], rows[-1][-1]
            name = f"{self._topic.name}-{partition}-{first:020d}-{last:020d}.parquet"
            table = pa.Table.from_arrays(self._columns(rows), schema=self._schema)
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            files[name] = sink.getvalue().to_pybytes()
        reach("sink.recorded")
        return files

    def publish(self, files: OutputFiles) -> None:
        """Write the files to where they can be seen."""
        with reporting("write", self._directory):
            for name in sorted(files):
                target = self._directory / name
                if target.exists():
                    continue
                temporary = target.with_name(f".{name}.tmp")
                write_durably(temporary, files[name])
                reach("sink.copied")
                temporary.replace(target)
                reach("sink.published")
            make_durable(self._directory)

    def forget(self) -> None:
        """Have nothing waiting."""
        self._rows, self._count = {}, 0

    def _columns(self, rows: list[tuple[Any, ...]]) -> list[pa.Array]:
        """Return *rows* as the columns of the files."""
        keys, *values, times, partitions, offsets = zip(*rows, strict=True)
        own = zip((times, partitions, offsets), _OWN, strict=True)
        columns = [self._key.decode_array(pa.array(keys, pa.binary()))]
        if self._sink.schema is None:
            columns += [self._value.decode_array(pa.array(each, pa.binary())) for each in values]
        else:
            typed = zip(values, self._sink.schema, strict=True)
            columns += [pa.array(each, field.type) for each, field in typed]
        return [*columns, *(pa.array(each, field.type) for each, field in own)]

    def _check(self, value: Any) -> None:
        """Accept a value that has the columns' types; without value all of them are null.

        Raises:
            SerializationError: It has not.
        """
        schema = self._sink.schema
        if schema is None:
            return
        if not isinstance(value, dict):
            raise SerializationError(
                f"a sink with a schema takes values that are dicts, got {value!r}"
            )
        unknown = value.keys() - set(schema.names)
        if unknown:
            raise SerializationError(
                f"the value has the fields {', '.join(sorted(unknown))}, for which the sink's "
                "schema has no columns; add them, or map the values before the sink"
            )
        for each in schema:
            given = value.get(each.name)
            if given is None and not each.nullable:
                raise SerializationError(f"the field {each.name!r} is missing, and may not be null")
            try:
                pa.scalar(given, each.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise SerializationError(
                    f"the field {each.name!r} is {given!r}, which is no {each.type}: {error}"
                ) from error


def _schema_of(topic: Topic[Any, Any], values: pa.Schema | None) -> pa.Schema:
    """Return the columns of the files.

    Raises:
        InvalidTypeError: *values* is no schema, or has names of the sink's own columns.
        CapabilityNotSupportedError: Keys or values of the topic have no columns.
    """
    if values is not None:
        if not isinstance(values, pa.Schema):
            raise InvalidTypeError(f"schema must be a pyarrow.Schema, got {values!r}")
        taken = {"key", *(each.name for each in _OWN)} & set(values.names)
        if taken:
            raise InvalidTypeError(
                f"the schema of a sink has the column {min(taken)!r}, which is the sink's own"
            )
    fields = [pa.field("key", _type_of(topic, topic.key, "keys"))]
    if values is None:
        fields.append(pa.field("value", _type_of(topic, topic.value, "values")))
    else:
        fields += list(values)
    return pa.schema([*fields, *_OWN])


def _type_of(topic: Topic[Any, Any], serde: Serde[Any], what: str) -> pa.DataType:
    try:
        return serde.arrow_type()
    except (CapabilityNotSupportedError, SerializationError) as error:
        raise CapabilityNotSupportedError(
            f"the {what} of the topic {topic.name!r} have no columns, as {serde.name!r}; map them "
            "to something that has, such as text or JSON, before the sink"
        ) from error


def _claim(directory: Path, topic: str, state: str) -> None:
    """Accept a directory that is empty of others' files, and note whose it is.

    Raises:
        StoreMismatchError: Another topic, or another state, writes there.
        StorageError: It cannot be written.
    """
    with reporting("make", directory):
        make_directory(directory)
    file = directory / SINK_FILE
    fields = read_fields(file)
    if fields is None:
        write_json(file, {"format": _FORMAT, "topic": topic, "state": state})
        return
    check_format(fields, file, _FORMAT)
    if (fields.text("topic"), fields.text("state")) != (topic, state):
        raise StoreMismatchError(
            f"{str(directory)!r} has the files of the topic {fields.text('topic')!r} of another "
            f"state, which would be mixed with those of {topic!r}; choose another directory, or "
            "remove this one to write everything anew"
        )
