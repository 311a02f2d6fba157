"""The pieces of a reshard as objects beside the log that it makes.

So tasks pass them on that share nothing else. They lie below `Names.scratch` of the generation that
the reshard has begun: they go with it if it never counts, and as soon as it does, nobody needs them
(OBJ-50).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from statestores.errors import CommitInDoubtError, StorageError
from statestores.failpoints import reach
from statestores.files.scratch_directory import scratch_directory
from statestores.object_log import ObjectLog
from statestores.object_log.driver import run
from statestores.object_log.settling import settle
from statestores.resharding.exchange import (
    Exchange,
    Piece,
    PieceWriter,
    packed,
    piece_of,
    unpacked,
)

BYTES_PER_OBJECT: Final = 64 * 1024 * 1024
"""No object is larger, unless a single row is."""

_COPIES: Final = 2
"""The pieces of an object, and the object that is put."""


@dataclass(frozen=True, slots=True)
class ObjectExchange(Exchange):
    """Pieces in objects."""

    log: ObjectLog
    """The log that is being made. Its storage can be sent where this is sent."""

    @contextmanager
    def writing(self, attempt: str, memory_bytes: int) -> Iterator[PieceWriter]:
        """Put objects of half of that memory, and of `BYTES_PER_OBJECT` at most."""
        limit = min(BYTES_PER_OBJECT, max(1, memory_bytes // _COPIES))
        with scratch_directory() as directory:
            writer = _ObjectWriter(directory, self, attempt, limit)
            yield writer
            writer.put()

    def read(self, attempt: str, piece: Piece) -> pa.RecordBatch:
        """Read a part of an object."""
        name = self._name(attempt, piece.number)
        data = self.log.storage.read_range(name, piece.at, piece.bytes)
        if data is None:
            raise StorageError(
                f"{self.log.names.shown(name)} is gone, where a reshard had put rows: it has "
                "ended, or a vacuum has taken it for dead; reshard the store again, if it has as "
                "many partitions as before"
            )
        return unpacked(data, piece, self.log.names.shown(name))

    def put(self, attempt: str, number: int, data: bytes) -> None:
        """Put object *number* of the *attempt*.

        Raises:
            StorageError: The object store does not answer.
        """
        name, storage = self._name(attempt, number), self.log.storage
        try:
            run(settle(self.log.names, name, data), storage)
        except CommitInDoubtError as error:
            raise StorageError(
                f"cannot write {self.log.names.shown(name)}, rows that a reshard moves: "
                f"{storage.last_failure() or 'no answer'}; check the network, the credentials and "
                "their rights, and reshard the store again"
            ) from error
        reach("objects.reshard.exchanged")

    def _name(self, attempt: str, number: int) -> str:
        return f"{self.log.names.scratch}{attempt}/{number}"


class _ObjectWriter(PieceWriter):
    """Pieces one after the other in objects."""

    def __init__(self, directory: Path, exchange: ObjectExchange, attempt: str, limit: int) -> None:
        self.directory = directory
        self._exchange = exchange
        self._attempt = attempt
        self._limit = limit
        self._number = 0
        self._waiting: list[pa.Buffer] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> list[Piece]:
        data = packed(rows)
        if data.size > self._limit and rows.num_rows > 1:
            half = rows.num_rows // 2
            return [*self.add(rows.slice(0, half)), *self.add(rows.slice(half))]
        if self._bytes + data.size > self._limit:
            self.put()
        piece = piece_of(data, rows, number=self._number, at=self._bytes)
        self._waiting.append(data)
        self._bytes += piece.bytes
        return [piece]

    def put(self) -> None:
        """Put what waits, and begin the next object."""
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting, self._bytes = [], 0
        self._exchange.put(self._attempt, self._number, data)
        self._number += 1
