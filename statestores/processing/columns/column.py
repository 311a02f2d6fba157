"""One column of keys or values, in whichever form it is at hand: bytes, an Arrow array, or objects.

Invariant: every form that is asked for has the values that the serdes give record by record. Where
an Arrow array could not have them exactly, `NotOnColumnsError` is raised, and records are used.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statestores.serdes import float64, int64, int64_sorted, raw, utf8
from statestores.serdes.windowed_serde import Windowed, WindowedSerde
from statestores.spi import Serde

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_EXACT = (raw, utf8, int64, int64_sorted, float64)
"""Serdes of which an Arrow array holds just the values that they decode."""


_PYTHON: dict[pa.DataType, type] = {
    pa.binary(): bytes,
    pa.string(): str,
    pa.int64(): int,
    pa.float64(): float,
}
"""The type of the values that the serdes of those arrays take: no other one, though Arrow would."""


BOUND_MS = 1 << 62
"""From this time on, a time and the span of a window may need more than 64 bits: such a batch goes
record by record."""


class NotOnColumnsError(Exception):
    """Something cannot be done on columns exactly as on records. The runtime then uses records."""


def is_exact(serde: Serde[Any] | None) -> bool:
    """Whether an Arrow array has just the values of *serde*."""
    return any(serde is each or serde == each for each in _EXACT)


def exact_array(serde: Serde[Any], objects: list[Any]) -> pa.Array | None:
    """Return *objects* as the array that *serde* encodes; ``None`` where it is to see them itself.

    So what the serde refuses, it refuses value by value.
    """
    if not is_exact(serde):
        return None
    arrow_type = serde.arrow_type()
    if not set(map(type, objects)) <= {_PYTHON.get(arrow_type), type(None)}:
        return None
    try:
        return pa.array(objects, arrow_type)
    except (pa.ArrowException, ValueError, OverflowError):
        return None


class Column:
    """Values of one serde, or of none that is known; null where there is no value."""

    __slots__ = ("_array", "_bytes", "_objects", "_of", "_rows", "serde")

    def __init__(
        self,
        serde: Serde[Any] | None,
        *,
        data: pa.Array | None = None,
        array: pa.Array | None = None,
        objects: list[Any] | None = None,
    ) -> None:
        """Have at least one form: *data* are the bytes of *serde*."""
        self.serde = serde
        self._bytes = data
        self._array = array
        self._objects = objects
        self._of: Column | None = None
        self._rows: Numbers | None = None

    @classmethod
    def decoded(cls, data: pa.Array, serde: Serde[Any]) -> Self:
        """Return the column of *data*, every value of which *serde* has decoded.

        Raises:
            SerializationError: One cannot be decoded.
        """
        if is_exact(serde):
            return cls(serde, data=data, array=serde.decode_array(data))
        decode = serde.decode
        objects = [None if each is None else decode(each) for each in data.to_pylist()]
        return cls(serde, data=data, objects=objects)

    def __len__(self) -> int:
        return len(self._any() if self._rows is None else self._rows)

    def array(self) -> pa.Array:
        """Return the values as an Arrow array.

        Raises:
            NotOnColumnsError: No Arrow type is known that has them exactly.
        """
        if self.array_at_hand() is None:
            if not is_exact(self.serde) or self.serde is None:
                raise NotOnColumnsError("the values have no Arrow type")
            if self.bytes_at_hand() is not None:
                self._array = self.serde.decode_array(self._bytes)
            else:
                self._array = pa.array(self.objects_at_hand(), self.serde.arrow_type())
        return self._array

    def array_of(self, arrow_type: pa.DataType) -> pa.Array:
        """Return the values as an array, of *arrow_type* where they are objects of no known type.

        Raises:
            NotOnColumnsError: No Arrow type is known that has them exactly.
            pyarrow.ArrowException: An object is not of that type.
        """
        if self.serde is None and self.array_at_hand() is None and self.bytes_at_hand() is None:
            return pa.array(self.objects_at_hand(), arrow_type)
        return self.array()

    def objects(self) -> list[Any]:
        """Return the values as Python's."""
        if self.objects_at_hand() is None:
            if self.array_at_hand() is None and not is_exact(self.serde):
                decode: Any = None if self.serde is None else self.serde.decode
                data = self._any().to_pylist()
                self._objects = [None if each is None else decode(each) for each in data]
            else:
                self._objects = self.array().to_pylist()
        return self._objects  # type: ignore[return-value]  # no longer None

    def encoded(self, serde: Serde[Any]) -> pa.Array:
        """Return the bytes of the values by *serde*.

        Raises:
            SerializationError: One is not of the serde's type.
        """
        if serde == self.serde and self.bytes_at_hand() is not None:
            return self._bytes
        array = self.array_at_hand() if is_exact(serde) else None
        if array is not None and array.type == serde.arrow_type():
            data = serde.encode_array(array)
            if serde == self.serde:
                self._bytes = data  # a store and a topic take the same
            return data
        objects = self.objects()
        array = exact_array(serde, objects)
        if array is not None:
            return serde.encode_array(array)
        encode = serde.encode
        return pa.array([None if each is None else encode(each) for each in objects], pa.binary())

    def absent(self) -> Flags:
        """Return where there is no value."""
        form: Any = self.bytes_at_hand()
        if form is None:
            form = self.array_at_hand()
        if form is None:
            return np.array([each is None for each in self.objects()], np.bool_)
        if not form.null_count:
            return np.zeros(len(form), np.bool_)
        absent: Flags = form.is_null().to_numpy(zero_copy_only=False)
        return absent

    def take(self, rows: Numbers) -> "Column":
        """Return the values of *rows*, in their order.

        They are looked up when they are asked for: the next step may put others in their place.
        """
        taken = Column(self.serde)
        taken._of, taken._rows = self, rows  # of this class
        return taken

    def bytes_at_hand(self) -> pa.Array | None:
        """Return the values as bytes, if they are in that form."""
        if self._bytes is None and self._of is not None:
            form = self._of.bytes_at_hand()
            self._bytes = None if form is None else form.take(pa.array(self._rows))
        return self._bytes

    def array_at_hand(self) -> pa.Array | None:
        """Return the values as an Arrow array, likewise."""
        if self._array is None and self._of is not None:
            form = self._of.array_at_hand()
            self._array = None if form is None else form.take(pa.array(self._rows))
        return self._array

    def objects_at_hand(self) -> list[Any] | None:
        """Return the values as Python's, likewise."""
        if self._objects is None and self._of is not None and self._rows is not None:
            form = self._of.objects_at_hand()
            self._objects = None if form is None else [form[row] for row in self._rows.tolist()]
        return self._objects

    def _any(self) -> Any:
        for form in (self.bytes_at_hand, self.array_at_hand, self.objects_at_hand):
            found: Any = form()
            if found is not None:
                return found
        raise AssertionError("a column has at least one form")


class WindowedColumn(Column):
    """Keys of windowed results: a key and the window that the result is of."""

    __slots__ = ("_ends", "_inner", "_starts")

    def __init__(self, inner: Column, starts: Numbers, ends: Numbers) -> None:
        """Have the keys *inner*, each in the window from its start to its end."""
        super().__init__(None)
        self._inner = inner
        self._starts = starts
        self._ends = ends

    def __len__(self) -> int:
        return len(self._starts)

    def array(self) -> pa.Array:
        """Refuse: windowed keys are no Arrow values."""
        raise NotOnColumnsError("windowed keys have no Arrow type")

    def objects(self) -> list[Any]:
        """Return the keys with their windows."""
        parts = (self._inner.objects(), self._starts.tolist(), self._ends.tolist())
        return list(map(Windowed, *parts))

    def encoded(self, serde: Serde[Any]) -> pa.Array:
        """Return the bytes of the keys and of the windows."""
        if not isinstance(serde, WindowedSerde):
            return super().encoded(serde)
        inner = self._inner.encoded(serde.inner).to_pylist()
        times = np.stack([self._starts, self._ends], axis=1).astype(">i8").tobytes()
        data = [key + times[16 * row : 16 * row + 16] for row, key in enumerate(inner)]
        return pa.array(data, pa.binary())

    def absent(self) -> Flags:
        """Return that every key is there."""
        return np.zeros(len(self), np.bool_)

    def take(self, rows: Numbers) -> "Column":
        """Return the keys of *rows*."""
        return WindowedColumn(self._inner.take(rows), self._starts[rows], self._ends[rows])


def numbers_of(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return *values* as an array of int64 or of float64, if they are all of the one Python type.

    Raises:
        NotOnColumnsError: They are not, or an int has more than 64 bits.
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError as error:
            raise NotOnColumnsError("an int has more than 64 bits") from error
    if kinds == {float}:
        return np.array(values, np.float64)
    raise NotOnColumnsError(f"numbers of one type are needed, and these are {kinds}")
