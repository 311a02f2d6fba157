"""The data files of a snapshot: rows as Arrow files, and what the manifest says of them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from struct import Struct
from typing import TypeVar

import pyarrow as pa

from statestores.arrow.file_access import checksums_of
from statestores.arrow.progress import Meter
from statestores.arrow.row_batches import BatchParts
from statestores.arrow.schemas import row_schema
from statestores.arrow.snapshots.manifest import (
    BatchEntry,
    BatchPlace,
    FileEntry,
    data_name,
    lower_bound,
    upper_bound,
)
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable

ROWS_PER_FILE = 4_000_000
"""A new file begins after this many rows, so that readers can share the work."""

BYTES_PER_FILE = 256 * 1024 * 1024
"""A new file begins after this many bytes on disk."""

T = TypeVar("T")

_PREAMBLE = Struct("<8s4xi")  # magic; mark of a message; length of the schema's metadata

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


def write_files(
    directory: Path,
    kind: str,
    rows: Iterator[BatchParts],
    rows_per_file: int,
    bytes_per_file: int,
    meter: Meter,
) -> Iterator[FileEntry]:
    """Write the *rows* of a store of *kind*; each file is durable when it is yielded."""
    schema = row_schema(kind)
    parts = next(rows, None)
    for number in count():
        if parts is None:
            return
        path = directory / data_name(number)
        entries = []
        ends = []
        written = 0
        with pa.OSFile(str(path), "wb") as file:
            with (
                pa.ipc.new_file(file, schema, options=_COMPRESSION) as writer,
                ThreadPoolExecutor(1, thread_name_prefix="snapshot") as pool,
            ):
                while parts is not None:
                    # Arrow joins, compresses and writes it while the engine gives the next one.
                    wait_until_written = _begin(pool, partial(_write_batch, writer, parts))
                    parts = next(rows, None)
                    entry, size = wait_until_written()
                    entries.append(entry)
                    ends.append(file.tell())
                    written += entry.rows
                    meter.add(entry.rows, size)
                    if written >= rows_per_file or file.tell() >= bytes_per_file:
                        break
            size = file.tell()
        reach("snapshot.data-written")
        make_durable(path)
        places = list(pairwise([_preamble_bytes(path), *ends]))
        whole, sums = checksums_of(path, places)
        yield FileEntry(
            name=path.name,
            bytes=size,
            crc32c=whole,
            batches=tuple(
                replace(entry, place=BatchPlace(at=start, bytes=stop - start, crc32c=checksum))
                for entry, (start, stop), checksum in zip(entries, places, sums, strict=True)
            ),
        )


def _write_batch(writer: pa.ipc.RecordBatchFileWriter, parts: BatchParts) -> tuple[BatchEntry, int]:
    """Write *parts* as one batch; return what the manifest says about it, and its bytes."""
    batch = parts.join()
    writer.write_batch(batch)
    keys = batch.column("key")
    entry = BatchEntry(
        rows=batch.num_rows,
        first_key=lower_bound(keys[0].as_py()),
        last_key=upper_bound(keys[-1].as_py()),
    )
    return entry, batch.nbytes


def _begin(pool: ThreadPoolExecutor, write: Callable[[], T]) -> Callable[[], T]:
    """Begin to *write* a batch, and return what waits for it and raises what it raises.

    Where no threads are left, because the interpreter is ending, it is written immediately.
    """
    try:
        return pool.submit(write).result
    except RuntimeError:
        pool.shutdown(cancel_futures=True)  # it may be in the queue; and the next ones come here
        written = write()
        return lambda: written


def _preamble_bytes(path: Path) -> int:
    """Return where the first record batch of the Arrow file *path* begins.

    Before it are the magic, padded, and the schema, whose message gives the length of its own
    metadata and has no body. Arrow writes them together with the first batch.
    """
    with path.open("rb") as file:
        _, length = _PREAMBLE.unpack(file.read(_PREAMBLE.size))
    return _PREAMBLE.size + int(length)
