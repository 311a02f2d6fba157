"""How rows get from the task that has read an old partition to those that build the new ones.

They go in *pieces*, each of which can be read by itself: so neither open files nor memory grow with
the number of new partitions. Every attempt of a task writes under a name of its own, and only those
whose pieces somebody was told of are read; the others are scratch, as these are in the end.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import pyarrow as pa

from statestores.arrow.file_access import reporting
from statestores.errors import StorageError
from statestores.files.durable_directory import make_directory

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive rows for one new partition, as one Arrow IPC stream."""

    number: int
    """In which of the attempt's files or objects it is, from 0."""

    at: int
    """Its first byte there."""

    bytes: int
    """How long it is."""

    rows: int
    """How many rows it has."""

    crc32c: int
    """The CRC32C of its bytes."""


class PieceWriter(ABC):
    """What one attempt of a task writes."""

    directory: Path
    """A directory of this machine for files of nobody else, which goes when the attempt has ended,
    or with the reshard."""

    @abstractmethod
    def add(self, rows: pa.RecordBatch) -> list[Piece]:
        """Take *rows* for one new partition; return the pieces that they are in, in order.

        Raises:
            StorageError: They cannot be written.
        """


class Exchange(ABC):
    """Where the pieces of a reshard are meanwhile. Made to be sent to tasks."""

    @abstractmethod
    def writing(self, attempt: str, memory_bytes: int) -> AbstractContextManager[PieceWriter]:
        """Give what writes the pieces of the *attempt*; they can be read when the block has ended.

        About *memory_bytes* are held of them at a time.

        Raises:
            StorageError: They cannot be written.
        """

    @abstractmethod
    def read(self, attempt: str, piece: Piece) -> pa.RecordBatch:
        """Return the rows of *piece*, which the *attempt* has written.

        Raises:
            StorageError: They cannot be read, or are not what was written.
        """


@dataclass(frozen=True, slots=True)
class DirectoryExchange(Exchange):
    """Pieces in files of a directory that all tasks see. Nothing waits for the disk."""

    path: Path
    """The directory, which whoever made it removes."""

    @contextmanager
    def writing(self, attempt: str, memory_bytes: int) -> Iterator[PieceWriter]:
        """Write one file, of which nothing is held."""
        del memory_bytes
        path = self._file(attempt)
        with reporting("write into", path.parent):
            make_directory(path.parent)
        with reporting("write", path), path.open("wb") as file:
            yield _FileWriter(path, file)

    def read(self, attempt: str, piece: Piece) -> pa.RecordBatch:
        """Read a part of the attempt's file."""
        path = self._file(attempt)
        with reporting("read", path), path.open("rb") as file:
            file.seek(piece.at)
            return unpacked(file.read(piece.bytes), piece, str(path))

    def _file(self, attempt: str) -> Path:
        return self.path / attempt / "rows"


class _FileWriter(PieceWriter):
    """Pieces one after the other in a file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.directory = path.parent
        self._path = path
        self._file = file
        self._at = 0

    def add(self, rows: pa.RecordBatch) -> list[Piece]:
        data = packed(rows)
        with reporting("write", self._path):
            self._file.write(data)
        piece = piece_of(data, rows, number=0, at=self._at)
        self._at += piece.bytes
        return [piece]


def packed(rows: pa.RecordBatch) -> pa.Buffer:
    """Return *rows* as the bytes of a piece."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSION) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def piece_of(data: pa.Buffer, rows: pa.RecordBatch, *, number: int, at: int) -> Piece:
    """Return the piece that *data* are, which has these *rows* and lies at *at*."""
    return Piece(
        number=number,
        at=at,
        bytes=data.size,
        rows=rows.num_rows,
        crc32c=google_crc32c.value(data),
    )


def unpacked(data: bytes, piece: Piece, shown: str) -> pa.RecordBatch:
    """Return the rows of *piece*, of which *data* were found at *shown*.

    Raises:
        StorageError: They are not what was written.
    """
    if len(data) != piece.bytes or google_crc32c.value(data) != piece.crc32c:
        raise StorageError(
            f"{shown} is damaged: the rows that a reshard had put there, at byte {piece.at}, are "
            "not what is read; the store is as it was; reshard it again"
        )
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()
