"""The columns of the times that rows of each kind of store have."""

from typing import Any

from statestores.cli.output import Column, time_column
from statestores.reading.records import Record
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.window_specification import Window

TIME_COLUMNS: dict[str, tuple[Column, ...]] = {
    TimestampedKeyValue.kind: (time_column("timestamp_ms", "timestamp"),),
    Versioned.kind: (
        time_column("valid_from_ms", "valid from"),
        time_column("valid_to_ms", "valid until"),
    ),
    Window.kind: (
        time_column("window_start_ms", "window start"),
        time_column("window_end_ms", "window end"),
    ),
    Session.kind: (
        time_column("session_start_ms", "session start"),
        time_column("session_end_ms", "session end"),
    ),
}
"""The columns of the kinds that have times; a plain key-value store has none."""


def times_of(record: Record, specification: StoreSpecification[Any, Any]) -> tuple[int | None, ...]:
    """Return the cells of *record* for the columns of its kind in `TIME_COLUMNS`."""
    return (record.start_ms, record.end_ms)[: len(TIME_COLUMNS.get(specification.kind, ()))]
