"""Serdes by the name under which a store remembers them."""

import os
from importlib import import_module
from typing import Any, Final

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes.float64_serde import float64
from statestores.serdes.int64_serde import int64, int64_sorted
from statestores.serdes.json_serde import json
from statestores.serdes.list_serde import LISTS, ListSerde
from statestores.serdes.mean_serde import MEANS
from statestores.serdes.msgpack_serde import msgpack
from statestores.serdes.raw_serde import raw
from statestores.serdes.rows.row_serde import ROWS, row_by_name
from statestores.serdes.rows.sorted_row_serde import SORTED_ROWS, sorted_row_by_name
from statestores.serdes.stamped_serde import STAMPED, StampedSerde
from statestores.serdes.utf8_serde import utf8
from statestores.serdes.uuid_serde import uuid
from statestores.serdes.windowed_serde import WINDOWED, WindowedSerde
from statestores.spi.serde import Serde

AVRO: Final = "avro:"
PROTOBUF: Final = "protobuf:"
"""What the names of serdes with a schema begin with; the subject follows."""

REGISTRY_VARIABLE: Final = "STATESTORES_SCHEMA_REGISTRY"
"""The environment variable with the registry's URL, for those who open stores by what is written in
them: the command line, Spark's workers."""

_BUILT_IN: tuple[Serde[Any], ...] = (raw, utf8, int64, int64_sorted, float64, json, msgpack, uuid)

_registered: dict[str, Serde[Any]] = {serde.name: serde for serde in (*_BUILT_IN, MEANS)}


def register_serde(serde: Serde[Any]) -> None:
    """Make *serde* known under its name, in this process; the same one again is no error.

    Whoever opens a store by what is written in it, such as the command line or Spark, finds the
    serde only if it is registered there too.

    Raises:
        InvalidTypeError: The name is not a non-empty ``str``.
        InvalidArgumentError: Another serde has the name.
    """
    name: object = serde.name
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"a serde's name is a str that is not empty, got {name!r}")
    present = _registered.setdefault(name, serde)
    if present != serde:
        raise InvalidArgumentError(
            f"another serde is registered as {name!r}: {present!r}; "
            "a name stands for one byte format for ever, so choose another name"
        )


def serde_by_name(name: str) -> Serde[Any]:
    """Return the serde that is registered as *name*, or is made of such a one by its name.

    Raises:
        InvalidArgumentError: There is none.
    """
    found = _registered.get(name)
    if found is None and name.startswith(STAMPED):
        return StampedSerde(serde_by_name(name.removeprefix(STAMPED)))
    if found is None and name.startswith(WINDOWED):
        return WindowedSerde(serde_by_name(name.removeprefix(WINDOWED)))
    if found is None and name.startswith(LISTS):
        return ListSerde(serde_by_name(name.removeprefix(LISTS)))
    if found is None and name.startswith(ROWS):
        return row_by_name(name)
    if found is None and name.startswith(SORTED_ROWS):
        return sorted_row_by_name(name)
    url = os.environ.get(REGISTRY_VARIABLE)
    if found is None and url and name.startswith(AVRO):
        # Whoever has no schemas does not wait for this at the import of the library.
        schemas = import_module("statestores.serdes.schemas")
        reader: Serde[Any] = schemas.avro(schemas.SchemaRegistry(url), name.removeprefix(AVRO))
        return reader
    if found is None and name.startswith((AVRO, PROTOBUF)):
        raise InvalidArgumentError(
            f"the serde {name!r} needs a schema registry, which no store names; register it with "
            "register_serde(...)"
            + (f", or set {REGISTRY_VARIABLE} to its URL" if name.startswith(AVRO) else "")
        )
    if found is None:
        raise InvalidArgumentError(
            f"no serde is registered as {name!r}; known: {', '.join(sorted(_registered))}; "
            "register your own with register_serde(...)"
        )
    return found
