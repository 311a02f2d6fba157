"""Values of JSON or MessagePack read as structs of a schema that the reader gives (SRD-41)."""

import io
from dataclasses import dataclass, field
from typing import Any, Final

from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.arrow_columns import as_binary, map_chunks, pyarrow
from statestores.serdes.optional_packages import require
from statestores.serdes.refusals import refused_bytes
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.cells import CellError
from statestores.serdes.rows.column_decoding import decode_structs
from statestores.serdes.rows.column_encoding import encode_structs
from statestores.serdes.rows.column_leaves import LeafError
from statestores.serdes.rows.column_pieces import null_mask
from statestores.serdes.rows.plain_values import row_from_plain
from statestores.serdes.rows.row_bytes import decode_row, encode_row
from statestores.serdes.rows.schema import (
    INTEGER_BITS,
    ListType,
    PlainType,
    RowType,
    StructType,
)
from statestores.spi.serde import Serde

VIEWED: Final = ("json", "msgpack")
"""The serdes whose values can be read as structs."""

_ALIKE: Final = frozenset({"bool", *INTEGER_BITS, "double", "string"})
"""The types that Arrow's reader of JSON takes as `plain_values` does."""


@dataclass(frozen=True, slots=True)
class StructView:
    """Reads what *inner* has written as structs; it writes nothing.

    Fields that the schema does not have are left out, and those that a value lacks are null.
    """

    inner: Serde[Any]
    """The serde of the values: one of `VIEWED`."""

    schema: StructType
    """What is read of them."""

    sorted: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.inner.name

    def encode(self, value: Any) -> bytes:
        raise SerializationError(
            f"the values of a store of {self.name!r} are only read by a schema"
        )

    def encode_array(self, values: Any) -> Any:
        raise SerializationError(
            f"the values of a store of {self.name!r} are only read by a schema"
        )

    def decode(self, data: bytes) -> dict[str, Any]:
        return decode_row(self.schema, self._row(data))

    def _row(self, data: bytes) -> bytes:
        """Return a value as a row: that encoding says what fits a type, where Arrow would round."""
        try:
            value = row_from_plain(self.schema, self.inner.decode(data), others=True)
            return encode_row(self.schema, value)
        except CellError as error:
            reason = f"the schema that it is read by does not fit it: {error}"
            raise refused_bytes(self.name, data, reason) from error

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        binary = as_binary(array, self.name)
        if self.name == "json" and _alike(self.schema):
            found = _read_json(self.schema, binary)
            if found is not None:
                return found
        rows = [None if each is None else self._row(each) for each in binary.to_pylist()]
        return decode_structs(self.schema, pyarrow().array(rows, pyarrow().binary()))

    def arrow_type(self) -> Any:
        return arrow_type(self.schema)


def struct_view(serde: Serde[Any] | None, schema: StructType) -> StructView:
    """Return what reads values of *serde* as structs of *schema*.

    Raises:
        InvalidArgumentError: It is not one of `VIEWED`; a serde of rows has its schema.
    """
    if serde is None or serde.name not in VIEWED:
        name = "bytes" if serde is None else serde.name
        raise InvalidArgumentError(
            f"values of {' or '.join(VIEWED)} are read by a schema, and these are {name!r}"
        )
    return StructView(serde, schema)


def _alike(kind: RowType) -> bool:
    """Whether Arrow reads all of *kind* as `plain_values` does."""
    if isinstance(kind, StructType):
        return all(_alike(each.type) for each in kind.fields)
    if isinstance(kind, ListType):
        return _alike(kind.values)
    return isinstance(kind, PlainType) and kind.text in _ALIKE


def _read_json(schema: StructType, binary: Any) -> Any | None:
    """Return JSON objects as structs; ``None`` where they have to be looked at one by one.

    Arrow reads a line for each; canonical JSON has no line break, and any other is left to
    whoever looks at one value after the other.
    """
    pa = pyarrow()
    reader = require("pyarrow.json", purpose="JSON as columns", extra="arrow")
    nulls = null_mask(binary)
    lines = [b"{}" if each is None else each for each in binary.to_pylist()]
    text = b"\n".join(lines) + b"\n"
    if text.count(b"\n") != len(lines) or any(each[:1] != b"{" for each in lines):
        return None
    kinds = arrow_type(schema)
    loose = [pa.field(each.name, _loose(each.type)) for each in kinds]
    options = reader.ParseOptions(
        explicit_schema=pa.schema(loose), unexpected_field_behavior="ignore"
    )
    try:
        table = reader.read_json(
            io.BytesIO(text),
            read_options=reader.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=options,
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    columns = [column.combine_chunks() for column in table.columns]
    columns = [each.chunk(0) if isinstance(each, pa.ChunkedArray) else each for each in columns]
    found = pa.StructArray.from_arrays(columns, fields=loose, mask=pa.array(nulls))
    try:
        return decode_structs(schema, encode_structs(schema, found))  # which looks at nulls, too
    except LeafError:
        return None


def _loose(kind: Any) -> Any:
    """Return *kind* with every field nullable, as Arrow's reader has them."""
    pa = pyarrow()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _loose(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _loose(kind.value_type)))
    return kind
