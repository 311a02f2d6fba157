"""What a store is, by the options and columns of the write that makes it, and of later ones."""

from dataclasses import fields
from typing import Any, Final

from pyspark.sql.types import DataType, StructType

from statestores.errors import InvalidOptionError
from statestores.serdes.descriptions import SPECIFICATIONS
from statestores.serdes.serde_registry import serde_by_name
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.row_schemas import SERDES_OF_COLUMNS, serde_of_column
from statestores.spi.kinds import KEY_VALUE, KINDS, KindField
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

_SERDES: Final = {
    "string": "utf8",
    "binary": "bytes",
    "byte": "int64",
    "short": "int64",
    "integer": "int64",
    "long": "int64",
    "float": "float64",
    "double": "float64",
    "struct": "json",
    "map": "json",
    "array": "json",
}
"""The serde of a new store, by the type of its column in Spark."""


def _option(field: KindField) -> str:
    """Return the option for *field*: its name as Spark writes names, without the unit."""
    first, *others = field.name.removesuffix("_ms").split("_")
    return first + "".join(map(str.capitalize, others))


_PARAMETERS: Final = {
    _option(field): (field.name, [kind for kind in KINDS.values() if field in kind.fields])
    for known in KINDS.values()
    for field in known.fields
}
"""The options that belong to some kinds only: the parameter of the specification, and the kinds."""


def new_specification(
    name: str, options: SourceOptions, schema: StructType
) -> StoreSpecification[Any, Any]:
    """Return the specification of the store *name*, which is made by a write of *schema*.

    Raises:
        InvalidOptionError: An option is missing, or belongs to another kind.
        InvalidArgumentError: The options cannot be those of a store.
    """
    arguments: dict[str, Any] = {
        "key": _serde("key", options.key_serde, options, schema),
        "value": _serde("value", options.value_serde, options, schema),
    }
    if options.partitioner is not None:
        arguments["partitioner"] = options.partitioner
    kind = KINDS[options.store_kind or _kind_for(options, schema)]
    for field in kind.fields:
        if field.required and getattr(options, field.name) is None:
            raise InvalidOptionError(
                f"a new {kind} store needs the option {_option(field)!r}, such as 30d: "
                f"{field.meaning}"
            )
    for option, (parameter, kinds) in _PARAMETERS.items():
        value = getattr(options, parameter)
        if value is None:
            continue
        if kind not in kinds:
            raise InvalidOptionError(
                f"the option {option!r} is for {' and '.join(kinds)} stores, and {name!r} will be "
                f"a {kind} store; leave it out, or give another storeKind"
            )
        arguments[parameter] = value
    return SPECIFICATIONS[kind](name, **arguments)


def options_of(specification: StoreSpecification[Any, Any]) -> dict[str, str]:
    """Return the options that make a store like this one, but for its name."""
    described = specification.describe()
    options = {
        "storeKind": str(described["kind"]),
        "keySerde": str(described["key"]),
        "valueSerde": str(described["value"]),
        "partitioner": str(described["partitioner"]),
    }
    for option, (parameter, kinds) in _PARAMETERS.items():
        if specification.kind in kinds and getattr(specification, parameter) is not None:
            options[option] = str(described[parameter]).lower()
    return options


def check_options(
    options: SourceOptions, specification: StoreSpecification[Any, Any], partitions: int
) -> None:
    """Accept options that say of the store what it is.

    Raises:
        InvalidOptionError: One says something else.
    """
    described = specification.describe()
    for option, wanted, actual in (
        ("storeKind", options.store_kind, described["kind"]),
        *(
            (option, getattr(options, parameter), described.get(parameter))
            for option, (parameter, _) in _PARAMETERS.items()
        ),
        ("numPartitions", options.num_partitions, partitions),
        ("keySerde", options.key_serde, described["key"]),
        ("valueSerde", options.value_serde, described["value"]),
        ("partitioner", options.partitioner, described["partitioner"]),
    ):
        if str(wanted) in SERDES_OF_COLUMNS and str(actual).startswith(f"{wanted}<"):
            continue  # with the schema of the column, which is checked as that
        if wanted is not None and wanted != actual:
            reshard = " (a reshard does, and may have)" if option == "numPartitions" else ""
            raise InvalidOptionError(
                f"the option {option!r} says {wanted!r}, and the store {specification.name!r} has "
                f"{actual!r}, which no write changes{reshard}; leave the option out"
            )


def _kind_for(options: SourceOptions, schema: StructType) -> str:
    """Return the kind that options and columns point to; a plain timestamp points to none."""
    given = {each.name for each in fields(options) if getattr(options, each.name) is not None}
    for kind in sorted(KINDS.values(), key=lambda each: each.code):
        is_field = any(each.name == kind.told_by for each in kind.fields)
        if kind.told_by in (given if is_field else schema.names):
            return kind
    return KEY_VALUE


def _serde(
    column: str, name: str | None, options: SourceOptions, schema: StructType
) -> Serde[Any] | None:
    """Return the serde *name*, or the one for the type of *column*; ``None`` for bytes."""
    if name is None:
        if column not in schema.names:
            return None  # the check of the columns says so
        if options.raw:
            raise InvalidOptionError(
                f"the rows of a new store are raw, so the option '{column}Serde' has to say what "
                "they are; bytes if nobody else will read them"
            )
        kind: DataType = schema[column].dataType
        name = _SERDES.get(kind.typeName())
        if name is None:
            raise InvalidOptionError(
                f"no serde is known for the column {column!r} of type {kind.simpleString()!r}; "
                f"write CAST({column} AS string) AS {column}, or to_json(struct({column})) AS "
                f"{column} with the option '{column}Serde' set to json"
            )
    if name in SERDES_OF_COLUMNS and column in schema.names:
        return serde_of_column(name, column, schema[column].dataType)
    return None if name == "bytes" else serde_by_name(name)
