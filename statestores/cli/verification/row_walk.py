"""The walk over the rows of an engine: how many there were, and what is wrong with them."""

from collections.abc import Callable, Iterator

Tell = Callable[[int], None]
"""Told how many rows have been read since it was last told."""

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

    def __init__(self, tell: Tell | None) -> None:
        self.rows = 0
        self._tell = tell

    def through(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Pass *rows* on."""
        for row in rows:
            self.rows += 1
            if self._tell is not None and self.rows % _TELL_ROWS == 0:
                self._tell(_TELL_ROWS)
            yield row
