"""The store that takes the rows of a store of Kafka Streams, and how they go into it.

Rows go in by time, where they have one: so none of them makes another one late, and the store's
retention then decides which of them can still be seen.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.migration.kafka_kinds import ROW_SCHEMAS, KafkaKind
from statestores.spi.key_value import KeyValueStore
from statestores.spi.records import Changes
from statestores.spi.serde import Serde
from statestores.spi.session import SessionStore
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.versioned import VersionedStore
from statestores.spi.window import WindowStore
from statestores.spi.window_specification import Window

PUT_ROWS = 16_384
"""Rows between two commits."""

WITH_WINDOW_SIZE = frozenset(
    {KafkaKind.WINDOW, KafkaKind.TIMESTAMPED_WINDOW, KafkaKind.TIME_FIRST_WINDOW}
)
"""The kinds whose windows have a size, which is not in the files."""

_SESSIONS = frozenset({KafkaKind.SESSION, KafkaKind.TIME_FIRST_SESSION})

WITH_RETENTION = WITH_WINDOW_SIZE | _SESSIONS | {KafkaKind.VERSIONED}
"""The kinds whose rows expire; after which time is not in the files."""


def specification_for(
    name: str,
    kind: KafkaKind,
    *,
    retention_ms: int | None = None,
    window_size_ms: int | None = None,
    retain_duplicates: bool = False,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
) -> StoreSpecification[Any, Any]:
    """Return the specification of the store that takes a Kafka store *name* of *kind*.

    Raises:
        InvalidArgumentError: The retention or the window size is missing, which Kafka Streams does
            not write down, or is given for a kind that has none; or it cannot be one.
    """
    needed = {"retention": kind in WITH_RETENTION, "window size": kind in WITH_WINDOW_SIZE}
    for what, given in (("retention", retention_ms), ("window size", window_size_ms)):
        if needed[what] and given is None:
            raise InvalidArgumentError(
                f"the {what} of the {kind.value} store {name!r} is missing, which Kafka Streams "
                "does not write down; take it from the application's code"
            )
        if given is not None and not needed[what]:
            raise InvalidArgumentError(
                f"the store {name!r} is of the kind {kind.value!r}, which has no {what}"
            )
    serdes: dict[str, Any] = {"key": key, "value": value}
    if kind in WITH_WINDOW_SIZE:
        return Window(
            name,
            retention_ms=retention_ms or 0,
            window_size_ms=window_size_ms or 0,
            retain_duplicates=retain_duplicates,
            **serdes,
        )
    if kind in _SESSIONS:
        return Session(name, retention_ms=retention_ms or 0, **serdes)
    if kind is KafkaKind.VERSIONED:
        return Versioned(name, history_retention_ms=retention_ms or 0, **serdes)
    if kind is KafkaKind.TIMESTAMPED_KEY_VALUE:
        return TimestampedKeyValue(name, **serdes)
    specification: StoreSpecification[Any, Any] = KeyValue(name, **serdes)
    return specification


def in_order(kind: KafkaKind, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of *batches* in the order in which they go into a store.

    Rows with a time are sorted by it, with all of them in memory; others stay as they come.
    """
    if kind in WITH_WINDOW_SIZE:
        columns = ["window_start", "key", "sequence"]
    elif kind in _SESSIONS:
        columns = ["session_end", "key"]
    elif kind is KafkaKind.VERSIONED:
        columns = ["valid_from", "key"]
    else:
        yield from map(pa.Table.from_batches, ([batch] for batch in batches))
        return
    rows = pa.Table.from_batches(list(batches), ROW_SCHEMAS[kind])
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])
    for start in range(0, rows.num_rows, PUT_ROWS):
        yield rows.take(order.slice(start, PUT_ROWS))


def put_rows(store: object, rows: pa.Table) -> int:
    """Put *rows* into a *store* of bytes of the fitting kind; return how many were accepted.

    The timestamp of a windowed value is left out: a window store has no place for it.
    """
    if isinstance(store, KeyValueStore):
        store.put_many(rows["key"], rows["value"])
        return int(rows.num_rows)
    if isinstance(store, TimestampedKeyValueStore):
        # Replayed and not put: a value whose timestamp Kafka Streams does not know has none here.
        columns = (rows[name].to_pylist() for name in ("key", "value", "timestamp"))
        keys, values, timestamps = columns
        store.replay(Changes(keys, values, timestamps_ms=timestamps))
        return int(rows.num_rows)
    if isinstance(store, VersionedStore):
        return store.put_many(rows["key"], rows["value"], rows["valid_from"])
    if isinstance(store, WindowStore):
        return store.put_many(rows["key"], rows["value"], rows["window_start"])
    if isinstance(store, SessionStore):
        return store.put_many(
            rows["key"], rows["session_start"], rows["session_end"], rows["value"]
        )
    raise InvalidTypeError(f"no rows of Kafka Streams fit into {store!r}")
