"""The state layer for Python stream processing: one contract, many engines.

    import statestores as ss

    with ss.open_store("state/counts/0", ss.KeyValue("counts")) as counts:
        counts.put(b"word", b"1")
        counts.commit({ss.TopicPartition("words", 0): 41})

The contract is `statestores.spi`; importing this package loads nothing from third parties.
"""

from typing import TYPE_CHECKING, Any

from statestores.opening import open_existing, open_store
from statestores.registry import available_backends, backend_names
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
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from statestores.logged_store import LoggedStore, open_logged_store

SECOND = 1_000
"""A second in milliseconds."""

MINUTE = 60 * SECOND
"""A minute in milliseconds."""

HOUR = 60 * MINUTE
"""An hour in milliseconds."""

DAY = 24 * HOUR
"""A day in milliseconds."""


def __getattr__(name: str) -> Any:
    """Load what needs Arrow when it is first asked for (PEP 562)."""
    if name in {"LoggedStore", "open_logged_store"}:
        from statestores import logged_store  # noqa: PLC0415  # Arrow is an extra

        return getattr(logged_store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
