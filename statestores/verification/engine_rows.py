"""The rows of a store in its engine: each fits the layout, and they fit together (LAY).

The engine is read as it is, below the store, whose code should not judge itself.
"""

from dataclasses import dataclass
from typing import Any

from statestores.arrow.progress import Meter
from statestores.errors import StateStoreError
from statestores.semantics.every_kind.self_description import read_description
from statestores.semantics.rows.layout import (
    DATA,
    END,
    FORMAT_ROW,
    HISTORY,
    METADATA,
    OFFSETS,
    POSITION_ROW,
    PROGRESS_ROW,
    SPECIFICATION_ROW,
    TRUNCATING_ROW,
    read_offsets,
    read_position,
)
from statestores.semantics.timestamped.opening import UNSTAMPED_ROW
from statestores.serdes import specification_from_description
from statestores.spi.engine import EngineReader
from statestores.spi.session_specification import Session
from statestores.spi.specification import StoreSpecification, TimestampedKeyValue, Versioned
from statestores.spi.window_specification import Window
from statestores.verification.retained_rows import check_retained
from statestores.verification.row_walk import Problems, RowCounter
from statestores.verification.timestamped_rows import check_timestamps
from statestores.verification.version_rows import check_versions

_METADATA_ROWS = {
    FORMAT_ROW,
    SPECIFICATION_ROW,
    POSITION_ROW,
    PROGRESS_ROW,
    TRUNCATING_ROW,
    UNSTAMPED_ROW,
}


@dataclass(frozen=True, slots=True)
class Examined:
    """What the rows of an engine amount to."""

    specification: StoreSpecification[Any, Any]
    """What the store says that it is."""

    rows: int
    """Rows of keys and of history."""

    problems: list[str]
    """What is wrong, in words; the first few, if there are many."""

    problem_count: int
    """How many problems there are."""


def examine_rows(reader: EngineReader, meter: Meter | None = None) -> Examined | None:
    """Check every row of the store in *reader*; ``None`` when there is no store in it.

    Raises:
        StateStoreError: The engine cannot be read, or the description of the store cannot.
    """
    description = read_description(reader)
    if description is None:
        return None
    specification = specification_from_description(description)
    problems = Problems()
    for key, _ in reader.scan(METADATA, OFFSETS):
        if key not in _METADATA_ROWS:
            problems.add(f"the metadata row {key!r} is unknown (LAY-1)")
    _check_offsets(reader, problems)
    beyond = reader.first(END)
    if beyond is not None:
        problems.add(f"the row {beyond[0]!r} is in no namespace that there is (LAY-1)")
    counted = RowCounter(meter or Meter(None))
    if isinstance(specification, Versioned):
        check_versions(reader, specification, problems, counted)
    elif isinstance(specification, Window | Session):
        check_retained(reader, specification, problems, counted)
    else:
        rows = counted.through(reader.scan(DATA, HISTORY))
        if isinstance(specification, TimestampedKeyValue):
            check_timestamps(reader, specification, rows, problems)
        for _ in rows:
            pass  # counted
        stray = reader.first(HISTORY, END)
        if stray is not None:
            problems.add(f"a key-value store has the history row {stray[0]!r} (LAY-1)")
    return Examined(specification, counted.rows, problems.kept, problems.count)


def _check_offsets(reader: EngineReader, problems: Problems) -> None:
    """Check the committed offsets and the position."""
    for read, rule in ((read_offsets, "LAY-4"), (read_position, "LAY-5")):
        try:
            read(reader)
        except (StateStoreError, ValueError) as error:
            problems.add(f"{error} ({rule})")
