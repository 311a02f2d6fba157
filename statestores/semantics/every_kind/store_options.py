"""The options of a store over any engine; anything else in a mapping of options is the engine's."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from statestores.errors import InvalidOptionError, InvalidTypeError
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.spi.memory_budget import MemoryBudget
from statestores.spi.options import parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The choices for a store, whatever its backend."""

    read_cache_bytes: int = DEFAULT_READ_CACHE_BYTES
    """Memory for rows that were committed or read recently, in key-value and versioned stores. They
    are Python objects, read without asking the engine; 0 keeps none. Stores with a time to live use
    as much memory to remember when rows expire, and versioned ones half as much in addition."""

    memory_budget: MemoryBudget | None = None
    """The memory that the store's cache and the engine share with other stores of the process; an
    engine that cannot be bounded in this way refuses it. ``None`` takes what the options say."""

    def __post_init__(self) -> None:
        """Refuse a negative size.

        Raises:
            InvalidOptionError: The size is negative.
        """
        if self.read_cache_bytes < 0:
            raise InvalidOptionError(
                f"option 'read_cache_bytes' must be at least 0, got {self.read_cache_bytes!r}"
            )


def split_options(
    options: Mapping[str, object] | None,
) -> tuple[StoreOptions, dict[str, object]]:
    """Return the options of the store, and those of the engine, from one mapping.

    Raises:
        InvalidTypeError: It is not a mapping of names.
        InvalidOptionError: An option of the store cannot be read.
    """
    judged: object = options
    if judged is not None and not (
        isinstance(judged, Mapping) and all(isinstance(name, str) for name in judged)
    ):
        raise InvalidTypeError(f"options must be a mapping with str for names, got {options!r}")
    names = {option.name for option in fields(StoreOptions)}
    given = dict(options or {})
    of_store = {name: value for name, value in given.items() if name.lower() in names}
    of_engine = {name: value for name, value in given.items() if name not in of_store}
    chosen = parse_options(StoreOptions, of_store)
    if chosen.memory_budget is not None:
        of_engine["memory_budget"] = chosen.memory_budget
    return chosen, of_engine
