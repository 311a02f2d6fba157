"""Several streams of rows, each in key order, read together: no key is in two of the steps.

Invariant: whatever a stream still has to give has keys above those of the steps so far. So whoever
merges the rows of a step needs no other rows, and the memory in use is about a batch of each
stream, however many rows there are; but for a key whose own rows are more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(slots=True)
class _Head:
    """The next rows of one stream."""

    source: Iterator[pa.RecordBatch]
    held: list[pa.RecordBatch] = field(default_factory=list)
    is_at_end: bool = False

    @property
    def last_key(self) -> bytes:
        """The highest key that is held."""
        key: bytes = self.held[-1].column("key")[-1].as_py()
        return key

    def load(self) -> None:
        """Hold one batch more, or notice that there is none."""
        for batch in self.source:
            if batch.num_rows:
                self.held.append(batch)
                return
        self.is_at_end = True

    def take_below(self, bound: bytes | None) -> list[pa.RecordBatch]:
        """Return the held rows with keys below *bound*, and hold the others only."""
        if bound is None:
            taken, self.held = self.held, []
            return taken
        taken = []
        while self.held:
            batch = self.held[0]
            below = _rows_below(batch.column("key"), bound)
            if below:
                taken.append(batch.slice(0, below))
            if below < batch.num_rows:
                self.held[0] = batch.slice(below)
                break
            del self.held[0]
        return taken


def aligned(
    streams: Sequence[Iterator[pa.RecordBatch]],
) -> Iterator[list[list[pa.RecordBatch]]]:
    """Yield the next rows of all *streams*, a list of batches of each, until there are none left.

    Each stream is in key order, with any number of rows for a key, in batches of any size. The keys
    of a step are in no other one, and are above those of the steps before.
    """
    heads = [_Head(stream) for stream in streams]
    while True:
        for head in heads:
            if not head.held and not head.is_at_end:
                head.load()
        unknown = [head for head in heads if not head.is_at_end]
        # The rows with the last key of a batch may go on in the next one.
        bound = min((head.last_key for head in unknown), default=None)
        step = [head.take_below(bound) for head in heads]
        if any(step):
            yield step
        elif bound is None:
            return
        else:
            for head in unknown:
                if head.last_key == bound:
                    head.load()


def _rows_below(keys: pa.Array, bound: bytes) -> int:
    """Return how many of *keys*, which ascend, are below *bound*."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() < bound:
            low = middle + 1
        else:
            high = middle
    return low
