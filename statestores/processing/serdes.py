"""Serdes of what the runtime sends and lets wait: windowed keys, changes and waiting records.

Their names are those of the serdes inside with a prefix, so a store remembers both.
"""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeVar

from statestores.errors import CapabilityNotSupportedError, SerializationError
from statestores.processing.change import Change
from statestores.processing.record import Headers, Record
from statestores.serdes.windowed_serde import WindowedSerde
from statestores.spi import Serde

K = TypeVar("K")

_TIME = Struct(">q")
_WINDOW = Struct(">qq")
_SIZE = Struct(">i")
_ABSENT = -1
"""The size of what is ``None``."""


class _WithoutColumns(ABC):
    """The part of a serde that the runtime's own have not: columns."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in stored form."""

    def encode_array(self, values: Any) -> Any:
        """Refuse: the runtime writes row by row."""
        raise CapabilityNotSupportedError(f"{self.name!r} has no columns; encode value by value")

    def decode_array(self, data: Any) -> Any:
        """Refuse: the runtime reads row by row."""
        raise CapabilityNotSupportedError(f"{self.name!r} has no columns; decode value by value")

    def arrow_type(self) -> Any:
        """Refuse: there is no type of a column."""
        raise CapabilityNotSupportedError(f"{self.name!r} has no columns; decode value by value")


def windowed(key: Serde[K]) -> WindowedSerde[K]:
    """Return the serde of windowed keys: what a topic of windowed results has as its key serde."""
    return WindowedSerde(key)


class Pieces:
    """Bytes that are read piece by piece, each behind its size."""

    def __init__(self, data: bytes) -> None:
        """Begin at the beginning of *data*."""
        self.data = data
        self.at = 0

    def piece(self) -> bytes | None:
        """Return the next piece; ``None`` where ``None`` was written."""
        size = self.number(_SIZE)
        if size == _ABSENT:
            return None
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise SerializationError(f"{self.data!r} ends within a piece of {size} bytes")
        return self.data[start : self.at]

    def time(self) -> int:
        """Return the next eight bytes as a number."""
        return self.number(_TIME)

    def number(self, form: Struct) -> int:
        """Return the next number of *form*."""
        try:
            number: int = form.unpack_from(self.data, self.at)[0]
        except struct.error as error:
            raise SerializationError(f"{self.data!r} ends within a number") from error
        self.at += form.size
        return number


def piece(data: bytes | None) -> bytes:
    """Return *data* behind its size."""
    return _SIZE.pack(_ABSENT) if data is None else _SIZE.pack(len(data)) + data


def header_bytes(headers: Headers) -> bytes:
    """Return *headers*, each as the pieces of its name and of its data."""
    return b"".join(piece(name.encode()) + piece(data) for name, data in headers)


def next_header(pieces: Pieces) -> tuple[str, bytes]:
    """Return the header that comes next."""
    return (pieces.piece() or b"").decode(), pieces.piece() or b""


def time_bytes(time_ms: int) -> bytes:
    """Return a time as eight bytes that sort as times from 0 on do."""
    return _TIME.pack(time_ms)


def encoded(serde: Serde[Any], value: Any) -> bytes | None:
    """Return the bytes of *value*; ``None`` stays ``None``."""
    return None if value is None else serde.encode(value)


def decoded(serde: Serde[Any], data: bytes | None) -> Any:
    """Return the value of *data*; ``None`` stays ``None``."""
    return None if data is None else serde.decode(data)


@dataclass(frozen=True)
class ChangeSerde(_WithoutColumns):
    """Both values of a change, as a repartition topic of a table carries them."""

    inner: Serde[Any]
    """The serde of the values."""

    sorted = False

    @property
    def name(self) -> str:
        """The name in stored form."""
        return f"change-{self.inner.name}"

    def encode(self, value: Change) -> bytes:
        """Return the pieces of the new and of the old value."""
        return piece(encoded(self.inner, value.new)) + piece(encoded(self.inner, value.old))

    def decode(self, data: bytes) -> Change:
        """Return a change without key and time: these are the record's."""
        pieces = Pieces(data)
        new = decoded(self.inner, pieces.piece())
        return Change(None, new, decoded(self.inner, pieces.piece()), 0)


@dataclass(frozen=True)
class RecordCodec:
    """A record that waits in a store, as bytes."""

    key: Serde[Any]
    """The serde of its key."""

    value: Serde[Any]
    """The serde of its value."""

    def encode(self, record: Record[Any, Any], *more: Any) -> bytes:
        """Return the record, and *more* values behind it."""
        key, value, time_ms, headers = record
        parts = [piece(encoded(self.key, key)), piece(encoded(self.value, value))]
        parts += [time_bytes(time_ms), time_bytes(len(headers))]
        parts.append(header_bytes(headers))
        parts += [piece(encoded(self.value, each)) for each in more]
        return b"".join(parts)

    def decode(self, data: bytes) -> tuple[Record[Any, Any], Pieces]:
        """Return the record, and the place from which more is read."""
        pieces = Pieces(data)
        key = decoded(self.key, pieces.piece())
        value = decoded(self.value, pieces.piece())
        time_ms, count = pieces.time(), pieces.time()
        headers: Headers = tuple(next_header(pieces) for _ in range(count))
        return Record(key, value, time_ms, headers), pieces
