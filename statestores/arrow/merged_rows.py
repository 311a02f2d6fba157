"""A snapshot and the changes after it, merged into the rows that a store would show.

This is the store's own rule of replay, over whole columns and without an engine, for readers that
must not take the writer's lock. The changes are taken in log order by a *tail*, which folds them
as it goes; then the rows of the snapshot stream through it. Memory is bounded by the keys
(versions, windows, sessions) that changed and by those of the same keys in the snapshot.
"""

from typing import Any

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.key_value_tail import KeyValueTail, TimestampedTail
from statestores.arrow.retained_tail import RetainedTail
from statestores.arrow.tail import Tail
from statestores.arrow.versioned_tail import VersionedTail
from statestores.errors import UnsupportedFormatError
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
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
