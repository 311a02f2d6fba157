"""Schemas of rows and values of them, for Hypothesis."""

from datetime import UTC, date
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from statestores.serdes.rows.schema import (
    INTEGER_BITS,
    DecimalType,
    Field,
    ListType,
    MapType,
    PlainType,
    RowType,
    StructType,
    TimestampType,
)

_NAMES = st.sampled_from(["a", "B", "c d", "e`", "é", "not", "null", "list", "z_9"])
_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)
_KEYS = (
    st.sampled_from([*INTEGER_BITS, "bool", "date32", "string", "binary"]).map(PlainType)
    | _DECIMALS
    | st.sampled_from([None, "UTC"]).map(TimestampType)
)
SCALARS: st.SearchStrategy[RowType] = _KEYS | st.sampled_from(["float", "double"]).map(PlainType)


def schemas(
    types: st.SearchStrategy[RowType] = SCALARS, *, nested: bool = True
) -> st.SearchStrategy[StructType]:
    """Return schemas of one to five fields; *nested* has lists, maps and structs, too."""
    if nested:
        types = st.recursive(
            types,
            lambda inner: (
                st.builds(ListType, inner, nullable=st.booleans())
                | st.builds(MapType, _KEYS, inner, nullable=st.booleans())
                | _structs(inner)
            ),
            max_leaves=2,
        )
    return _structs(types)


def _structs(types: st.SearchStrategy[RowType]) -> st.SearchStrategy[StructType]:
    fields = st.lists(
        st.builds(Field, _NAMES, types, nullable=st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda field: field.name.lower(),
    )
    return fields.map(lambda found: StructType(tuple(found)))


def values_of(kind: RowType) -> st.SearchStrategy[Any]:
    """Return values of *kind*, without NaN, which equals nothing."""
    match kind:
        case StructType():
            return st.fixed_dictionaries(
                {field.name: _nullable(field.type, field.nullable) for field in kind.fields}
            )
        case ListType():
            return st.lists(_nullable(kind.values, kind.nullable), max_size=9)
        case MapType():
            return st.dictionaries(
                values_of(kind.keys), _nullable(kind.values, kind.nullable), max_size=3
            )
        case DecimalType():
            limit = 10**kind.precision - 1
            return st.integers(-limit, limit).map(lambda number: Decimal(f"{number}E-{kind.scale}"))
        case TimestampType():
            zone = None if kind.zone is None else UTC
            return st.datetimes(timezones=st.just(zone))
        case PlainType():
            return _plain(kind.text)


def _nullable(kind: RowType, nullable: bool) -> st.SearchStrategy[Any]:  # a field's own
    return st.none() | values_of(kind) if nullable else values_of(kind)


def _plain(text: str) -> st.SearchStrategy[Any]:
    if text in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[text] - 1)
        return st.integers(-limit, limit - 1)
    return {
        "bool": st.booleans(),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "date32": st.dates(date.min, date.max),
        "string": st.text(max_size=8),
        "binary": st.binary(max_size=8),
    }[text]
