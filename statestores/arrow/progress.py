"""How far a snapshot, export or restore has come, for a progress bar."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a long operation."""

    rows: int
    """Rows done since it began."""

    bytes: int
    """Their bytes before compression, as Arrow columns."""

    total_rows: int | None = None
    """Rows that there will be; ``None`` when that is not known."""

    offset: int | None = None
    """The changelog offset up to which a restore has come; ``None`` before its changelog."""


ProgressCallback: TypeAlias = Callable[[Progress], None]
"""Called after each batch. What it raises ends the operation."""


class Meter:
    """Counts rows and bytes and tells a callback, if there is one."""

    __slots__ = ("_callback", "_total_rows", "bytes", "rows")

    def __init__(self, callback: ProgressCallback | None, total_rows: int | None = None) -> None:
        self._callback = callback
        self._total_rows = total_rows
        self.rows = 0
        self.bytes = 0

    def add(self, rows: int, size: int, offset: int | None = None) -> None:
        """Count *rows* of *size* bytes, which bring a restore to *offset*, and tell so."""
        self.rows += rows
        self.bytes += size
        if self._callback is not None:
            self._callback(
                Progress(
                    rows=self.rows, bytes=self.bytes, total_rows=self._total_rows, offset=offset
                )
            )
