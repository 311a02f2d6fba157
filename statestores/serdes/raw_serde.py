"""Bytes as they are."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from statestores.serdes.arrow_columns import as_binary, map_chunks, pyarrow
from statestores.serdes.refusals import refused_value
from statestores.spi.serde import Serde

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RawSerde:
    """Bytes as they are, which is what a specification without serdes means (SRD-10)."""

    name: str = field(default="bytes", init=False)
    sorted: bool = field(default=True, init=False)

    def encode(self, value: bytes) -> bytes:
        if type(value) is not bytes:
            raise refused_value(self.name, value, "bytes")
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def encode_array(self, values: Any) -> Any:
        return map_chunks(lambda array: as_binary(array, self.name), values, self.arrow_type())

    def decode_array(self, data: Any) -> Any:
        return self.encode_array(data)

    def arrow_type(self) -> Any:
        return pyarrow().binary()


raw = RawSerde()
"""Bytes as they are; a serde for the side of a store that has none."""


def serde_or_raw(serde: Serde[T] | None) -> Serde[T]:
    """Return *serde*, or `raw` where a specification has none."""
    # A specification without a serde is one of bytes: its constructors are typed so.
    return cast("Serde[T]", raw) if serde is None else serde
