"""The contract of a serde: one type of value, as bytes."""

from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


class Serde(Protocol[T]):
    """Turns values into bytes and back, one at a time and as Arrow columns.

    ``decode(encode(value)) == value`` for every value that `encode` accepts. ``None`` is never
    passed: absence is the store's business.
    """

    @property
    def name(self) -> str:
        """The name under which a store remembers its serde; it identifies the byte format."""

    @property
    def sorted(self) -> bool:
        """Whether the bytes sort as the values do, so that key ranges mean value ranges."""

    def encode(self, value: T) -> bytes:
        """Return the bytes of *value*.

        Raises:
            SerializationError: The value is not of the serde's type.
        """

    def decode(self, data: bytes) -> T:
        """Return the value of *data*.

        Raises:
            SerializationError: The bytes are not the serde's.
        """

    def encode_array(self, values: Any) -> Any:
        """Return a ``pyarrow`` binary array for an array of values; nulls stay null."""

    def decode_array(self, data: Any) -> Any:
        """Return a typed ``pyarrow`` array for a binary array; nulls stay null."""

    def arrow_type(self) -> Any:
        """Return the ``pyarrow.DataType`` that `decode_array` gives."""


@runtime_checkable
class EvolvingSerde(Protocol):
    """A serde whose schema is in its name, and may be a later one than that of a store (SRD-40)."""

    def why_unreadable(self, written: str) -> str | None:
        """Return why this serde cannot read all that the serde named *written* has written.

        The words go on a sentence that has begun with the field: "value ...". ``None`` means that
        it reads all of it, as the same values.
        """


def why_unreadable(serde: Serde[Any], written: str) -> str | None:
    """Return why *serde* cannot read what the serde named *written* has written; see above."""
    if serde.name == written:
        return None
    if isinstance(serde, EvolvingSerde):
        return serde.why_unreadable(written)
    return f"is {written!r}, expected {serde.name!r}"
