"""Which module of this package has the rows of a store."""

from typing import Any

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows.encoder import RowEncoder
from statestores.arrow.rows.key_value import (
    KeyValueEncoder,
    KeyValueTail,
    TimestampedEncoder,
    TimestampedTail,
)
from statestores.arrow.rows.retained import RetainedEncoder, RetainedTail
from statestores.arrow.rows.tail import Tail
from statestores.arrow.rows.versioned import VersionedEncoder, VersionedTail
from statestores.errors import UnsupportedFormatError
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.retained.store import EngineRetainedStore
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.window_specification import Window


def tail_of(
    specification: StoreSpecification[Any, Any],
    *,
    stream_time_ms: int | None = None,
    keys: KeySelection | None = None,
) -> Tail:
    """Return the tail of a store that begins at a stream time, and keeps the changes of *keys*.

    Raises:
        UnsupportedFormatError: This release knows no such kind.
    """
    if isinstance(specification, TimestampedKeyValue):
        return TimestampedTail(specification, stream_time_ms=stream_time_ms, keys=keys)
    if isinstance(specification, KeyValue):
        return KeyValueTail(keys)
    if isinstance(specification, Versioned):
        return VersionedTail(
            specification.history_retention_ms, stream_time_ms=stream_time_ms, keys=keys
        )
    if isinstance(specification, Window | Session):
        return RetainedTail(specification, stream_time_ms=stream_time_ms, keys=keys)
    raise UnsupportedFormatError(f"the rows of a {specification.kind} store cannot be merged")


def encoder_of(store: ReadOnlyStore) -> RowEncoder | None:
    """Return what encodes columns for *store*; ``None`` when it is not one of bytes over an engine.

    Such a store is another author's: nobody here knows its rows.
    """
    if isinstance(store, EngineKeyValueStore):
        return KeyValueEncoder()
    if isinstance(store, EngineTimestampedKeyValueStore):
        return TimestampedEncoder()
    if isinstance(store, EngineVersionedStore):
        return VersionedEncoder(store)
    if isinstance(store, EngineRetainedStore):
        return RetainedEncoder(store)
    return None
