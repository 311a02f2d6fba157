"""The floor of exporting a store: a scan by the driver, Arrow's columns, and its compressed file.

The pairs become columns, the namespace is cut off the keys, and another thread compresses a batch
and writes it while the driver gives the next one. Then the file is made durable and read once more
for its checksum, which a reader needs. Nothing is checked, counted or published.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.file_access import checksums_of
from statestores.arrow.schemas import KEY_VALUE_ROWS
from statestores.semantics.rows.layout import DATA

_PART_ROWS = 1_024
"""More rows no longer lie in the processor's cache when they become columns."""

_PARTS = 64
"""Parts of a batch: Arrow's cost of one does not show."""

_LONGEST = (1 << 31) - 1
_key_of, _value_of = itemgetter(0), itemgetter(1)


def export_rows(database: Any, path: Path) -> int:
    """Write the rows of an open ``Rdict`` to *path*; return how many there are."""
    rows = 0
    pairs = iter(database.items(from_key=DATA))
    with path.open("wb") as file:
        with (
            pa.ipc.new_file(
                file, KEY_VALUE_ROWS, options=pa.ipc.IpcWriteOptions(compression="lz4")
            ) as writer,
            ThreadPoolExecutor(1) as pool,
        ):
            written: Future[None] | None = None
            parts: list[pa.RecordBatch] = []
            while some := list(islice(pairs, _PART_ROWS)):
                rows += len(some)
                keys = pa.array(list(map(_key_of, some)), pa.binary())
                values = pa.array(list(map(_value_of, some)), pa.binary())
                parts.append(pa.record_batch([keys, values], schema=KEY_VALUE_ROWS))
                if len(some) < _PART_ROWS or len(parts) == _PARTS:
                    if written is not None:
                        written.result()
                    written, parts = pool.submit(_write, writer, parts), []
            for last in (written, pool.submit(_write, writer, parts) if parts else None):
                if last is not None:
                    last.result()
        file.flush()
        os.fsync(file.fileno())
    checksums_of(path, [(0, path.stat().st_size)])
    return rows


def _write(writer: pa.ipc.RecordBatchFileWriter, parts: list[pa.RecordBatch]) -> None:
    rows = pa.Table.from_batches(parts).combine_chunks()
    keys = pc.binary_slice(rows.column("key"), len(DATA), _LONGEST)
    writer.write_table(pa.Table.from_arrays([keys, rows.column("value")], schema=rows.schema))
