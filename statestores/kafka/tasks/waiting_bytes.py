"""How many bytes of keys and values of a partition wait, as a bound needs to know it (KFK-32)."""

from collections import deque
from collections.abc import Iterable

from statestores.processing.record import RawRecord


class WaitingBytes:
    """Those of one partition, counted by the lots in which they have come."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lots: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, end: int, records: Iterable[RawRecord]) -> None:
        """Note a lot, which ends before the offset *end*."""
        size = sum(len(key or b"") + len(value or b"") for key, value, _, _ in records)
        self._lots.append((end, size))
        self._bytes += size

    def behind(self, processed: int) -> int:
        """Return the bytes of all lots that are not wholly before the offset *processed*."""
        lots = self._lots
        while lots and lots[0][0] <= processed:
            self._bytes -= lots.popleft()[1]
        return self._bytes
