"""Changes in key order that do not fit into the memory allowed, in files of nobody else.

A *run* is what was held when it became too much: folded, and so in key order. A later run counts
for more than an earlier one. The files are scratch: nothing rests on them, and nothing waits for
the disk.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from statestores.arrow.file_access import reporting

_PIECE_BYTES = 1 << 20
_PIECE_ROWS = 16_384
_SMALLEST_PART = 2
"""A run has at least this part of the memory allowed; less is worth holding."""

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


class SpilledRuns:
    """The runs of one reader, in a directory that is there and that nobody else writes to."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        """Have a reader hold about *limit_bytes*."""
        self._directory = directory
        self._limit = limit_bytes
        self._files: list[Path] = []
        self._number = 0

    @property
    def are_there(self) -> bool:
        """Whether anything has been spilled."""
        return bool(self._files)

    def is_full(self, held_bytes: int) -> bool:
        """Return whether *held_bytes* are more than shall be held."""
        return held_bytes > self._limit

    def take(self, folded: pa.RecordBatch) -> pa.RecordBatch:
        """Write *folded* as a run, and return what is left to hold: nothing, or all if it is small.

        Raises:
            StorageError: It cannot be written.
        """
        if folded.nbytes < self._limit // _SMALLEST_PART:
            return folded
        path = self._directory / f"run-{self._number}.arrow"
        self._number += 1
        with (
            reporting("write", path),
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_stream(file, folded.schema, options=_COMPRESSION) as writer,
        ):
            for piece in self.pieces(folded):
                writer.write_batch(piece)
        self._files.append(path)
        return folded.slice(0, 0).take(pa.array([], pa.int64()))  # without the large buffers

    def streams(self) -> list[Iterator[pa.RecordBatch]]:
        """Return the rows of each run, the earliest first."""
        return [_read(path) for path in self._files]

    def pieces(self, folded: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield *folded* in pieces of which one can be held for each run."""
        rows = folded.num_rows
        size = max(1, min(_PIECE_ROWS, rows * _PIECE_BYTES // max(folded.nbytes, 1)))
        for start in range(0, rows, size):
            yield folded.slice(start, size)

    def clear(self) -> None:
        """Remove all runs.

        Raises:
            StorageError: One cannot be removed.
        """
        for path in self._files:
            with reporting("remove", path):
                path.unlink()
        self._files = []


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with (
        reporting("read", path),
        pa.OSFile(str(path), "rb") as file,
        pa.ipc.open_stream(file) as reader,
    ):
        yield from reader
