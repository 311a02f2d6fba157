"""Changes: what tables are made of, inside a topology."""

from typing import Any, NamedTuple

from statestores.processing.record import Headers


class Change(NamedTuple):
    """What one update has done to a row of a table."""

    key: Any
    """The row's key."""

    new: Any
    """The row's value now; ``None`` when it is deleted."""

    old: Any
    """The value that it had; ``None`` when there was none."""

    time_ms: int
    """The time of the new value."""

    headers: Headers = ()
    """Those of the record that caused the change."""

    is_latest: bool = True
    """Whether the update is the row's latest by time: not so for a late version (KIP-914)."""
