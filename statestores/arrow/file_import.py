"""An Arrow or Parquet file into a store, batch by batch (SNP-18)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from statestores.arrow.columns import put_encoded, store_of_bytes
from statestores.arrow.file_access import reporting
from statestores.arrow.file_format import format_from_content
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.restore_mark import check_not_half_restored, has_rows, restore_mark
from statestores.arrow.row_batches import BATCH_ROWS
from statestores.arrow.row_source import METADATA_NAME
from statestores.arrow.schemas import changes_from_rows
from statestores.arrow.typed_columns import encode_rows
from statestores.errors import InvalidArgumentError, StoreMismatchError, StoreNotFoundError
from statestores.spi.specification import StoreSpecification
from statestores.spi.store import StateStore
from statestores.spi.versioned import VersionedStore


@dataclass(frozen=True, slots=True)
class _Contents:
    """An open file of rows."""

    schema: pa.Schema
    rows: int | None
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a file of `export_file` says about its rows."""

    specification: dict[str, str | int]
    stream_time_ms: int | None
    typed: bool


def import_file(
    store: StateStore,
    path: str | PathLike[str],
    *,
    typed: bool | None = None,
    commit: Callable[[], None] | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """Take the rows of the file *path* into *store*, commit them, and return how many they are.

    Into a key-value store they are put: other keys stay. A versioned store has to be empty, and
    takes them as content: none is refused as late. *typed* says whether keys and values have the
    types of the serdes; a file of `export_file` says it itself, and others are taken as typed.
    *commit* is called after each batch; by default it commits without offsets, which leaves the
    rows out of a changelog: pass your own if there is one.

    An import that was interrupted is repeated by calling it again.

    Requires: nothing is pending in the store.

    Raises:
        StoreNotFoundError: There is no such file.
        InvalidArgumentError: The file is of no known format, its columns are not the store's, or
            something is pending.
        StoreMismatchError: The file says that it holds rows of another kind or of other serdes,
            or the store is versioned and not empty.
        SerializationError: A key or value is not of the serde's type.
        StorageError: The file cannot be read.
    """
    source = Path(path)
    if not source.is_file():
        raise StoreNotFoundError(f"there is no file at {str(source)!r}; export_file() writes one")
    if store.uncommitted_bytes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which the import would commit; commit or roll back"
        )
    with reporting("read", source), _open(source) as contents:
        origin = _origin(contents.schema, source)
        if origin is not None:
            _check_origin(origin, store.specification, source)
        if typed is None:
            typed = origin is None or origin.typed
        encoded = (encode_rows(rows, store.specification, typed=typed) for rows in contents.batches)
        commit = commit or (lambda: store.commit({}))
        meter = Meter(progress, contents.rows)
        if isinstance(store, VersionedStore):
            stream_time_ms = origin.stream_time_ms if origin else None
            _load_versions(store, encoded, stream_time_ms, commit, meter)
        else:
            check_not_half_restored(store.specification, store.committed_offsets())
            for rows in encoded:
                put_encoded(store_of_bytes(store), pa.Table.from_batches([rows]))
                commit()
                meter.add(rows.num_rows, rows.nbytes)
    return meter.rows


def _load_versions(
    store: StateStore,
    batches: Iterator[pa.RecordBatch],
    stream_time_ms: int | None,
    commit: Callable[[], None],
    meter: Meter,
) -> None:
    """Load *batches* into an empty versioned store, marked as half restored until the end.

    Raises:
        StoreMismatchError: The store is not empty, and no interrupted import or restore either.
    """
    mark = restore_mark(store.specification)
    if store.committed_offset(mark) is None and has_rows(store):
        raise StoreMismatchError(
            f"the versioned store {store.name!r} is not empty, and rows of a file could be late "
            "in it; import into an empty store, or put the rows with bulk_load()"
        )
    store.truncate()
    store.commit({mark: 0})
    for rows in batches:
        store.load(changes_from_rows(rows), stream_time_ms=stream_time_ms)
        commit()
        meter.add(rows.num_rows, rows.nbytes)
    store.commit({mark: None})


@contextmanager
def _open(path: Path) -> Iterator[_Contents]:
    """Give the contents of *path*, in batches of at most `BATCH_ROWS`.

    Raises:
        InvalidArgumentError: It is of no known format, or damaged.
    """
    try:
        with pa.OSFile(str(path), "rb") as file:
            if format_from_content(path) == "parquet":
                with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
                    batches = parquet.iter_batches(BATCH_ROWS)
                    yield _Contents(parquet.schema_arrow, parquet.metadata.num_rows, batches)
            else:
                with pa.ipc.open_file(file) as arrow:
                    yield _Contents(arrow.schema, None, _slices(arrow))
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"{str(path)!r} cannot be read as what it seems to be: {error}; export it again"
        ) from error


def _slices(reader: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _origin(schema: pa.Schema, path: Path) -> _Origin | None:
    """Return what the file says about its rows; ``None`` when it was exported by someone else.

    Raises:
        InvalidArgumentError: It says something that no export says.
    """
    said = (schema.metadata or {}).get(METADATA_NAME)
    if said is None:
        return None
    try:
        return _Origin(**json.loads(said))
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"{str(path)!r} describes its rows as {said!r}, which this release cannot read: {error}"
        ) from error


def _check_origin(origin: _Origin, specification: StoreSpecification[Any, Any], path: Path) -> None:
    """Accept rows of the store's kind whose bytes mean the same in it.

    Raises:
        StoreMismatchError: They do not.
    """
    wanted = specification.describe()
    fields = ["kind"] if origin.typed else ["kind", "key", "value"]
    differing = [
        f"{field} is {origin.specification.get(field)!r}, expected {wanted[field]!r}"
        for field in fields
        if origin.specification.get(field) != wanted[field]
    ]
    if differing:
        raise StoreMismatchError(
            f"the rows in {str(path)!r} differ from the store {specification.name!r}: "
            f"{'; '.join(differing)}; import them into a store like the one they come from"
        )
