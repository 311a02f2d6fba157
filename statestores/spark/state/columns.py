"""What in a row of Spark's state becomes the key and the value of a store.

A single column whose type a serde is for is taken by that serde. Everything else becomes one
JSON object of all the columns, with nulls, so that nothing is left out.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's documentation has it
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from statestores.errors import InvalidArgumentError
from statestores.serdes.serde_registry import serde_by_name

_SERDES: Final = {
    "string": "utf8",
    "binary": "bytes",
    "byte": "int64",
    "short": "int64",
    "integer": "int64",
    "long": "int64",
    "float": "float64",
    "double": "float64",
}
"""The serde of a single column, by its type in Spark."""

_KEYS: Final = ("key", "user_map_key")
_VALUES: Final = ("value", "user_map_value", "list_value")
"""Columns of the built-in source: of any operator, and of the variables of transformWithState."""


_JSON: Final = {
    "ignoreNullFields": "false",
    # All six digits: two windows of one millisecond are two keys. X is the zone.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS" + 3 * "X",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class Side:
    """The key or the value of a store, to be made of columns of Spark's."""

    column: Column
    """The column to select."""

    serde: str
    """The name of its serde."""

    source: str
    """What it is made of, in words."""


def with_names_of_their_own(state: DataFrame) -> DataFrame:
    """Return *state* with another name for each field whose name another one of its struct has.

    An aggregation names its buffers by their functions: ``max(a), max(b)`` are ``max`` and ``max``,
    which no expression can tell apart, and of which JSON keeps one. The first keeps its name, and
    the second is ``max_2``, by their places, which a query never changes.
    """
    columns = []
    for field in state.schema:
        renamed = _with_distinct_names(field.dataType)
        column = F.col(field.name)
        # A struct is cast place by place: nobody has to say the name of a field.
        columns.append(column if renamed == field.dataType else column.cast(renamed))
    return state.select(
        *(each.alias(name) for each, name in zip(columns, state.columns, strict=True))
    )


def with_rows_made_anew(state: DataFrame) -> DataFrame:
    """Return *state* with each of its structs made of its fields, none of which is null as such."""
    columns = [
        F.struct(*(F.col(field.name).getField(name).alias(name) for name in field.dataType.names))
        if isinstance(field.dataType, StructType)
        else F.col(field.name)
        for field in state.schema
    ]
    return state.select(
        *(each.alias(name) for each, name in zip(columns, state.columns, strict=True))
    )


def _with_distinct_names(kind: DataType) -> DataType:
    """Return *kind* with distinct names in each of its structs, at any depth.

    >>> kind = StructType().add("n", "long").add("N", "long").add("n_2", "long")
    >>> _with_distinct_names(kind).names
    ['n', 'N_3', 'n_2']
    """
    if isinstance(kind, ArrayType):
        return ArrayType(_with_distinct_names(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(
            _with_distinct_names(kind.keyType),
            _with_distinct_names(kind.valueType),
            kind.valueContainsNull,
        )
    if not isinstance(kind, StructType):
        return kind
    # Spark tells no cases apart, unless the session says so, and a name must not depend on that.
    taken = {name.lower() for name in kind.names}
    seen: set[str] = set()
    fields = []
    for field in kind:
        name, number = field.name, 2
        while name.lower() in (seen if name == field.name else taken):
            name, number = f"{field.name}_{number}", number + 1
        seen.add(name.lower())
        taken.add(name.lower())
        fields.append(StructField(name, _with_distinct_names(field.dataType), field.nullable))
    return StructType(fields)


def key_side(frame: DataFrame, expression: str | None, serde: str | None) -> Side:
    """Return the key: the struct ``key`` of the state, or the SQL *expression* over its columns.

    Raises:
        InvalidArgumentError: The serde is unknown or does not take the columns.
    """
    return _side("key", _KEYS, frame, expression, serde)


def value_side(frame: DataFrame, expression: str | None, serde: str | None) -> Side:
    """Return the value; as `key_side`."""
    return _side("value", _VALUES, frame, expression, serde)


def _side(
    name: str,
    candidates: tuple[str, ...],
    frame: DataFrame,
    expression: str | None,
    serde: str | None,
) -> Side:
    if expression is not None:
        frame = frame.select(F.expr(expression).alias(name))
        parts = [(name, F.expr(expression))]
    else:
        parts = [(each, F.col(each)) for each in candidates if each in frame.columns]
    if not parts:
        raise InvalidArgumentError(
            f"the state has the columns {', '.join(frame.columns)}, and none is its {name}; say "
            f"what the {name} is, with an SQL expression over them: --{name} EXPRESSION"
        )
    columns = []
    kinds = []
    for part, column in parts:
        kind = frame.schema[part].dataType
        if isinstance(kind, StructType) and len(parts) == 1:
            columns += [column.getField(field.name).alias(field.name) for field in kind]
            kinds += [(field.name, field.dataType) for field in kind]
        else:
            columns.append(column.alias(part))
            kinds.append((part, kind))
    source = ", ".join(f"{column} {kind.simpleString()}" for column, kind in kinds)
    natural = _SERDES.get(kinds[0][1].typeName(), "json") if len(kinds) == 1 else "json"
    chosen = natural if serde is None else serde_by_name(serde).name
    if chosen == "json":
        return Side(F.to_json(F.struct(*columns), _JSON), chosen, source)
    if len(kinds) != 1:
        raise InvalidArgumentError(
            f"the {name} has the columns {source}, and the serde {chosen!r} takes one; choose one "
            f"with --{name} EXPRESSION, or leave --{name}-serde out for a JSON object of them"
        )
    return Side(columns[0], chosen, source)
