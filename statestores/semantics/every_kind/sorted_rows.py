"""Rows of an engine that were encoded elsewhere, many at a time, for `EngineStore.commit_rows`."""

from collections.abc import Iterable
from dataclasses import dataclass

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.progress import NO_STREAM_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """Rows in the order of their keys, and what the store must know about them."""

    rows: Iterable[tuple[bytes, bytes | None]] = ()
    """Keys, strictly ascending, with their new values; ``None`` deletes. Read once."""

    has_deletions: bool = False
    """Whether a value is ``None``."""

    highest_ms: int = NO_STREAM_TIME
    """The highest time in the rows and in what they have overwritten: stream time is not below."""

    lowest_ms: int = MAX_TIME_MS
    """No row expires before stream time is a retention or time to live past this: the lowest
    timestamp, the lowest end of a superseded version, the lowest time of a window or session."""

    removals: int = 0
    """How many expired rows the commits after this one are to remove on top of their share, where
    this one cannot: a sorted file deletes nothing."""

    next_number: int = 0
    """Above the sequence of every retained duplicate."""
