"""A mutated store replaces ours wherever a store is opened on an engine."""

import sys
from typing import Any

from statestores.semantics import open_on_engine as sound
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import (
    Durability,
    Engine,
    KeyValue,
    Session,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
    Window,
)

_KINDS: dict[type[EngineStore[bytes, bytes]], type[StoreSpecification[Any, Any]]] = {
    EngineKeyValueStore: KeyValue,
    EngineTimestampedKeyValueStore: TimestampedKeyValue,
    EngineVersionedStore: Versioned,
    EngineWindowStore: Window,
    EngineSessionStore: Session,
}
"""The specification of each kind of store. A new kind is entered here."""


def substitute(store_class: type[EngineStore[bytes, bytes]]) -> None:
    """Open stores of its kind as *store_class* from now on, in this process.

    Modules that have imported `open_on_engine` by name get the other one as well.
    """
    kind = next(_KINDS[base] for base in store_class.__mro__ if base in _KINDS)

    def open_on_engine(
        engine: Engine, specification: StoreSpecification[Any, Any], **others: Any
    ) -> Any:
        if type(specification) is not kind:
            return sound(engine, specification, **others)
        try:
            durability = others.pop("durability", Durability.POWER_LOSS)
            # The clock is given if values expire by it, and is None for other kinds. The size of a
            # cache is not passed on: what a mutant has overridden need not know it.
            given = {"clock": others["clock"]} if others.get("clock") is not None else {}
            return store_class(engine, specification, durability, **given)
        except BaseException:
            engine.close()
            raise

    for module in list(sys.modules.values()):
        if vars(module).get("open_on_engine") is sound:
            vars(module)["open_on_engine"] = open_on_engine
