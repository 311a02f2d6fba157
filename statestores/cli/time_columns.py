"""The columns of the times that rows of each kind of store have."""

from typing import Any

from statestores.cli.columns import Column, time_column
from statestores.reading.records import Record
from statestores.spi.kinds import END_OF_ROW, KINDS
from statestores.spi.specification import StoreSpecification


def _title(time: str) -> str:
    """Return what the column of *time* is called."""
    return "valid until" if time == END_OF_ROW else time.replace("_", " ")


TIME_COLUMNS: dict[str, tuple[Column, ...]] = {
    name: tuple(time_column(f"{time}_ms", _title(time)) for time in kind.times)
    for name, kind in KINDS.items()
}
"""The columns of the kinds that have times; a plain key-value store has none."""


def times_of(record: Record, specification: StoreSpecification[Any, Any]) -> tuple[int | None, ...]:
    """Return the cells of *record* for the columns of its kind in `TIME_COLUMNS`."""
    return (record.start_ms, record.end_ms)[: len(TIME_COLUMNS.get(specification.kind, ()))]
