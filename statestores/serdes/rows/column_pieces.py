"""Bytes of many values in one buffer, cut out of it and put into another, by numpy.

Whoever reads a number at a place has made sure that it lies in the buffer: what is there is bytes
of anybody's.
"""

from dataclasses import dataclass
from typing import Any

from statestores.serdes.arrow_columns import binary_data, binary_offsets, numpy, pyarrow


@dataclass(frozen=True, slots=True)
class Pieces:
    """Many pieces of one buffer."""

    data: Any
    """The buffer, as ``uint8``."""

    starts: Any
    """Where each piece begins, as ``int64``."""

    ends: Any
    """Where it ends, which is not before that."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Any:
        """How many bytes each has."""
        return self.ends - self.starts

    def taken(self, mask: Any) -> "Pieces":
        """Return those where *mask* is true, or at its places."""
        return Pieces(self.data, self.starts[mask], self.ends[mask])

    def places(self) -> Any:
        """Return the place of each byte, piece after piece."""
        np = numpy()
        lengths = self.lengths
        before = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        return np.repeat(self.starts - before, lengths) + np.arange(total, dtype=np.int64)

    def joined(self) -> Any:
        """Return the pieces one after the other."""
        np = numpy()
        if len(self) and bool((self.ends[:-1] == self.starts[1:]).all()):
            return np.ascontiguousarray(self.data[self.starts[0] : self.ends[-1]])
        return self.data[self.places()]


def pieces_of(array: Any) -> Pieces:
    """Return the values of a ``pyarrow.binary()`` array; a null is empty."""
    np = numpy()
    if len(array) == 0:
        nothing = np.zeros(0, np.int64)
        return Pieces(np.zeros(0, np.uint8), nothing, nothing)
    offsets = binary_offsets(array).astype(np.int64)
    ends = offsets[1:].copy()
    if array.null_count:
        nulls = null_mask(array)
        ends[nulls] = offsets[:-1][nulls]
    return Pieces(binary_data(array), offsets[:-1], ends)


def null_mask(array: Any) -> Any:
    """Return where *array* is null, as ``bool``."""
    np = numpy()
    if array.null_count == 0:
        return np.zeros(len(array), bool)
    return array.is_null().to_numpy(zero_copy_only=False)


def rows_at(data: Any, places: Any, width: int) -> Any:
    """Return the *width* bytes at each of *places*, as a row each."""
    np = numpy()
    if len(places) == 0:
        return np.zeros((0, width), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, width)[places]


def numbers_at(data: Any, places: Any, dtype: str) -> Any:
    """Return the number of *dtype* at each of *places*."""
    np = numpy()
    width = np.dtype(dtype).itemsize
    return np.ascontiguousarray(rows_at(data, places, width)).view(dtype)[:, 0]


def put_rows(out: Any, places: Any, rows: Any) -> None:
    """Put each row of bytes at its place in *out*."""
    np = numpy()
    if rows.size:
        np.lib.stride_tricks.sliding_window_view(out, rows.shape[1], writeable=True)[places] = rows


def put_pieces(out: Any, starts: Any, pieces: Pieces) -> None:
    """Put each of *pieces* at its start in *out*."""
    goal = Pieces(out, starts, starts + pieces.lengths)
    out[goal.places()] = pieces.joined()


def as_rows(numbers: Any) -> Any:
    """Return each of *numbers* as a row of its bytes."""
    np = numpy()
    flat = np.ascontiguousarray(numbers)
    return flat.view(np.uint8).reshape(len(flat), flat.dtype.itemsize)


def binary_array(pieces: Pieces, nulls: Any) -> Any:
    """Return *pieces* as a ``pyarrow.binary()`` array, null where *nulls* says so.

    Raises:
        pyarrow.ArrowCapacityError: They have 2 GiB or more.
    """
    np, pa = numpy(), pyarrow()
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(pieces.lengths, out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        raise pa.ArrowCapacityError("an array of bytes has at most 2 GiB")
    return pa.Array.from_buffers(
        pa.binary(),
        len(pieces),
        [validity(nulls), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(pieces.joined())],
    )


def validity(nulls: Any) -> Any:
    """Return the buffer in which Arrow has what is not null; ``None`` if nothing is."""
    if not nulls.any():
        return None
    return pyarrow().py_buffer(numpy().packbits(~nulls, bitorder="little"))


def expanded(array: Any, nulls: Any) -> Any:
    """Return *array*, of the values that are not null, with the nulls between them."""
    np, pa = numpy(), pyarrow()
    if not nulls.any():
        return array
    places = np.cumsum(~nulls) - 1
    return array.take(pa.array(places, pa.int64(), mask=nulls))
