"""One old partition read in key order, and its rows split by the partition that they go to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.errors import MisplacedKeyError
from statestores.partitioning import partitioner_by_name, placed_elsewhere
from statestores.reading.partition_places import PartitionPlace
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding.exchange import Exchange, Piece, PieceWriter
from statestores.spi.specification import StoreSpecification

PART_OF_MEMORY = 4
"""What is held for one purpose has this part of the memory allowed: several copies are in use
while it is sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """One old partition, split. Small; made to be sent to whoever builds the new ones."""

    attempt: str
    """The attempt that has written the rows."""

    pieces: dict[int, tuple[Piece, ...]]
    """Those of each new partition, in key order; none for partitions that get nothing."""

    rows: int
    """How many rows there are."""

    bytes: int
    """Their bytes before compression."""

    stream_time_ms: int | None
    """The stream time of the old partition; ``None`` without one."""

    def rows_for(self, partition: int) -> int:
        """Return how many rows the new *partition* gets."""
        return sum(piece.rows for piece in self.pieces.get(partition, ()))

    def batches(self, partition: int, exchange: Exchange) -> Iterator[pa.RecordBatch]:
        """Yield the rows for the new *partition*, in key order, from where they are.

        Raises:
            StorageError: They cannot be read.
        """
        for piece in self.pieces.get(partition, ()):
            yield exchange.read(self.attempt, piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What one task does: reads an old partition and splits its rows."""

    place: PartitionPlace
    """The old partition."""

    number: int
    """Its number."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    partitions: int
    """How many new partitions there are."""

    sources: int
    """How many old ones there are, all of which whoever builds a new one reads at once."""

    exchange: Exchange
    """Where the rows are put."""

    memory_bytes: int
    """How much memory the rows may take, roughly."""

    def __call__(self) -> Routed:
        """Read and split the partition.

        Raises:
            InvalidArgumentError: The partitioner refuses a key.
            MisplacedKeyError: A key is in another partition than the partitioner gives it.
            StateStoreError: The partition cannot be read, or a file not be written.
        """
        attempt = f"from-{self.number}-{uuid4().hex}"
        share = max(1, self.memory_bytes // PART_OF_MEMORY)
        with self.exchange.writing(attempt, share) as writer:
            replay = PartitionReader(self.place, self.specification).replay(
                runs=SpilledRuns(writer.directory, share)
            )
            split = _Splitter(self, writer, share)
            for batch in replay.rows():
                split.add(batch)
            split.write()
        return Routed(
            attempt=attempt,
            pieces={number: tuple(pieces) for number, pieces in split.pieces.items()},
            rows=split.rows,
            bytes=split.bytes,
            stream_time_ms=replay.stream_time_ms,
        )


class _Splitter:
    """Collects rows by their new partition, and writes them when there are enough."""

    def __init__(self, route: Route, writer: PieceWriter, share: int) -> None:
        self._partitioner = partitioner_by_name(route.specification.partitioner)
        self._route = route
        self._writer = writer
        self._share = share
        # Whoever builds a partition holds one piece of each source.
        self._piece_bytes = max(1, share // route.sources)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.pieces: dict[int, list[Piece]] = {}
        self.rows = self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if self._waiting_bytes >= self._share:
            self.write()

    def write(self) -> None:
        """Write the waiting rows, those of each partition by themselves and in their order."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        self._check_places(rows["key"])
        places = self._partitioner.partition_array(rows["key"], self._route.partitions).to_numpy()
        order = np.argsort(places, kind="stable")
        numbers, starts = np.unique(places[order], return_index=True)
        stops = np.append(starts[1:], len(order))
        for number, start, stop in zip(numbers.tolist(), starts, stops, strict=True):
            self._write_partition(number, rows.take(pa.array(order[start:stop])))

    def _check_places(self, keys: pa.ChunkedArray) -> None:
        """Accept keys that are where the partitioner puts them.

        Others have a writer that places them by a rule of its own, and would not find them again.
        One that is in two partitions would have the rows of both.

        Raises:
            MisplacedKeyError: One is elsewhere.
        """
        route = self._route
        places = self._partitioner.partition_array(keys, route.sources).to_numpy()
        misplaced = np.flatnonzero(places != route.number)
        if len(misplaced):
            key = keys[int(misplaced[0])].as_py()
            raise MisplacedKeyError(
                placed_elsewhere(key, route.specification, route.sources, route.number)
                + "or remove it there; a reshard would move it to where its writer does not look"
            )

    def _write_partition(self, number: int, rows: pa.Table) -> None:
        size = max(1, rows.num_rows * self._piece_bytes // max(rows.nbytes, 1))
        for batch in rows.combine_chunks().to_batches(max_chunksize=size):
            self.pieces.setdefault(number, []).extend(self._writer.add(batch))
