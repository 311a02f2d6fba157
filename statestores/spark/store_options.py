"""What a store is, by the options and columns of the write that makes it, and of later ones."""

from typing import Any, Final

from pyspark.sql.types import DataType, StructType

from statestores.errors import InvalidOptionError
from statestores.serdes.serde_registry import serde_by_name
from statestores.spark.options import SourceOptions
from statestores.spi.serde import Serde
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.window_specification import Window

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

_HISTORY = "how far back its history goes, which also decides what comes too late"
_RETENTION = "how far behind the latest one a window or session is kept, and may come"

_PARAMETERS: Final = {
    "ttl": ("ttl_ms", (TimestampedKeyValue.kind,)),
    "ttlClock": ("ttl_clock", (TimestampedKeyValue.kind,)),
    "historyRetention": ("history_retention_ms", (Versioned.kind,)),
    "retention": ("retention_ms", (Window.kind, Session.kind)),
    "windowSize": ("window_size_ms", (Window.kind,)),
    "retainDuplicates": ("retain_duplicates", (Window.kind,)),
}
"""The options that are of some kinds only: the parameter of the specification, and the kinds."""

_NEEDED: Final = {
    Versioned.kind: (("historyRetention", _HISTORY),),
    Window.kind: (("windowSize", "how long each window is"), ("retention", _RETENTION)),
    Session.kind: (("retention", _RETENTION),),
}

_SPECIFICATIONS: Final[dict[str, Any]] = {
    each.kind: each for each in (KeyValue, TimestampedKeyValue, Versioned, Window, Session)
}


def new_specification(
    name: str, options: SourceOptions, schema: StructType
) -> StoreSpecification[Any, Any]:
    """Return the specification of the store *name*, which is made by a write of *schema*.

    Raises:
        InvalidOptionError: An option is missing, or is of another kind.
        InvalidArgumentError: The options cannot be those of a store.
    """
    arguments: dict[str, Any] = {
        "key": _serde("key", options.key_serde, options, schema),
        "value": _serde("value", options.value_serde, options, schema),
    }
    if options.partitioner is not None:
        arguments["partitioner"] = options.partitioner
    kind = options.store_kind or _kind_for(options, schema)
    for option, meaning in _NEEDED.get(kind, ()):
        if getattr(options, _PARAMETERS[option][0]) is None:
            raise InvalidOptionError(
                f"a new {kind} store needs the option {option!r}, such as 30d: {meaning}"
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
    specification: StoreSpecification[Any, Any] = _SPECIFICATIONS[kind](name, **arguments)
    return specification


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
        if wanted is not None and wanted != actual:
            raise InvalidOptionError(
                f"the option {option!r} says {wanted!r}, and the store {specification.name!r} was "
                f"created with {actual!r}, which never changes; leave the option out"
            )


def _kind_for(options: SourceOptions, schema: StructType) -> str:
    """Return the kind that options and columns speak of; a plain timestamp speaks of none."""
    if options.history_retention_ms is not None:
        return Versioned.kind
    if options.ttl_ms is not None:
        return TimestampedKeyValue.kind
    if "window_start" in schema.names:
        return Window.kind
    if "session_start" in schema.names:
        return Session.kind
    return KeyValue.kind


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
    return None if name == "bytes" else serde_by_name(name)
