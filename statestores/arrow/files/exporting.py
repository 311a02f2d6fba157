"""A store's or a snapshot's rows as a table, or as one Arrow or Parquet file (SNP-17)."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from statestores.arrow.file_access import reporting
from statestores.arrow.files.format import FileFormat, check_format, format_from_name
from statestores.arrow.files.row_source import RowSource, open_rows
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.files.durable_directory import make_durable
from statestores.files.local_path import local_path

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


def export_table(source: RowSource, *, typed: bool = False) -> pa.Table:
    """Return all rows of *source*, a store's committed content or a snapshot, in memory.

    *typed* gives keys and values in the types of the serdes and times as timestamps; otherwise
    they are bytes and int64 milliseconds.

    Raises:
        StoreMismatchError: The store is half restored.
        SerializationError: A key or value is not the serde's.
        SnapshotCorruptedError: The snapshot is damaged.
    """
    with open_rows(source, typed=typed) as rows:
        batches = [batch.replace_schema_metadata(rows.schema.metadata) for batch in rows.batches]
        return pa.Table.from_batches(batches, schema=rows.schema)


def export_file(
    source: RowSource,
    path: str | PathLike[str],
    *,
    file_format: FileFormat | None = None,
    typed: bool = False,
    progress: ProgressCallback | None = None,
) -> int:
    """Write the rows of *source* into the file *path*; return how many there are.

    The rows are those of one commit, and the file appears whole or not at all; an existing one is
    replaced. Memory is that of a batch. *typed* is as for `export_table`. *file_format* follows
    from the name when it is not given. `import_file` reads it back.

    Raises:
        InvalidArgumentError: The format is unknown, or cannot be told from the name.
        StoreMismatchError: The store is half restored.
        SerializationError: *typed*, and a key or value is not the serde's.
        SnapshotCorruptedError: The snapshot is damaged.
        StorageError: The file cannot be written.
    """
    with open_rows(source, typed=typed) as rows:
        return write_rows_file(
            path,
            rows.schema,
            rows.batches,
            file_format=file_format,
            total_rows=rows.total,
            progress=progress,
        )


def write_rows_file(
    path: str | PathLike[str],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    file_format: FileFormat | None = None,
    total_rows: int | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """Write *batches* of *schema* into the file *path*, as `export_file` does; return the rows.

    Raises:
        InvalidArgumentError: The format is unknown, or cannot be told from the name.
        StorageError: The file cannot be written.
    """
    target = local_path(path)
    chosen = format_from_name(target) if file_format is None else check_format(file_format)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    meter = Meter(progress, total_rows)
    with reporting("write", target):
        try:
            with _writer(temporary, schema, chosen) as write_batch:
                for batch in batches:
                    write_batch(batch.replace_schema_metadata(schema.metadata))
                    meter.add(batch.num_rows, batch.nbytes)
            make_durable(temporary)
            temporary.replace(target)
            make_durable(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    return meter.rows


@contextmanager
def _writer(path: Path, schema: pa.Schema, file_format: FileFormat) -> Iterator[Any]:
    """Give the function that adds a batch to the new file *path*."""
    with pa.OSFile(str(path), "wb") as file:
        if file_format == "parquet":
            with pq.ParquetWriter(
                file, schema, compression="zstd", write_page_checksum=True
            ) as parquet:
                yield parquet.write_batch
        else:
            with pa.ipc.new_file(file, schema, options=_COMPRESSION) as arrow:
                yield arrow.write_batch
