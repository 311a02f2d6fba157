"""The serde of keys of several fields, whose bytes sort as the fields do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from statestores.errors import InvalidArgumentError
from statestores.serdes.refusals import refused_bytes, refused_value
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.cells import CellError
from statestores.serdes.rows.plain_values import row_from_plain
from statestores.serdes.rows.row_serde import read_schema, structs_decoded, structs_encoded
from statestores.serdes.rows.schema import StructType
from statestores.serdes.rows.schema_text import schema_from_text
from statestores.serdes.rows.sorted_bytes import check_sortable, encode_fields, part_of_key
from statestores.serdes.rows.sorted_columns import decode_sorted, encode_sorted

SORTED_ROWS: Final = "row_sorted<"
"""What the name begins with; the fields and ``>`` follow."""

_SHOWN: Final = f"{SORTED_ROWS}...>"


@dataclass(frozen=True, slots=True)
class SortedRowSerde:
    """Keys of several fields, which sort by the first, then by the second, and so on (SRD-42).

    Made by `row_sorted`. A key is a dict with every field; in Arrow, a struct. Nulls come first,
    NaN last, and -0.0 is 0.0. Its schema never changes: the keys would be others.
    """

    schema: StructType
    """The fields."""

    sorted: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        return f"row_sorted{str(self.schema).removeprefix('struct')}"

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"row_sorted({str(self.schema)!r})"

    def encode(self, value: dict[str, Any]) -> bytes:
        try:
            return part_of_key(self.schema).encode(value)
        except CellError as error:
            raise refused_value(_SHOWN, value, f"its keys: {error}") from error

    def decode(self, data: bytes) -> dict[str, Any]:
        given: object = data  # what the annotation says holds after this
        if not isinstance(given, bytes):
            raise refused_bytes(_SHOWN, data, "they are no bytes")
        try:
            key, end = part_of_key(self.schema).decode(data, 0)
        except CellError as error:
            raise refused_bytes(_SHOWN, data, str(error)) from error
        if end != len(data):
            raise refused_bytes(_SHOWN, data, "they go on behind their end")
        found: dict[str, Any] = key
        return found

    def prefix(self, leading: Mapping[str, Any]) -> bytes:
        """Return the bytes with which all keys begin whose first fields have these values.

        For ``prefix_scan``: ``store.prefix_scan(keys.prefix({"country": "DE"}))``.

        Raises:
            InvalidArgumentError: They are not the first fields of the schema.
            SerializationError: A value is not of its field's type.
        """
        names = [each.name for each in self.schema.fields]
        if not leading or set(leading) != set(names[: len(leading)]):
            raise InvalidArgumentError(
                f"a prefix has the first fields of {', '.join(names)}, got {', '.join(leading)!r}"
            )
        try:
            return encode_fields(self.schema, leading)
        except CellError as error:
            raise refused_value(_SHOWN, dict(leading), f"its keys: {error}") from error

    def encode_plain(self, value: Any) -> bytes:
        """Return the bytes of a key that is written as JSON writes it (SRD-41).

        Raises:
            SerializationError: It is no key of the schema.
        """
        try:
            return self.encode(row_from_plain(self.schema, value))
        except CellError as error:
            raise refused_value(_SHOWN, value, f"its keys as JSON: {error}") from error

    def encode_array(self, values: Any) -> Any:
        return structs_encoded(_SHOWN, partial(encode_sorted, self.schema), self.encode, values)

    def decode_array(self, data: Any) -> Any:
        columns = partial(decode_sorted, self.schema)
        return structs_decoded(_SHOWN, columns, self.decode, data, self.arrow_type())

    def arrow_type(self) -> Any:
        return arrow_type(self.schema)


def row_sorted(schema: Any) -> SortedRowSerde:
    """Return the serde of keys with the fields of *schema*, in the order by which they sort.

    Args:
        schema: As of `row`.

    Raises:
        InvalidArgumentError: As `row`; or a field is a list or a map, which have no order here.
    """
    found = read_schema(schema)
    check_sortable(found)
    return SortedRowSerde(found)


def sorted_row_by_name(name: str) -> SortedRowSerde:
    """Return the serde whose name, which begins with `SORTED_ROWS`, is *name*.

    Raises:
        InvalidArgumentError: It is not one that a serde of keys has.
    """
    found = SortedRowSerde(schema_from_text(f"struct{name.removeprefix('row_sorted')}"))
    check_sortable(found.schema)
    if found.name != name:
        raise InvalidArgumentError(f"no serde has the name {name!r}; it would be {found.name!r}")
    return found
