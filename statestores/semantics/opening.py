"""A store of the kind that a specification names, over an engine that is open."""

from typing import Any, TypeAlias, overload

from statestores.errors import InvalidTypeError
from statestores.semantics.expiry.wall_clock import Clock
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES, RowCache
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.semantics.versioned.latest_cache import LatestCache
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.memory_budget import MemoryBudget
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.window_specification import Window

AnyEngineStore: TypeAlias = (
    EngineKeyValueStore
    | EngineTimestampedKeyValueStore
    | EngineVersionedStore
    | EngineWindowStore
    | EngineSessionStore
)
"""A store of bytes over an engine, of any kind."""


@overload
def open_on_engine(
    engine: Engine,
    specification: TimestampedKeyValue[Any, Any],
    *,
    durability: Durability = ...,
    clock: Clock | None = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> EngineTimestampedKeyValueStore: ...
@overload
def open_on_engine(
    engine: Engine,
    specification: KeyValue[Any, Any],
    *,
    durability: Durability = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> EngineKeyValueStore: ...
@overload
def open_on_engine(
    engine: Engine,
    specification: Versioned[Any, Any],
    *,
    durability: Durability = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> EngineVersionedStore: ...
@overload
def open_on_engine(
    engine: Engine,
    specification: Window[Any, Any],
    *,
    durability: Durability = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> EngineWindowStore: ...
@overload
def open_on_engine(
    engine: Engine,
    specification: Session[Any, Any],
    *,
    durability: Durability = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> EngineSessionStore: ...
@overload
def open_on_engine(
    engine: Engine,
    specification: StoreSpecification[Any, Any],
    *,
    durability: Durability = ...,
    clock: Clock | None = ...,
    read_cache_bytes: int = ...,
    memory_budget: MemoryBudget | None = ...,
) -> AnyEngineStore: ...
def open_on_engine(
    engine: Engine,
    specification: StoreSpecification[Any, Any],
    *,
    durability: Durability = Durability.POWER_LOSS,
    clock: Clock | None = None,
    read_cache_bytes: int = DEFAULT_READ_CACHE_BYTES,
    memory_budget: MemoryBudget | None = None,
) -> AnyEngineStore:
    """Open the store of bytes that *specification* describes, and take *engine* over.

    Serdes are written down and checked, not applied: see `statestores.serdes`. The engine
    is closed with the store, and also when this raises. *clock* replaces the machine's where values
    expire by it, for tests. Key-value and versioned stores keep rows that were committed or read
    recently in up to *read_cache_bytes* of memory, or less where *memory_budget* has less; 0 keeps
    none. Stores with a time to live use as much memory to remember when rows expire, and versioned
    ones half as much in addition. Window stores that are read keep rows in as much, session
    stores the sessions that were searched, and both names of rows in as much again.

    Raises:
        InvalidTypeError: The specification is not of a known kind.
        StoreMismatchError, UnsupportedFormatError, StoreCorruptedError: The engine holds another
            store, or a damaged one.
        CapabilityNotSupportedError: The engine cannot keep *durability*.
    """
    try:
        if isinstance(specification, TimestampedKeyValue):
            due_bytes = _granted(read_cache_bytes, memory_budget)
            return EngineTimestampedKeyValueStore(
                engine, specification, durability, clock, due_bytes
            )
        if isinstance(specification, KeyValue):
            cache = RowCache(read_cache_bytes, memory_budget)
            return EngineKeyValueStore(engine, specification, durability, cache)
        if isinstance(specification, Versioned):
            both_bytes = _granted(read_cache_bytes + read_cache_bytes // 2, memory_budget)
            latest = LatestCache(both_bytes - both_bytes // 3)
            return EngineVersionedStore(engine, specification, durability, latest, both_bytes // 3)
        if isinstance(specification, Window | Session):
            both_bytes = _granted(2 * read_cache_bytes, memory_budget)
            shares = both_bytes - both_bytes // 2, both_bytes // 2
            if isinstance(specification, Window):
                return EngineWindowStore(engine, specification, durability, *shares)
            return EngineSessionStore(engine, specification, durability, *shares)
        raise InvalidTypeError(  # noqa: TRY301  # the engine must be closed for it as well
            "a specification is a KeyValue, a TimestampedKeyValue, a Versioned, a Window or a "
            f"Session, got {specification!r}"
        )
    except BaseException:
        engine.close()
        raise


def _granted(wanted_bytes: int, budget: MemoryBudget | None) -> int:
    """Return *wanted_bytes* of memory, or what *budget* has."""
    return wanted_bytes if budget is None else min(wanted_bytes, budget.cache_bytes)
