"""As-of joins of DataFrames with versioned stores: `temporal_join`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from statestores.arrow.as_of.index import AsOfIndex
from statestores.arrow.as_of.join import join_as_of
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.errors import InvalidArgumentError
from statestores.opening import DEFAULT_BACKEND, BytesStore, typed_store
from statestores.reading.partition_reader import PartitionReader
from statestores.registry import load_backend
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spark.column_names import minds_case, own_name
from statestores.spark.copied_partition import copied_partition
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import PLACE_COLUMN, Placement, partition_of
from statestores.spark.local_copy import CopyOptions, local_copy
from statestores.spark.map_batches import map_batches, number_name, numbered
from statestores.spark.session.worker_python import check_worker_python
from statestores.spark.stateful_functions.output import declared_schema
from statestores.spark.temporal.pins import TablePins, table_ends
from statestores.spi.specification import Versioned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_SPARK_TIME = pa.timestamp("us", tz="UTC")

AT_COLUMN: Final = "__statestores_at"
"""The column of instants that times without a zone stand for. Nobody else sees it."""

_ROWS_WORTH = 8
"""Changes of a table that are read into memory in the time that one row's lookup takes."""

_MOST_CHANGES = 2_000_000
"""The history of a longer table stays on disk, however many rows are looked up: memory is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin:
    """What each task joins, and how. Made to be sent to tasks."""

    pins: TablePins
    """The table."""

    on: str
    """The column of keys."""

    at: str
    """The column of times."""

    how: str
    """``left`` or ``inner``."""

    max_age_ms: int | None
    """How old a value may be."""

    value_name: str
    """The name of the column of values."""

    valid_from_name: str
    """The name of the column that says since when."""

    copies: CopyOptions
    """Where the copies of the table lie."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition with what the table had for them."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        table = self.pins
        partition = partition_of(first, table.partitions)
        end_offset = table.end_offset(partition)
        source = copied_partition(table.root, table.specification, table.partitions, partition)
        with local_copy(source, end_offset, self.copies) as store:
            waiting, rows = [first], first.num_rows
            while rows * _ROWS_WORTH <= end_offset and (batch := next(filled, None)) is not None:
                waiting.append(batch)
                rows += batch.num_rows
            asked: object = typed_store(store, store.specification)
            if rows * _ROWS_WORTH > end_offset and end_offset <= _MOST_CHANGES:
                asked = self._index(store, partition, end_offset)
            for batch in chain(waiting, filled):
                yield self.joined(asked, batch.drop_columns([PLACE_COLUMN]))

    def _index(self, store: BytesStore, partition: int, end_offset: int) -> AsOfIndex:
        """Return everything that *store*, a copy at *end_offset*, answers from, in memory."""
        table = self.pins
        specification = table.specification
        assert isinstance(store, EngineVersionedStore)  # noqa: S101  # the specification says so
        assert isinstance(specification, Versioned)  # noqa: S101  # `temporal_join` has checked it
        place = table.root.partition(specification, table.partitions, partition)
        rows = PartitionReader(place, specification).rows(
            history=True, offset=end_offset - 1, typed=False
        )
        history = pa.Table.from_batches(rows, VERSIONED_ROWS)
        stream_time_ms = store.stream_time_ms
        horizon_ms = None
        if stream_time_ms is not None:
            horizon_ms = stream_time_ms - specification.history_retention_ms
        return AsOfIndex.from_rows(history, specification=specification, horizon_ms=horizon_ms)

    def joined(self, source: object, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return *batch* with two more columns, the second one a timestamp of Spark's."""
        joined = join_as_of(
            source,  # type: ignore[arg-type]  # of a versioned specification, or an index
            batch,
            on=self.on,
            at=self.at,
            value_name=self.value_name,
            valid_from_name=self.valid_from_name,
            how=self.how,
            max_age_ms=self.max_age_ms,
        )
        place = joined.num_columns - 1
        starts = joined.column(place).cast(_MILLISECONDS).cast(_SPARK_TIME)
        return joined.set_column(place, self.valid_from_name, starts)


def temporal_join(
    frame: "DataFrame",
    state: str | PathLike[str],
    store: str | None = None,
    *,
    on: str,
    at: str,
    how: str = "left",
    max_age_ms: int | None = None,
    value_name: str = "value",
    valid_from_name: str = "valid_from",
    local_directory: str | PathLike[str] | None = None,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> "DataFrame":
    """Return *frame* with the value that its key had in a versioned store at its time (KIP-889).

    Two columns are added: the value, and since when it is valid, a timestamp. They are null where
    the key had no value then, or the time is outside the store's history retention. Rows are
    shuffled to the partitions of the store.

    A batch sees the store as it is at this call. A stream sees it, in each micro-batch, as it is
    when that begins; a micro-batch that comes again sees what it saw before. So does a batch that
    is made of a micro-batch in ``foreachBatch``.

    Args:
        frame: A batch or streaming DataFrame.
        state: The state root, on a file system that the driver and all executors share, or its URL
            in an object store. A stream writes small files, or objects, below ``@pins`` there.
        store: The versioned store; by default the only one of the state root.
        on: The column of keys, of the type of the store's key serde; it may have nulls.
        at: The column of times: timestamps, which without a zone are in that of the session, or
            milliseconds since the epoch; it may have nulls.
        how: ``"left"`` keeps every row, ``"inner"`` those for which there is a value.
        max_age_ms: Takes a value only if it has been valid for at most this long.
        value_name: The name of the column of values.
        valid_from_name: The name of the column that says since when.
        local_directory: Where the machines keep copies of the store; see `CopyOptions`.
        backend: The backend of these copies.
        options: The backend's own options.
        storage_options: How the object store of a URL is reached (`StateRoot.open`); by default as
            the environment of driver and executors says.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        InvalidArgumentError: The store is not versioned, a column is missing or of another type,
            a name is taken, or another argument is not allowed.
        UnknownBackendError, InvalidOptionError: The backend, the path or *storage_options* cannot
            be used.
        MissingDriverError: Spark's workers run in another Python, without what is needed.
    """
    check_worker_python(frame.sparkSession)
    root = GivenRoot.of(fspath(state), storage_options)
    entry = root.open().store(store)
    specification = entry.specification
    if not isinstance(specification, Versioned):
        raise InvalidArgumentError(
            f"{specification.name!r} is a {specification.kind} store, and a temporal join needs a "
            "versioned one, which has a history"
        )
    for own in (PLACE_COLUMN, AT_COLUMN):
        if own in frame.schema.names:
            raise InvalidArgumentError(f"the column {own!r} is for statestores; rename it")
    _check_names(frame, value_name, valid_from_name)
    on, at = own_name(frame, on), own_name(frame, at)
    frame, at = _with_instants(frame, at)
    load_backend(backend or DEFAULT_BACKEND)
    ends = {} if frame.isStreaming else table_ends(root, specification, entry.partitions)
    join = TemporalJoin(
        pins=TablePins(
            root=root, specification=specification, partitions=entry.partitions, planned=ends
        ),
        on=on,
        at=at,
        how=how,
        max_age_ms=max_age_ms,
        value_name=value_name,
        valid_from_name=valid_from_name,
        copies=CopyOptions(
            directory=None if local_directory is None else fspath(local_directory),
            backend=backend,
            options=dict(options or {}),
        ),
    )
    # What is wrong with columns and arguments is found here, and not by the tasks.
    nothing = AsOfIndex.from_rows(VERSIONED_ROWS.empty_table(), specification=specification)
    rows = declared_schema(frame.schema).empty_table().to_batches()
    empty = rows[0] if rows else pa.RecordBatch.from_pylist([], declared_schema(frame.schema))
    join.joined(nothing, empty)
    value_type = from_arrow_type(
        serde_or_raw(specification.value).arrow_type(),
        prefer_timestamp_ntz=True,  # the default since 4.3
    )
    schema = StructType([*frame.schema.fields]).add(value_name, value_type)
    placement = Placement(
        specification=specification, partitions=entry.partitions, key=on, keeps_nulls=True
    )
    schema = schema.add(valid_from_name, TimestampType())
    joined = map_batches(placement.shuffled(frame), join.run, schema)
    return joined.drop(AT_COLUMN) if at == AT_COLUMN else joined


def _with_instants(frame: "DataFrame", at: str) -> "tuple[DataFrame, str]":
    """Return *frame* with a column of instants, and its name: *at*, or one that is made of it.

    Spark knows the zone of its session, in which it takes times that have none; tasks do not.
    """
    names = frame.schema.names
    if names.count(at) != 1:
        return frame, at  # which the join says
    if not isinstance(frame.schema[at].dataType, TimestampNTZType):
        return frame, at
    plain = numbered(frame)
    instants = plain[number_name(names.index(at))].cast("timestamp")
    return plain.withColumn(AT_COLUMN, instants).toDF(*names, AT_COLUMN), AT_COLUMN


def _check_names(frame: "DataFrame", *added: str) -> None:
    """Accept the names of new columns that Spark can tell from those that are there.

    Raises:
        InvalidArgumentError: It cannot: by default ``Value`` and ``value`` are one column to it.
    """
    exact = minds_case(frame)
    folded = [name if exact else name.lower() for name in (*frame.schema.names, *added)]
    for name, key in zip(added, folded[-len(added) :], strict=True):
        if folded.count(key) > 1:
            raise InvalidArgumentError(
                f"the column {name!r} is there already, or twice among the new ones; choose "
                "another value_name or valid_from_name"
            )
