"""The contract: what an engine author implements and what a caller may rely on.

Standard library only, and no I/O. Read `engine` first, then `kinds`, then `stores`: `store`, and a
module for each kind, which can be named from here as well.
"""

from statestores.spi.capabilities import Capabilities
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader, EngineSnapshot, WriteBatch
from statestores.spi.memory_budget import MemoryBudget, MemoryShare
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.options import parse_options
from statestores.spi.records import (
    Changes,
    PutResult,
    SessionRecord,
    TimestampedValue,
    VersionedRecord,
    WindowRecord,
)
from statestores.spi.serde import Serde
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    TtlClock,
    Versioned,
)
from statestores.spi.stores import key_value, session, timestamped_key_value, versioned, window
from statestores.spi.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore, SessionStore
from statestores.spi.stores.store import (
    CommittedContent,
    Isolation,
    ReadOnlyStore,
    StateStore,
)
from statestores.spi.stores.timestamped_key_value import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValueStore,
)
from statestores.spi.stores.versioned import ReadOnlyVersionedStore, VersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore, WindowStore
from statestores.spi.window_specification import Window

__all__ = [
    "Capabilities",
    "Changes",
    "CommittedContent",
    "Durability",
    "Engine",
    "EngineReader",
    "EngineSnapshot",
    "Isolation",
    "KeyValue",
    "KeyValueStore",
    "MemoryBudget",
    "MemoryShare",
    "Position",
    "PutResult",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyStore",
    "ReadOnlyTimestampedKeyValueStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "Serde",
    "Session",
    "SessionRecord",
    "SessionStore",
    "StateStore",
    "StoreSpecification",
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
    "WriteBatch",
    "key_value",
    "parse_options",
    "session",
    "timestamped_key_value",
    "versioned",
    "window",
]
