"""Avro with the schema's number before each value, as Confluent's serializers write it."""

import json
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from typing import Any, Final

from statestores.errors import SerializationError
from statestores.serdes.arrow_columns import pyarrow
from statestores.serdes.optional_packages import require
from statestores.serdes.refusals import refused_bytes, refused_value
from statestores.serdes.schemas.columns import decode_column, encode_column
from statestores.serdes.schemas.framing import framed, unframed
from statestores.serdes.schemas.registry import SchemaRegistry
from statestores.serdes.serde_registry import AVRO

_KIND: Final = "AVRO"


@dataclass(frozen=True, slots=True)
class AvroSerde:
    """Values of a subject of a schema registry (SRD-32, SRD-33). Made by `avro`.

    A value is read with the schema that it was written with, whose number it has, so a store may
    hold values of all versions of a subject. As keys, values of two versions are two.
    """

    subject: str
    """The subject in the registry."""

    registry: SchemaRegistry = field(compare=False)
    """Where the schemas are."""

    schema: str | None = None
    """The schema with which values are written, as JSON; ``None`` to read alone."""

    register: bool = field(default=False, compare=False)
    """Whether the first write registers the schema, if it is not there."""

    sorted: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return f"{AVRO}{self.subject}"

    def encode(self, value: Any) -> bytes:
        if self.schema is None:
            raise SerializationError(
                f"the serde {self.name!r} only reads: it was made without a schema; make one with "
                "the schema that it should write"
            )
        driver, parsed = _fastavro(), _parsed(self.schema)
        number = self.registry.number(self.subject, self.schema, _KIND, register=self.register)
        body = BytesIO()
        try:
            driver.schemaless_writer(body, parsed, value)
            data = body.getvalue()
            same = driver.schemaless_reader(BytesIO(data), parsed, None)
        except Exception as error:  # the driver raises whatever its types do
            raise refused_value(self.name, value, f"what its schema says; {error}") from error
        if same != value:
            expected = "values that Avro gives back as they are, with no field left out or rounded"
            raise refused_value(self.name, value, expected)
        return framed(number, data)

    def decode(self, data: bytes) -> Any:
        number, rest = unframed(self.name, data)
        parsed = _parsed(self.registry.schema(number, _KIND))
        body = BytesIO(rest)
        try:
            value = _fastavro().schemaless_reader(body, parsed, None)
        except Exception as error:  # the driver raises whatever its types do
            reason = f"they are no value of the schema {number}, {error}"
            raise refused_bytes(self.name, data, reason) from error
        if body.tell() != len(rest):
            raise refused_bytes(self.name, data, f"they go on after a value of schema {number}")
        if value is None:
            raise refused_bytes(self.name, data, "null stands for no value, and this is one")
        return value

    def encode_array(self, values: Any) -> Any:
        return encode_column(self, values)

    def decode_array(self, data: Any) -> Any:
        return decode_column(self, data)

    def arrow_type(self) -> Any:
        return pyarrow().binary()


def avro(
    registry: SchemaRegistry,
    subject: str,
    schema: str | dict[str, Any] | None = None,
    *,
    register: bool = False,
) -> AvroSerde:
    """Return the serde of the values of *subject*, written with *schema*.

    Its name, which a store remembers, is that of the subject: neither the registry's URL nor the
    schema. So pass it when you open the store, or register it with `register_serde`.

    Args:
        registry: Where the schemas are.
        subject: As ``orders-value``.
        schema: Avro's JSON, as a text or a dict; without it values are only read.
        register: Whether to register the schema, if it is not there. By default it has to be.

    Raises:
        MissingDriverError: fastavro is not installed.
        SerializationError: It is no schema.
    """
    _fastavro()
    text = json.dumps(schema) if isinstance(schema, dict) else schema
    if text is not None:
        _parsed(text)
    return AvroSerde(subject, registry, text, register)


@cache
def _parsed(schema: str) -> Any:
    try:
        return _fastavro().parse_schema(json.loads(schema))
    except Exception as error:
        raise SerializationError(f"{schema[:200]!r} is no schema of Avro: {error}") from error


@cache
def _fastavro() -> Any:
    return require("fastavro", purpose="a serde of Avro", extra="schemas")
