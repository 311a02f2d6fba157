"""Protobuf with the schema's number before each message, as Confluent's serializers write it."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, TypeVar

from statestores.errors import SerializationError
from statestores.serdes.arrow_columns import pyarrow
from statestores.serdes.optional_packages import require
from statestores.serdes.refusals import refused_bytes, refused_value
from statestores.serdes.schemas.columns import decode_column, encode_column
from statestores.serdes.schemas.framing import framed, unframed
from statestores.serdes.schemas.registry import SchemaRegistry
from statestores.serdes.serde_registry import PROTOBUF

M = TypeVar("M")

_KIND: Final = "PROTOBUF"
_KNOWN: Final = "google/protobuf/"


@dataclass(frozen=True, slots=True)
class ProtobufSerde(Generic[M]):
    """Messages of one type, under a subject of a schema registry (SRD-32, SRD-34).

    Made by `protobuf`. Messages are read by their class, whatever version wrote them, as Protobuf
    does it: fields that the class does not know are kept.
    """

    subject: str
    """The subject in the registry."""

    message: type[M]
    """The class that ``protoc`` made."""

    registry: SchemaRegistry = field(compare=False)
    """Where the schemas are."""

    register: bool = field(default=False, compare=False)
    """Whether the first write registers the schema, if it is not there."""

    sorted: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return f"{PROTOBUF}{self.subject}"

    def encode(self, value: M) -> bytes:
        if type(value) is not self.message:
            raise refused_value(self.name, value, f"a {self.message.__name__}")
        given: Any = value
        schema, place = _written(given.DESCRIPTOR)
        number = self.registry.number(self.subject, schema, _KIND, register=self.register)
        try:
            # One message has one form, if one library writes it.
            body: bytes = given.SerializeToString(deterministic=True)
        except Exception as error:  # the driver's own class, of a message with fields missing
            raise refused_value(self.name, value, f"a whole message; {error}") from error
        return framed(number, place, body)

    def decode(self, data: bytes) -> M:
        _, rest = unframed(self.name, data)
        made: Any = self.message()
        _, place = _written(made.DESCRIPTOR)
        if not rest.startswith(place):
            reason = f"they are another message of the schema than {self.message.__name__}"
            raise refused_bytes(self.name, data, reason)
        try:
            made.ParseFromString(rest[len(place) :])
        except Exception as error:  # the driver's own class
            raise refused_bytes(self.name, data, f"they are no such message, {error}") from error
        message: M = made
        return message

    def encode_array(self, values: Any) -> Any:
        return encode_column(self, values)

    def decode_array(self, data: Any) -> Any:
        return decode_column(self, data)

    def arrow_type(self) -> Any:
        return pyarrow().binary()


def protobuf(
    registry: SchemaRegistry, subject: str, message: type[M], *, register: bool = False
) -> ProtobufSerde[M]:
    """Return the serde of messages of the class *message* under *subject*.

    Its name, which a store remembers, is that of the subject, so pass it when you open the store,
    or register it with `register_serde`.

    Args:
        registry: Where the schemas are.
        subject: As ``orders-value``.
        message: The class that ``protoc`` made.
        register: Whether to register the schema, if it is not there. By default it has to be.

    Raises:
        MissingDriverError: protobuf is not installed.
        SerializationError: *message* is no such class, or its file imports others, which this
            serde does not register.
    """
    driver = require("google.protobuf.message", purpose="a serde of Protobuf", extra="schemas")
    given: Any = message
    is_message = isinstance(given, type) and issubclass(given, driver.Message)
    if not is_message:
        raise SerializationError(f"a message is a class that protoc made, got {message!r}")
    descriptor: Any = getattr(given, "DESCRIPTOR")  # noqa: B009  # a checker sees a bare type
    imported = [each.name for each in descriptor.file.dependencies]
    if any(not name.startswith(_KNOWN) for name in imported):
        raise SerializationError(
            f"the file of {message.__name__} imports {', '.join(imported)}, and only files of "
            "google.protobuf may be imported here; use a serde of your own for it"
        )
    return ProtobufSerde(subject, message, registry, register)


@cache
def _written(descriptor: Any) -> tuple[str, bytes]:
    """Return the schema of a message's file, as a registry has it, and the message's `_place`."""
    return b64encode(descriptor.file.serialized_pb).decode(), _place(descriptor)


def _place(descriptor: Any) -> bytes:
    """Return which message of its file it is: the number of places, and each from the outside in.

    The first message of a file, which most are, is a byte 0 alone.
    """
    places: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = (
            descriptor.file.message_types_by_name if outer is None else outer.nested_types_by_name
        )
        places.insert(0, list(siblings.values()).index(descriptor))
        descriptor = outer
    if places == [0]:
        return b"\x00"
    return b"".join(bytes(_varint(each << 1)) for each in (len(places), *places))


def _varint(number: int) -> Iterator[int]:
    while number > 0x7F:  # noqa: PLR2004  # seven bits, and whether there are more
        yield number & 0x7F | 0x80
        number >>= 7
    yield number
