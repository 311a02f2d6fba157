"""The bodies of frames: record batches as Arrow IPC messages, compressed or not.

The schema is known from the segment's head, so a body is the message of the batch alone.
"""

from functools import lru_cache

import pyarrow as pa

from statestores.changelog.options import Compression
from statestores.changelog.rows import OFFSET_FIELD, empty_batch

# Below some 10,000 rows, the threads cost more than they save: 50 us a batch.
_USE_THREADS = False
_WITHOUT_THREADS = pa.ipc.IpcReadOptions(use_threads=_USE_THREADS)
_THREADED_BYTES = 1 << 16
"""Larger bodies are decompressed by threads, and not copied first."""


class BodyWriter:
    """Turns record batches of one schema into bodies. Any thread may write.

    Whoever writes takes the stream out meanwhile, so two threads at once have one each.
    """

    __slots__ = ("_options", "_schema", "_sparse_schema", "_streams", "compression")

    def __init__(self, schema: pa.Schema, compression: Compression) -> None:
        self.compression = compression
        """How bodies are compressed."""
        self._schema = schema
        self._sparse_schema = schema.append(OFFSET_FIELD)
        self._options: pa.ipc.IpcWriteOptions | None = None
        if compression is not Compression.NONE:
            self._options = pa.ipc.IpcWriteOptions(
                compression=compression.value, use_threads=_USE_THREADS
            )
        self._streams: dict[int, _Stream] = {}

    def write(self, batch: pa.RecordBatch, offsets: pa.Array | None = None) -> pa.Buffer:
        """Return *batch* as a body, with a column of *offsets* if there are any."""
        schema = self._schema
        if offsets is not None:
            schema = self._sparse_schema
            batch = pa.RecordBatch.from_arrays([*batch.columns, offsets], schema=schema)
        if self._options is None:
            return batch.serialize()
        columns = len(schema)
        stream = self._streams.pop(columns, None) or _Stream(schema, self._options)
        body = stream.message(batch)
        self._streams[columns] = stream  # not after an error: nobody knows what it has written
        return body


class _Stream:
    """A stream that is never ended: Arrow compresses only within one, and beginning it takes time.

    What it writes of a batch does not depend on those before, since nothing is a dictionary.
    """

    __slots__ = ("_stream", "_written")

    def __init__(self, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
        self._written = _Pieces()
        sink = pa.PythonFile(self._written, mode="w")
        self._stream = pa.ipc.new_stream(sink, schema, options=options)
        self.message(empty_batch(schema))  # the schema is written with the first batch

    def message(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return the message of *batch*."""
        self._stream.write_batch(batch)
        pieces = self._written.pieces
        message = b"".join(pieces)
        pieces.clear()
        return pa.py_buffer(message)


class _Pieces:
    """A file that keeps what is written to it, as it was given: each piece lives on its own."""

    __slots__ = ("pieces", "write")
    closed = False

    def __init__(self) -> None:
        self.pieces: list[pa.Buffer | bytes] = []
        self.write = self.pieces.append  # without a step of Python for each piece

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def close(self) -> None:
        """Do nothing: there is nothing to be given up."""


def read_body(
    body: pa.Buffer, schema: pa.Schema, *, has_offsets: bool, compressed: bool = False
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the rows of *body* and their offsets, in place unless they are compressed.

    *compressed* is what to expect: a body says itself how it is compressed.

    Raises:
        pyarrow.ArrowException, OSError, EOFError: It is no batch of *schema*.
    """
    if not has_offsets:
        return _batch(body, schema, compressed=compressed), None
    batch = _batch(body, schema.append(OFFSET_FIELD), compressed=compressed)
    rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)
    return rows, batch.column(len(schema))


def _batch(body: pa.Buffer, schema: pa.Schema, *, compressed: bool) -> pa.RecordBatch:
    """Return the batch of *body*: of a small one without threads, which Arrow has in streams only.

    They cost 70 us of the processor, and three times that in waiting where others work.
    """
    if not compressed or body.size > _THREADED_BYTES:
        return pa.ipc.read_record_batch(body, schema)
    stream = pa.BufferReader(b"".join((_beginning(schema), body)))
    try:
        return pa.ipc.open_stream(stream, options=_WITHOUT_THREADS).read_next_batch()
    except StopIteration as error:
        raise EOFError("the message is the end of a stream") from error


@lru_cache(maxsize=64)
def _beginning(schema: pa.Schema) -> bytes:
    """Return what a stream of *schema* begins with."""
    return bytes(schema.serialize())
