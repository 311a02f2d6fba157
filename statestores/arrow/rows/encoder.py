"""Whole columns of changes or content as the rows of an engine, in the order of their keys (LAY).

What `statestores.semantics` does for one put is done here for columns. A store that takes the rows
by `EngineStore.commit_rows` holds what it would hold after putting them one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.progress import NO_STREAM_TIME

Pairs: TypeAlias = Iterator[tuple[bytes, bytes | None]]

LARGE = pa.large_binary()
"""The type of encoded columns: many changes together may exceed the 2 GiB of 32-bit offsets."""


def _constant(data: bytes) -> pa.Scalar:
    """Return *data* without `pyarrow.scalar`, which imports pandas where that is installed."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    return pa.Array.from_buffers(LARGE, 1, [None, offsets, pa.py_buffer(data)])[0]


END_OF_KEY = _constant(b"\x00\x00")
"""What ends an escaped key that is followed by more."""

NO_BYTES = _constant(b"")

_PIECE_ROWS = 1_024
"""Rows that are Python objects at a time: so few are still in the processor's cache when the engine
takes them, and leave their memory to the next ones."""


class RowEncoder(ABC):
    """Encodes columns for one open store; each kind of store has its own."""

    runs: ClassVar[int] = 1
    """How many runs of rows content becomes, each in the order of its keys: a namespace each. All
    of them are in memory at once, if there are several."""

    folds: ClassVar[bool] = False
    """Whether only the last change of each key counts, so that `fold` drops others."""

    deletes: ClassVar[bool] = True
    """Whether a change without a value deletes a row of the store, instead of being one."""

    @abstractmethod
    def content(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[Iterable[SortedRows]]:
        """Yield the runs of rows of *pieces* of content, which are in its order.

        Each run is in parts, one after the other, and must be read to its end before the next.
        """

    @abstractmethod
    def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
        """Return *changes* in log order, those of one commit or several, as rows of the store.

        *is_empty* says that the store holds nothing, so that deletions need not be written.

        Requires: nothing is pending in the store.
        """

    def fold(self, changes: pa.RecordBatch, *, is_empty: bool) -> tuple[pa.RecordBatch, int]:
        """Return those of *changes* that have an effect, and the highest time of all of them.

        Encode them in place of all. *is_empty* is that of `changes`.
        """
        del is_empty
        return changes, NO_STREAM_TIME


def pairs(keys: pa.Array, values: pa.Array, *, namespace: bytes = b"") -> Pairs:
    """Return *keys* behind *namespace* with their *values*, made a piece at a time."""
    return chain.from_iterable(
        zip(
            _listed(keys.slice(start, _PIECE_ROWS), namespace),
            values.slice(start, _PIECE_ROWS).to_pylist(),
            strict=True,
        )
        for start in range(0, len(keys), _PIECE_ROWS)
    )


def _listed(keys: pa.Array, namespace: bytes) -> list[bytes]:
    """Return *keys* behind *namespace*: of a list that takes less time than of a column."""
    listed: list[bytes] = keys.to_pylist()
    return [namespace + key for key in listed] if namespace else listed


def joined(prefix: bytes, *columns: pa.Array | pa.Scalar) -> pa.Array:
    """Return the bytes of *columns*, row by row, behind *prefix*; null where one of them is."""
    return pc.binary_join_element_wise(pa.scalar(prefix, LARGE), *columns, NO_BYTES)


def big_endian(numbers: pa.Array) -> pa.Array:
    """Return *numbers* of eight bytes, without nulls, as bytes."""
    stored = numbers.to_numpy(zero_copy_only=False)
    stored = stored.astype(stored.dtype.newbyteorder(">"))
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * stored.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(stored)]
    return pa.Array.from_buffers(LARGE, len(numbers), buffers)


def escaped(keys: pa.Array) -> pa.Array:
    """Return *keys* as `statestores.semantics.rows.escaped_keys.escape` does."""
    return pc.replace_substring(keys.cast(LARGE), b"\x00", b"\x00\xff")
