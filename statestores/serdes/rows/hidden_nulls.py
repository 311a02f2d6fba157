"""Values below nulls: a struct that is null has fields all the same, and some cannot be null.

Arrow leaves nulls there, in `take` for example, and its own Parquet writer then refuses the column:
"declared non-nullable but contains nulls". So what is decoded has something there that nobody sees.
"""

from decimal import Decimal
from typing import Any

from statestores.serdes.arrow_columns import is_binary, is_text, pyarrow
from statestores.serdes.rows.column_pieces import null_mask, validity


def without_hidden_nulls(array: Any) -> Any:
    """Return *array* with no null where a field cannot be null, below one that is; equal to it."""
    if not _may_hide(array.type):
        return array
    pa = pyarrow()
    if pa.types.is_struct(array.type):
        fields = [array.type.field(place) for place in range(array.type.num_fields)]
        children = [_filled(array.field(at), field) for at, field in enumerate(fields)]
        return _struct(array, children, null_mask(array))
    return pa.Array.from_buffers(
        array.type,
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[without_hidden_nulls(array.values)],
    )


def _may_hide(kind: Any) -> bool:
    """Return whether some field, at any depth, cannot be null."""
    types = pyarrow().types
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return any(not field.nullable or _may_hide(field.type) for field in fields)
    if types.is_list(kind):
        return _may_hide(kind.value_type)
    return types.is_map(kind) and _may_hide(kind.item_type)


def _filled(array: Any, field: Any) -> Any:
    """Return *array*, of the column *field*, without the nulls that it hides, or cannot have."""
    pa = pyarrow()
    array = without_hidden_nulls(array)
    if field.nullable or array.null_count == 0:
        return array
    kind = array.type
    if pa.types.is_struct(kind):
        children = [array.field(place) for place in range(kind.num_fields)]
        return _struct(array, children, null_mask(array) & False)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = array.buffers()[1]
        return pa.Array.from_buffers(
            kind, len(array), [None, offsets], offset=array.offset, children=[array.values]
        )
    return array.fill_null(_blank(kind))


def _struct(array: Any, children: list[Any], nulls: Any) -> Any:
    pa = pyarrow()
    return pa.Array.from_buffers(array.type, len(array), [validity(nulls)], children=children)


def _blank(kind: Any) -> Any:
    """Return a value of *kind* to fill places with."""
    pa = pyarrow()
    if is_text(kind) or is_binary(kind):
        return pa.array(["" if is_text(kind) else b""], kind)[0]
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(0)], kind)[0]
    number = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array([0], number).cast(kind)[0]
