"""The serde of rows: dicts of the fields of a schema, and columns of structs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.arrow_columns import as_binary, map_chunks, plain_value, pyarrow
from statestores.serdes.refusals import refused_bytes, refused_column, refused_value
from statestores.serdes.rows.arrow_schema import arrow_type, is_schema, schema_from_arrow
from statestores.serdes.rows.cells import CellError, time_zone
from statestores.serdes.rows.column_decoding import decode_structs
from statestores.serdes.rows.column_encoding import encode_structs
from statestores.serdes.rows.column_leaves import LeafError
from statestores.serdes.rows.evolution import why_not_evolved
from statestores.serdes.rows.hidden_nulls import without_hidden_nulls
from statestores.serdes.rows.plain_values import row_from_plain
from statestores.serdes.rows.row_bytes import decode_row, encode_row
from statestores.serdes.rows.schema import (
    RowType,
    StructType,
    TimestampType,
    check_depth,
    inner_types,
)
from statestores.serdes.rows.schema_text import schema_from_text

ROWS: Final = "row<"
"""What the name begins with; the fields and ``>`` follow."""

_SHOWN: Final = f"{ROWS}...>"
"""What messages call it: the whole name may have thousands of fields."""


@dataclass(frozen=True, slots=True)
class RowSerde:
    """Rows of a schema, which is part of the name and so of what a store remembers (SRD-35).

    Made by `row`. A row is a dict with every field, in any order; a null is ``None``. In Arrow it
    is a struct. Not sorted; `row_sorted` is, for keys.
    """

    schema: StructType
    """The fields."""

    sorted: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return f"row{str(self.schema).removeprefix('struct')}"

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"row({str(self.schema)!r})"

    def encode(self, value: dict[str, Any]) -> bytes:
        try:
            return encode_row(self.schema, value)
        except CellError as error:
            raise refused_value(_SHOWN, value, f"its rows: {error}") from error

    def decode(self, data: bytes) -> dict[str, Any]:
        given: object = data  # what the annotation says holds after this
        if not isinstance(given, bytes):
            raise refused_bytes(_SHOWN, data, "they are no bytes")
        try:
            return decode_row(self.schema, data)
        except CellError as error:
            raise refused_bytes(_SHOWN, data, str(error)) from error

    def encode_plain(self, value: Any) -> bytes:
        """Return the bytes of a row that is written as JSON writes it (SRD-41).

        Raises:
            SerializationError: It is no row of the schema.
        """
        try:
            return self.encode(row_from_plain(self.schema, value))
        except CellError as error:
            raise refused_value(_SHOWN, value, f"its rows as JSON: {error}") from error

    def encode_array(self, values: Any) -> Any:
        return structs_encoded(_SHOWN, partial(encode_structs, self.schema), self.encode, values)

    def decode_array(self, data: Any) -> Any:
        columns = partial(decode_structs, self.schema)
        return structs_decoded(_SHOWN, columns, self.decode, data, self.arrow_type())

    def arrow_type(self) -> Any:
        return arrow_type(self.schema)

    def why_unreadable(self, written: str) -> str | None:
        """Return why this serde cannot read what the serde named *written* has written.

        ``None`` means that it can: the schema is that one, or has evolved from it (SRD-40).
        """
        if written == self.name:
            return None
        if not written.startswith(ROWS):
            return f"is {written!r}, expected {self.name!r}"
        try:
            before = row_by_name(written).schema
        except InvalidArgumentError as error:
            return f"has a schema that cannot be read, {error}"
        why = why_not_evolved(before, self.schema)
        return None if why is None else f"has a schema that this one has not evolved from: {why}"


def row(schema: Any) -> RowSerde:
    """Return the serde of rows with *schema*.

    Args:
        schema: A text, as ``"id: int64 not null, tags: list<string>"``, with Arrow's names of
            types; or a ``pyarrow.Schema``; or a ``pyarrow.struct``.

    Raises:
        InvalidArgumentError: It has no fields, a type that rows do not have, or a zone that is not
            known here; the message names the field.
    """
    return RowSerde(read_schema(schema))


def read_schema(schema: Any) -> StructType:
    """Return a schema of rows from what users give.

    Raises:
        InvalidArgumentError: It is none.
    """
    if isinstance(schema, str):
        found = schema_from_text(schema)
    elif isinstance(schema, StructType):
        found = schema
    elif is_schema(schema):
        found = schema_from_arrow(schema)
    else:
        raise InvalidArgumentError(
            "a schema is a text such as 'id: int64 not null, name: string', or one of pyarrow, got "
            f"{schema!r}"
        )
    check_depth(found)
    _check_zones(found)
    return found


def row_by_name(name: str) -> RowSerde:
    """Return the serde whose name, which begins with `ROWS`, is *name*.

    Raises:
        InvalidArgumentError: It is not one that a serde of rows has.
    """
    found = RowSerde(schema_from_text(f"struct{name.removeprefix('row')}"))
    if found.name != name:
        raise InvalidArgumentError(f"no serde has the name {name!r}; it would be {found.name!r}")
    return found


def _check_zones(kind: RowType) -> None:
    """Accept zones that this machine knows, so that a mistake is found before a row is there."""
    if isinstance(kind, TimestampType) and kind.zone is not None:
        try:
            time_zone(kind.zone)
        except CellError as error:
            raise InvalidArgumentError(str(error)) from error
    for inner in inner_types(kind):
        _check_zones(inner)


def structs_encoded(
    serde: str, columns: Callable[[Any], Any], one: Callable[[Any], object], values: Any
) -> Any:
    """Return the structs *values* as bytes, by *columns*; *one* encodes a single value.

    Raises:
        SerializationError: It is no column of structs, or a value is refused.
    """

    def encode(array: Any) -> Any:
        pa = pyarrow()
        if pa.types.is_null(array.type):
            return array.cast(pa.binary())
        if not pa.types.is_struct(array.type):
            raise refused_column(serde, array.type, "structs")
        try:
            return columns(array)
        except (LeafError, pa.ArrowException) as error:
            raise _told_by_one(serde, one, array, error) from error

    return map_chunks(encode, values, pyarrow().binary())


def structs_decoded(
    serde: str, columns: Callable[[Any], Any], one: Callable[[Any], object], data: Any, kind: Any
) -> Any:
    """Return the bytes *data* as structs of *kind*, by *columns*; *one* decodes a single value.

    Raises:
        SerializationError: It is no column of bytes, or a value is refused.
    """

    def decode(array: Any) -> Any:
        binary = as_binary(array, serde)
        try:
            return without_hidden_nulls(columns(binary))
        except (LeafError, pyarrow().ArrowException) as error:
            raise _told_by_one(serde, one, binary, error) from error

    return map_chunks(decode, data, kind)


def _told_by_one(serde: str, function: Any, array: Any, error: Exception) -> SerializationError:
    """Return the error of the first value that is refused, as *function* tells it for one.

    Where none is refused alone, it is the column that is: by its type, or for its size.
    """
    pa = pyarrow()
    try:
        for value in array:
            if value.is_valid:
                function(plain_value(value.as_py(), array.type))
    except SerializationError as told:
        return told
    except (pa.ArrowException, ValueError, OverflowError):
        pass  # what Arrow cannot give as a value, the column's own error tells
    return SerializationError(
        f"the serde {serde!r} cannot take the column: {error}; at most 2 GiB go into one chunk"
    )
