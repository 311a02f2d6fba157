"""An Arrow or Parquet file into a store, batch by batch (SNP-18)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from statestores.arrow.columns import put_encoded
from statestores.arrow.file_access import reporting
from statestores.arrow.files.format import format_from_content
from statestores.arrow.files.row_source import METADATA_NAME
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.restore_mark import check_not_half_restored
from statestores.arrow.row_batches import BATCH_ROWS
from statestores.arrow.schemas import put_order, row_schema
from statestores.arrow.store_of_bytes import check_owner, store_of_bytes
from statestores.arrow.typed_columns import check_columns, encode_rows, time_column
from statestores.errors import (
    InvalidArgumentError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.local_path import local_path
from statestores.files.strict_json import Fields, parse_object
from statestores.semantics.every_kind.self_description import differences
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import StateStore

_SORTED_ROWS = 250_000
"""Versions sorted at a time: each such lot takes memory, and a pass over the file."""

_PUT_ROWS = 16_384
"""Sorted versions between two commits."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a file of `export_file` says about its rows."""

    specification: dict[str, str | int]
    """The specification of the store that they come from, in stored form."""

    stream_time_ms: int | None
    """The stream time of that store; ``None`` when it follows from the rows."""

    typed: bool
    """Whether keys and values have the types of its serdes, or are bytes."""


@dataclass(frozen=True, slots=True)
class RowsFile:
    """An open file of rows."""

    path: Path
    """The file."""

    schema: pa.Schema
    """Its columns."""

    rows: int | None
    """How many rows there are, when that is known."""

    batches: Callable[[], Iterator[pa.RecordBatch]]
    """Reads the rows, in batches of at most `BATCH_ROWS`; each call begins anew."""

    origin: Origin | None
    """What the file says about itself; ``None`` when someone else has written it."""

    def is_typed(
        self, specification: StoreSpecification[Any, Any], *, typed: bool | None = None
    ) -> bool:
        """Accept the file for a store of *specification*; return whether its rows are *typed*.

        Raises:
            StoreMismatchError: It says that its rows are of another kind or of other serdes.
        """
        if self.origin is not None:
            _check_origin(self.origin, specification, self.path)
        if typed is None:
            return self.origin is None or self.origin.typed
        return typed


def import_file(
    store: StateStore,
    path: str | PathLike[str],
    *,
    typed: bool | None = None,
    commit: Callable[[], None] | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """Put the rows of the file *path* into *store*, commit them, and return how many it accepted.

    Other rows of the store stay. Where there is a retention, rows are put in the order of time,
    whatever their order in the file, so that none of them makes another one late; that takes a
    pass over the file for each quarter of a million rows, and memory for these and for 8 bytes a
    row. *typed* says whether keys and values have the types of the serdes; a file of `export_file`
    says so itself, and others are taken as typed. *commit* is called after each batch; by default
    it commits without offsets.

    To repeat an import that was interrupted, call this again.

    Requires: nothing is pending in the store.

    Raises:
        StoreNotFoundError: There is no such file.
        InvalidArgumentError: The file is of no known format, its columns are not the store's, or
            something is pending.
        StoreMismatchError: The file says that it holds rows of another kind or of other serdes,
            or the store is half restored.
        SerializationError: A key or value is not of the serde's type.
        StorageError: The file cannot be read.
    """
    if commit is None:
        check_owner(store)
    if store.has_pending_writes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which the import would commit; commit or roll back"
        )
    check_not_half_restored(store.specification, store.committed_offsets())
    with open_rows_file(path) as contents:
        typed = contents.is_typed(store.specification, typed=typed)
        order = put_order(store.specification.kind)
        if order is None:
            batches = contents.batches()
        else:
            check_columns(contents.schema.names, store.specification)
            batches = _in_time_order(contents, row_schema(store.specification.kind).field(order))
        meter = Meter(progress, contents.rows)
        accepted = 0
        for batch in batches:
            encoded = encode_rows(batch, store.specification, typed=typed)
            accepted += put_encoded(store_of_bytes(store), pa.Table.from_batches([encoded]))
            if commit is None:
                store.commit({})
            else:
                commit()
            meter.add(batch.num_rows, batch.nbytes)
    return accepted


def _in_time_order(contents: RowsFile, time: pa.Field) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file by *time*, reading it once for each of `_time_ranges`."""
    for first_ms, last_ms in _time_ranges(contents, time):
        waiting: list[pa.RecordBatch] = []
        for batch in contents.batches():
            starts = time_column(batch.column(time.name), time)
            within = pc.and_(pc.greater_equal(starts, first_ms), pc.less_equal(starts, last_ms))
            rows = batch.filter(within)
            if first_ms != last_ms:
                waiting.append(rows)
            elif rows.num_rows:
                yield rows  # of one moment: there may be any number, and no order among them
        if waiting:
            ordered = pa.Table.from_batches(waiting).sort_by(time.name)
            waiting.clear()  # not kept alongside the sorted copy
            pa.default_memory_pool().release_unused()  # on its own it keeps what each pass frees
            yield from ordered.to_batches(_PUT_ROWS)


def _time_ranges(contents: RowsFile, time: pa.Field) -> list[tuple[int, int]]:
    """Return ranges of time, ascending, of at most `_SORTED_ROWS` rows or of a single moment."""
    columns = [time_column(batch.column(time.name), time) for batch in contents.batches()]
    starts = np.sort(pa.chunked_array(columns, pa.int64()).to_numpy())
    ranges = []
    begin = 0
    while begin < len(starts):
        end = min(begin + _SORTED_ROWS, len(starts))
        if end < len(starts):
            # Rows of one moment stay together: cut before a moment that would be cut in two.
            end = int(np.searchsorted(starts, starts[end], side="left"))
        if end <= begin:
            end = int(np.searchsorted(starts, starts[begin], side="right"))
        ranges.append((int(starts[begin]), int(starts[end - 1])))
        begin = end
    return ranges


@contextmanager
def open_rows_file(path: str | PathLike[str]) -> Iterator[RowsFile]:
    """Give the rows of the Arrow or Parquet file *path*.

    Raises:
        StoreNotFoundError: There is no such file.
        InvalidArgumentError: It is of no known format, or damaged.
        StorageError: It cannot be read.
    """
    source = local_path(path)
    if not source.is_file():
        raise StoreNotFoundError(
            f"there is no file at {str(source)!r}; check the path, or write one by an export"
        )
    try:
        with reporting("read", source), pa.OSFile(str(source), "rb") as file:
            if format_from_content(source) == "parquet":
                with pq.ParquetFile(
                    file, page_checksum_verification=True, pre_buffer=False
                ) as parquet:
                    yield _rows_file(
                        source,
                        parquet.schema_arrow,
                        parquet.metadata.num_rows,
                        partial(parquet.iter_batches, BATCH_ROWS),
                    )
            else:
                with pa.ipc.open_file(file) as arrow:
                    yield _rows_file(source, arrow.schema, None, partial(_slices, arrow))
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"{str(source)!r} cannot be read as what it seems to be: {error}; export it again"
        ) from error


def _rows_file(
    path: Path, schema: pa.Schema, rows: int | None, batches: Callable[[], Iterator[pa.RecordBatch]]
) -> RowsFile:
    return RowsFile(path, schema, rows, batches, _origin(schema, path))


def _slices(reader: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _origin(schema: pa.Schema, path: Path) -> Origin | None:
    """Return what the file says about its rows; ``None`` when it was exported by someone else.

    Raises:
        InvalidArgumentError: It says something that no export says.
    """
    said = (schema.metadata or {}).get(METADATA_NAME)
    if said is None:
        return None
    where = f"what {str(path)!r} says about its rows"
    try:
        fields = Fields(parse_object(said, where), where)
        fields.only("specification", "stream_time_ms", "typed")
        description = fields.inside("specification")
        return Origin(
            specification={name: description.text_or_integer(name) for name in description},
            stream_time_ms=fields.integer_or_none("stream_time_ms"),
            typed=fields.flag("typed"),
        )
    except StoreCorruptedError as error:
        raise InvalidArgumentError(f"{error}; export it again") from error


def _check_origin(origin: Origin, specification: StoreSpecification[Any, Any], path: Path) -> None:
    """Accept rows of the store's kind whose bytes mean the same in it.

    Raises:
        StoreMismatchError: They do not.
    """
    fields = {"kind"} if origin.typed else {"kind", "key", "value"}
    others = frozenset({*origin.specification, *specification.describe()} - fields)
    differing = differences(origin.specification, specification, others)
    if differing:
        raise StoreMismatchError(
            f"the rows in {str(path)!r} differ from the store {specification.name!r}: "
            f"{'; '.join(differing)}; import them into a store like the one they come from"
        )
