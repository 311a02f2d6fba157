"""UUIDs as Kafka writes them: their text."""

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from statestores.serdes.arrow_columns import as_binary, is_text, map_chunks, map_values, pyarrow
from statestores.serdes.refusals import refused_bytes, refused_column, refused_value

UUID_BYTES: Final = 36
"""How long the text of each is."""


@dataclass(frozen=True, slots=True)
class UuidSerde:
    """The 36 characters of a UUID, in lower case: Kafka's UUID serde (SRD-30).

    The bytes sort as the UUIDs do. In Arrow, a UUID is its text.
    """

    name: str = field(default="uuid", init=False)
    sorted: bool = field(default=True, init=False)

    def encode(self, value: UUID) -> bytes:
        if not isinstance(value, UUID):
            raise refused_value(self.name, value, "a uuid.UUID")
        return str(value).encode()

    def decode(self, data: bytes) -> UUID:
        try:
            text = data.decode("ascii")
            value = UUID(text)
        except (ValueError, AttributeError) as error:
            raise refused_bytes(self.name, data, "they are not the text of a UUID") from error
        if str(value) != text:
            raise refused_bytes(self.name, data, f"the text of that UUID is {value}")
        return value

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        pa = pyarrow()
        if not is_text(array.type) and not pa.types.is_null(array.type):
            raise refused_column(self.name, array.type, "the texts of UUIDs")
        return map_values(self._canonical, array, pa.binary())

    def _canonical(self, text: str) -> bytes:
        data = text.encode()
        self.decode(data)
        return data

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        binary = as_binary(array, self.name)
        return map_values(lambda each: str(self.decode(each)), binary, self.arrow_type())

    def arrow_type(self) -> Any:
        return pyarrow().string()


uuid = UuidSerde()
"""UUIDs."""
