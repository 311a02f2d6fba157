"""A store of the kind that a specification names, over an engine that is open."""

from typing import Any, overload

from statestores.errors import InvalidTypeError
from statestores.semantics.key_value import EngineKeyValueStore
from statestores.semantics.versioned import EngineVersionedStore
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.specification import KeyValue, StoreSpecification, Versioned


@overload
def open_on_engine(
    engine: Engine, specification: KeyValue[Any, Any], *, durability: Durability = ...
) -> EngineKeyValueStore: ...
@overload
def open_on_engine(
    engine: Engine, specification: Versioned[Any, Any], *, durability: Durability = ...
) -> EngineVersionedStore: ...
@overload
def open_on_engine(
    engine: Engine, specification: StoreSpecification[Any, Any], *, durability: Durability = ...
) -> EngineKeyValueStore | EngineVersionedStore: ...
def open_on_engine(
    engine: Engine,
    specification: StoreSpecification[Any, Any],
    *,
    durability: Durability = Durability.POWER_LOSS,
) -> EngineKeyValueStore | EngineVersionedStore:
    """Open the store of bytes that *specification* describes, and take *engine* over.

    Serdes are written down and checked, not applied: see ``statestores.serdes.typed``. The engine
    is closed with the store, and also when this raises.

    Raises:
        InvalidTypeError: The specification is of no known kind.
        StoreMismatchError, UnsupportedFormatError, StoreCorruptedError: The engine holds another
            store, or a damaged one.
        CapabilityNotSupportedError: The engine cannot keep *durability*.
    """
    try:
        if isinstance(specification, KeyValue):
            return EngineKeyValueStore(engine, specification, durability)
        if isinstance(specification, Versioned):
            return EngineVersionedStore(engine, specification, durability)
        raise InvalidTypeError(  # noqa: TRY301  # the engine has to be closed for it as well
            f"a specification is a KeyValue or a Versioned, got {specification!r}"
        )
    except BaseException:
        engine.close()
        raise
