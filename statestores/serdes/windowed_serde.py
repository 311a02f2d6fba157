"""Keys of windowed results: a key and its window, and their serde."""

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from statestores.errors import SerializationError
from statestores.serdes.arrow_columns import joined_fields, map_chunks, pyarrow
from statestores.serdes.int64_serde import int64
from statestores.spi.records import new_tuple
from statestores.spi.serde import Serde

K = TypeVar("K")

WINDOWED: Final = "windowed-"
"""What the name begins with; that of the key's serde follows."""

_WINDOW = Struct(">qq")


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed result: a key and the window that the result is of."""

    key: K
    """The key of the records in the window."""

    start_ms: int
    """When the window starts, inclusive."""

    end_ms: int
    """When it ends: exclusive for tumbling and hopping windows, inclusive for sliding windows and
    sessions."""


@dataclass(frozen=True)
class WindowedSerde(Generic[K]):
    """A key in front of the start and the end of its window: eight bytes each, big-endian."""

    inner: Serde[K]
    """The serde of the key."""

    sorted = False

    @property
    def name(self) -> str:
        """The name in stored form."""
        return f"{WINDOWED}{self.inner.name}"

    def encode(self, value: Windowed[K]) -> bytes:
        """Return the bytes of the key, of the start and of the end."""
        if not isinstance(value, Windowed):
            raise SerializationError(
                f"a windowed key is a statestores.processing.Windowed, got {value!r}; give the "
                "topic the serde of the key itself"
            )
        return self.inner.encode(value.key) + _WINDOW.pack(value.start_ms, value.end_ms)

    def decode(self, data: bytes) -> Windowed[K]:
        """Return the key and its window."""
        if len(data) < _WINDOW.size:
            raise SerializationError(f"{data!r} is no windowed key: it has no two times")
        start_ms, end_ms = _WINDOW.unpack_from(data, len(data) - 16)
        return new_tuple(Windowed, (self.inner.decode(data[:-16]), start_ms, end_ms))

    def encode_array(self, values: Any) -> Any:
        """Return a column of bytes from one of structs of key, start and end, as `decode_array`.

        Raises:
            SerializationError: It is of other structs, or a key or a time is missing.
            CapabilityNotSupportedError: The serde of the key writes no columns.
        """
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        times = int64.encode_array
        fields = {"key": self.inner.encode_array, "start_ms": times, "end_ms": times}
        return joined_fields(array, fields, self.name, (0, 1, 2))

    def decode_array(self, data: Any) -> Any:
        """Return a column of structs of key, start and end.

        Raises:
            SerializationError: A value is no windowed key.
        """

        def chunk(array: Any) -> Any:
            rows = array.to_pylist()
            short = [row for row in rows if row is not None and len(row) < _WINDOW.size]
            if short:
                raise SerializationError(f"{short[0]!r} is no windowed key: it has no two times")
            keys = [None if row is None else row[:-16] for row in rows]
            windows = [(None, None) if row is None else _WINDOW.unpack(row[-16:]) for row in rows]
            pa = pyarrow()
            return pa.StructArray.from_arrays(
                [
                    self.inner.decode_array(pa.array(keys, pa.binary())),
                    pa.array([start for start, _ in windows], pa.int64()),
                    pa.array([end for _, end in windows], pa.int64()),
                ],
                fields=list(self.arrow_type()),
                mask=array.is_null(),
            )

        return map_chunks(chunk, data, self.arrow_type())

    def arrow_type(self) -> Any:
        """Return the type of the structs."""
        pa = pyarrow()
        return pa.struct(
            [("key", self.inner.arrow_type()), ("start_ms", pa.int64()), ("end_ms", pa.int64())]
        )
