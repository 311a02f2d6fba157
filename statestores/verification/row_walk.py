"""The walk over the rows of an engine: how many there were, and what is wrong with them."""

from collections.abc import Iterator

from statestores.arrow.progress import Meter

_TELL_ROWS = 10_000


class Problems:
    """Collects what is wrong, and does not grow without bound."""

    _KEPT = 20

    def __init__(self) -> None:
        self.kept: list[str] = []
        """The first few, in words."""
        self.count = 0
        """How many there are."""

    def add(self, problem: str) -> None:
        """Take note of *problem*."""
        self.count += 1
        if self.count <= self._KEPT:
            self.kept.append(problem)


class RowCounter:
    """Counts rows as they pass."""

    def __init__(self, meter: Meter) -> None:
        """Count from 0, and tell *meter* now and then."""
        self.rows = 0
        self._meter = meter

    def through(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Pass *rows* on."""
        for row in rows:
            self.rows += 1
            if self.rows % _TELL_ROWS == 0:
                self._meter.add(_TELL_ROWS, 0)
            yield row
