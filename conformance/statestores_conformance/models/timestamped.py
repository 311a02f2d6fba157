"""A timestamped key-value store against a ``dict`` of values and timestamps."""

from copy import copy
from typing import Any, Self

from statestores.spi import TimestampedValue


class TimestampedModel:
    """The latest value and timestamp of each key, and the time at which they are read."""

    def __init__(self, ttl_ms: int | None) -> None:
        self.ttl_ms = ttl_ms
        self.stream_time_ms: int | None = None
        self._values: dict[bytes, TimestampedValue[bytes]] = {}

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Set or delete."""
        if value is None:
            self._values.pop(key, None)
            return
        self._values[key] = TimestampedValue(value, timestamp_ms)
        if timestamp_ms is not None:
            self.stream_time_ms = max(timestamp_ms, self.stream_time_ms or 0)

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        """Return what is alive."""
        found = self._values.get(key)
        return None if found is None or self._has_expired(found) else found

    def pairs(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> list[tuple[bytes, TimestampedValue[bytes]]]:
        """Return the live pairs from *first* to *last*, inclusive, in order."""
        living = [
            (key, stamped)
            for key, stamped in self._values.items()
            if (first is None or first <= key)
            and (last is None or key <= last)
            and not self._has_expired(stamped)
        ]
        return sorted(living, key=lambda pair: pair[0], reverse=reverse)

    def clear(self) -> None:
        """Forget everything, stream time included."""
        self._values.clear()
        self.stream_time_ms = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another one of the same values, which nobody changes."""
        other = copy(self)
        other._values = dict(self._values)  # noqa: SLF001  # one of ours
        return other

    def _has_expired(self, stamped: TimestampedValue[bytes]) -> bool:
        if self.ttl_ms is None or stamped.timestamp_ms is None or self.stream_time_ms is None:
            return False
        return stamped.timestamp_ms + self.ttl_ms <= self.stream_time_ms
