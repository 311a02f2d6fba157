"""A mutated store takes the place of ours wherever a store is opened on an engine."""

import sys
from typing import Any

from statestores.semantics import open_on_engine as sound
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

    Whoever has imported `open_on_engine` by name is given the other one as well.
    """
    kind = next(_KINDS[base] for base in store_class.__mro__ if base in _KINDS)

    def open_on_engine(
        engine: Engine, specification: StoreSpecification[Any, Any], **others: Any
    ) -> Any:
        if type(specification) is not kind:
            return sound(engine, specification, **others)
        try:
            durability = others.get("durability", Durability.POWER_LOSS)
            return store_class(engine, specification, durability)
        except BaseException:
            engine.close()
            raise

    for module in list(sys.modules.values()):
        if vars(module).get("open_on_engine") is sound:
            vars(module)["open_on_engine"] = open_on_engine
