"""The bodies of frames: record batches as Arrow IPC messages, compressed or not.

The schema is known from the segment's head, so a body is the message of the batch alone.
"""

import pyarrow as pa

from statestores.changelog.options import Compression
from statestores.changelog.rows import OFFSET_FIELD

_END_OF_STREAM_BYTES = 8  # what Arrow writes after the last batch

# Below some 10,000 rows, the threads cost more than they save: 50 us a batch.
_USE_THREADS = False


class BodyWriter:
    """Turns record batches of one schema into bodies."""

    __slots__ = ("_compressed", "_options", "_preambles", "_schema", "_sparse_schema")

    def __init__(self, schema: pa.Schema, compression: Compression) -> None:
        self._schema = schema
        self._sparse_schema = schema.append(OFFSET_FIELD)
        self._compressed = compression is not Compression.NONE
        self._options = pa.ipc.IpcWriteOptions(
            compression=compression.value if self._compressed else None, use_threads=_USE_THREADS
        )
        self._preambles: dict[int, int] = {}

    def write(self, batch: pa.RecordBatch, offsets: pa.Array | None = None) -> pa.Buffer:
        """Return *batch* as a body, with a column of *offsets* if there are any."""
        schema = self._schema
        if offsets is not None:
            schema = self._sparse_schema
            batch = pa.RecordBatch.from_arrays([*batch.columns, offsets], schema=schema)
        if not self._compressed:
            return batch.serialize()
        # Arrow compresses only within a stream: what it writes around the batch is cut off.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=self._options) as stream:
            stream.write_batch(batch)
        written = sink.getvalue()
        preamble = self._preamble_bytes(schema)
        return written.slice(preamble, written.size - preamble - _END_OF_STREAM_BYTES)

    def _preamble_bytes(self, schema: pa.Schema) -> int:
        """Return the length of what a stream of *schema* has before its first batch."""
        known = self._preambles.get(len(schema))
        if known is None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema, options=self._options):
                pass
            known = self._preambles[len(schema)] = sink.getvalue().size - _END_OF_STREAM_BYTES
        return known


def read_body(
    body: pa.Buffer, schema: pa.Schema, *, has_offsets: bool
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the rows of *body* and their offsets, in place unless they are compressed.

    Raises:
        pyarrow.ArrowException, OSError, EOFError: It is no batch of *schema*.
    """
    if not has_offsets:
        return pa.ipc.read_record_batch(body, schema), None
    batch = pa.ipc.read_record_batch(body, schema.append(OFFSET_FIELD))
    rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)
    return rows, batch.column(len(schema))
