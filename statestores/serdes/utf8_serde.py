"""Text as UTF-8."""

from dataclasses import dataclass, field
from typing import Any

from statestores.serdes.arrow_columns import (
    as_binary,
    cast_to_binary,
    is_text,
    map_chunks,
    map_values,
    pyarrow,
)
from statestores.serdes.refusals import refused_bytes, refused_column, refused_value


@dataclass(frozen=True, slots=True)
class Utf8Serde:
    """Text as UTF-8: Kafka's String serde (SRD-11).

    Sorted: UTF-8 sorts by code points, and so does Python. Nothing is normalised: "é" as one code
    point and as two are different keys.
    """

    name: str = field(default="utf8", init=False)
    sorted: bool = field(default=True, init=False)

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise refused_value(self.name, value, "str")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise refused_value(self.name, value, "str without lone surrogates") from error

    def decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise refused_bytes(self.name, data, f"they are not UTF-8, {error.reason}") from error
        except AttributeError as error:
            raise refused_bytes(self.name, data, "it is no bytes") from error

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        pa = pyarrow()
        if not is_text(array.type) and not pa.types.is_null(array.type):
            raise refused_column(self.name, array.type, "string")
        return cast_to_binary(array, self.name)

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        pa = pyarrow()
        binary = as_binary(array, self.name)
        try:
            return binary.cast(pa.string())
        except pa.ArrowInvalid:
            # Decoding one by one says which value it is; and what is under a null does not count.
            return map_values(self.decode, binary, pa.string())

    def arrow_type(self) -> Any:
        return pyarrow().string()


utf8 = Utf8Serde()
"""``str`` as UTF-8."""
