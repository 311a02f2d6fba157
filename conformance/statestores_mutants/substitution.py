"""A mutated store takes the place of ours wherever a store is opened on an engine."""

from typing import Any

import statestores.semantics
import statestores.semantics.opening
from statestores.semantics.engine_store import EngineStore
from statestores.semantics.key_value import EngineKeyValueStore
from statestores.semantics.versioned import EngineVersionedStore
from statestores.spi import Durability, Engine, KeyValue, StoreSpecification, Versioned

_KINDS: dict[type[EngineStore[bytes, bytes]], type[StoreSpecification[Any, Any]]] = {
    EngineKeyValueStore: KeyValue,
    EngineVersionedStore: Versioned,
}
"""The specification of each kind of store. A new kind is entered here."""


def substitute(store_class: type[EngineStore[bytes, bytes]]) -> None:
    """Open stores of its kind as *store_class* from now on, in this process.

    Requires: nobody has imported `open_on_engine` yet but from here.
    """
    kind = next(_KINDS[base] for base in store_class.__mro__ if base in _KINDS)
    sound = statestores.semantics.open_on_engine

    def open_on_engine(
        engine: Engine,
        specification: StoreSpecification[Any, Any],
        *,
        durability: Durability = Durability.POWER_LOSS,
    ) -> Any:
        if not isinstance(specification, kind):
            return sound(engine, specification, durability=durability)
        try:
            return store_class(engine, specification, durability)
        except BaseException:
            engine.close()
            raise

    for module in (statestores.semantics, statestores.semantics.opening):
        setattr(module, "open_on_engine", open_on_engine)  # noqa: B010  # mypy: the overloads
