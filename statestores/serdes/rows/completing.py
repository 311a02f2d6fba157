"""Columns that lack fields of a schema, with nulls in their place: what Spark and files may bring.

The serde itself takes a row whole, as it takes a dict (SRD-6).
"""

from typing import Any

from statestores.serdes.arrow_columns import map_chunks, numpy, pyarrow
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.column_pieces import null_mask, validity
from statestores.serdes.rows.schema import ListType, MapType, RowType, StructType


def completed(schema: StructType, column: Any) -> Any:
    """Return *column* with each nullable field of *schema* that it lacks, null, at any depth."""
    if not _lacks(schema, column.type):
        return column
    goal = _with_fields(schema, column.type)
    return map_chunks(lambda array: _completed(schema, array), column, goal)


def _lacks(kind: RowType, given: Any) -> bool:
    """Whether a column of the type *given* lacks a field of *kind*, at any depth."""
    return not given.equals(_with_fields(kind, given))


def _with_fields(kind: RowType, given: Any) -> Any:
    """Return the type *given* with the nullable fields of *kind* that it lacks."""
    pa = pyarrow()
    if isinstance(kind, StructType) and pa.types.is_struct(given):
        present = [given.field(place) for place in range(given.num_fields)]
        types = {field.name: field.type for field in kind.fields}
        fields = [
            each.with_type(_with_fields(types[each.name], each.type))
            if each.name in types
            else each
            for each in present
        ]
        names = {each.name for each in present}
        fields += [
            pa.field(each.name, arrow_type(each.type))
            for each in kind.fields
            if each.nullable and each.name not in names
        ]
        return pa.struct(fields)
    if isinstance(kind, ListType) and pa.types.is_list(given):
        values = given.value_field
        return pa.list_(values.with_type(_with_fields(kind.values, values.type)))
    if isinstance(kind, MapType) and pa.types.is_map(given):
        values = given.item_field
        return pa.map_(given.key_field, values.with_type(_with_fields(kind.values, values.type)))
    return given


def _completed(kind: RowType, array: Any) -> Any:
    pa = pyarrow()
    if not _lacks(kind, array.type):
        return array
    goal = _with_fields(kind, array.type)
    nulls = null_mask(array)
    if isinstance(kind, StructType):
        types = {field.name: field.type for field in kind.fields}
        children = []
        for place in range(goal.num_fields):
            name = goal.field(place).name
            if place >= array.type.num_fields:
                children.append(pa.nulls(len(array), goal.field(place).type))
            elif name in types:
                children.append(_completed(types[name], array.field(place)))
            else:
                children.append(array.field(place))
        return pa.Array.from_buffers(goal, len(array), [validity(nulls)], children=children)
    assert isinstance(kind, ListType | MapType)  # noqa: S101  # nothing else has fields in it
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    moved = (offsets - first).astype(numpy().int32)
    if isinstance(kind, ListType):
        child = _completed(kind.values, array.values.slice(first, last - first))
    else:
        items = _completed(kind.values, array.items.slice(first, last - first))
        entries = pa.struct([goal.key_field, goal.item_field])
        keys = array.keys.slice(first, last - first)
        child = pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])
    return pa.Array.from_buffers(
        goal, len(array), [validity(nulls), pa.py_buffer(moved)], children=[child]
    )
