"""A window or session store against one ``dict``, and one stream time."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

RetainedKey: TypeAlias = tuple[bytes, int, int]
"""Key, the time that retention looks at, and a session's start or a duplicate's sequence."""


@dataclass
class RetainedModel:
    """Values by `RetainedKey`; everything follows from them and the horizon (chapters 13, 14)."""

    retention_ms: int
    """The retention."""

    stream_time_ms: int | None = None
    """The highest accepted time."""

    rows: dict[RetainedKey, bytes] = field(default_factory=dict)
    """Every value that is there, visible or not."""

    def is_visible(self, time_ms: int) -> bool:
        """Return whether a row with *time_ms* is visible."""
        return self.stream_time_ms is None or time_ms > self.stream_time_ms - self.retention_ms

    def put(self, key: bytes, time_ms: int, number: int, value: bytes | None) -> bool:
        """Set or delete one value, and return whether it was accepted."""
        if not self.is_visible(time_ms):
            return False
        if value is None:
            self.rows.pop((key, time_ms, number), None)
        else:
            self.rows[key, time_ms, number] = value
        self.stream_time_ms = max(time_ms, self.stream_time_ms or 0)
        return True

    def visible(self) -> list[tuple[RetainedKey, bytes]]:
        """Return what a read can find, in order."""
        if self.stream_time_ms is None:
            return sorted(self.rows.items())
        horizon_ms = self.stream_time_ms - self.retention_ms
        return sorted([item for item in self.rows.items() if item[0][1] > horizon_ms])

    def forget_expired(self) -> None:
        """Forget what no read can still reach, for the sake of long runs."""
        self.rows = dict(self.visible())

    def clear(self) -> None:
        """Forget everything, stream time included."""
        self.rows.clear()
        self.stream_time_ms = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another one of the same rows, which nobody changes."""
        other = copy(self)
        other.rows = dict(self.rows)
        return other
