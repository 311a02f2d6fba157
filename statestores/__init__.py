"""The state layer for Python stream processing: one contract, many engines.

    import statestores as ss

    with ss.open_store("state/counts/0", ss.KeyValue("counts")) as counts:
        counts.put(b"word", b"1")
        counts.commit({ss.TopicPartition("words", 0): 41})

The contract is `statestores.spi`; importing this package loads no third-party package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.serdes import float64, int64, int64_sorted, json, msgpack, raw, utf8
from statestores.spi import (
    Changes,
    Durability,
    Isolation,
    KeyValue,
    KeyValueStore,
    MemoryBudget,
    Position,
    PutResult,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyTimestampedKeyValueStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
    Session,
    SessionRecord,
    SessionStore,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TimestampedValue,
    TopicPartition,
    TtlClock,
    Versioned,
    VersionedRecord,
    VersionedStore,
    Window,
    WindowRecord,
    WindowStore,
)

if TYPE_CHECKING:
    from statestores.logged_store import LoggedStore, open_logged_store
    from statestores.opening import open_existing, open_store
    from statestores.registry import available_backends, backend_names
    from statestores.state_root import StateRoot

SECOND = 1_000
"""A second in milliseconds."""

MINUTE = 60 * SECOND
"""A minute in milliseconds."""

HOUR = 60 * MINUTE
"""An hour in milliseconds."""

DAY = 24 * HOUR
"""A day in milliseconds."""


_LOADED_WHEN_ASKED_FOR = {
    "LoggedStore": "statestores.logged_store",  # needs Arrow, which is an extra
    "StateRoot": "statestores.state_root",
    "available_backends": "statestores.registry",
    "backend_names": "statestores.registry",
    "open_existing": "statestores.opening",
    "open_logged_store": "statestores.logged_store",
    "open_store": "statestores.opening",
}
"""Names whose modules bring in the stores themselves: a program that only describes stores, as
Spark's driver does, need not wait for them."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for (PEP 562)."""
    module = _LOADED_WHEN_ASKED_FOR.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = globals()[name] = getattr(import_module(module), name)
    return loaded


def __dir__() -> list[str]:
    """List all names, including those not loaded yet."""
    return sorted({*globals(), *__all__})


__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "Changes",
    "Durability",
    "Isolation",
    "KeyValue",
    "KeyValueStore",
    "LoggedStore",
    "MemoryBudget",
    "Position",
    "PutResult",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyTimestampedKeyValueStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "Session",
    "SessionRecord",
    "SessionStore",
    "StateRoot",
    "TimestampedKeyValue",
    "TimestampedKeyValueStore",
    "TimestampedValue",
    "TopicPartition",
    "TtlClock",
    "Versioned",
    "VersionedRecord",
    "VersionedStore",
    "Window",
    "WindowRecord",
    "WindowStore",
    "available_backends",
    "backend_names",
    "float64",
    "int64",
    "int64_sorted",
    "json",
    "msgpack",
    "open_existing",
    "open_logged_store",
    "open_store",
    "raw",
    "utf8",
]
