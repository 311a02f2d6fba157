"""Columns of values with a schema: in Arrow they are their bytes, as those of MessagePack are."""

from typing import Any, Protocol

from statestores.serdes.arrow_columns import as_binary, is_binary, map_chunks, map_values, pyarrow


class _Serde(Protocol):
    @property
    def name(self) -> str: ...

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...


def encode_column(serde: _Serde, values: Any) -> Any:
    """Return *values*, of any type, as bytes; bytes are checked and taken as they are (SRD-20)."""

    def chunk(array: Any) -> Any:
        if is_binary(array.type):
            return _checked(serde, array)
        return map_values(serde.encode, array, pyarrow().binary())

    return map_chunks(chunk, values, pyarrow().binary())


def decode_column(serde: _Serde, data: Any) -> Any:
    """Return *data* as it is, once it is certain that the serde reads it."""
    return map_chunks(lambda array: _checked(serde, array), data, pyarrow().binary())


def _checked(serde: _Serde, array: Any) -> Any:
    binary = as_binary(array, serde.name)
    for data in binary.to_pylist():
        if data is not None:
            serde.decode(data)
    return binary
