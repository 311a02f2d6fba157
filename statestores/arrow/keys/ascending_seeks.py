"""Many seeks in the order of keys: near ones are steps of a scan, and far ones are seeks.

A step costs a driver a sixth of a seek. Nobody knows beforehand how near the next row is, so a
block of rows is read, and questions in order are answered from it. As long as the blocks
answer enough, the scan goes on; otherwise seeks do, and now and then a block is tried again.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from statestores.spi.engine import EngineReader

Row = tuple[bytes, bytes]

_BLOCK_ROWS = 128
"""Rows that are read at a time, and then judged."""

_ROWS_AN_ANSWER = 6
"""A block must answer a question for every so many of its rows, or seeks are cheaper."""

_LARGEST_BLOCK_BYTES = 256 * 1024
"""Of values. In larger blocks they cost more to read than to pass over."""

_SEEKS_BETWEEN_BLOCKS = 4096
"""Seeks before a block is tried again: a useless one is then a hundredth of the work."""


class AscendingSeeks:
    """What `EngineReader.first` finds, for starts that ascend.

    Requires: the reader shows one state throughout.
    """

    __slots__ = ("_answers", "_keys", "_reader", "_rows", "_scan", "_seeks", "_stop")

    _scan: Iterator[Row] | None

    def __init__(self, reader: EngineReader, stop: bytes) -> None:
        """Look for rows below *stop* in *reader*."""
        self._reader = reader
        self._stop = stop
        self._scan = None
        self._rows: list[Row] = []  # the current block; none while seeks are cheaper
        self._keys: list[bytes] = []
        self._answers = 0  # of the current block
        self._seeks = _SEEKS_BETWEEN_BLOCKS  # the first question tries

    def first(self, start: bytes, stop: bytes) -> Row | None:
        """Return the lowest row with ``start <= key < stop``. Requires: no start was above it."""
        if not self._keys or start > self._keys[-1]:
            if self._seeks < _SEEKS_BETWEEN_BLOCKS or not self._read_up_to(start):
                self._seeks += 1
                return self._reader.first(start, stop)
            if not self._keys:
                return None
        self._answers += 1
        row = self._rows[bisect_left(self._keys, start)]
        return row if row[0] < stop else None

    def _read_up_to(self, start: bytes) -> bool:
        """Read blocks until one reaches *start*, or nothing is left; return whether it pays."""
        if self._scan is None:
            self._scan = self._reader.scan(start, self._stop)
        elif not self._has_paid():
            self._scan = None
            self._rows, self._keys = [], []
            self._seeks = 0
            return False
        self._rows = list(islice(self._scan, _BLOCK_ROWS))
        self._keys = [key for key, _ in self._rows]
        self._answers = 0
        return not self._keys or start <= self._keys[-1] or self._read_up_to(start)

    def _has_paid(self) -> bool:
        """Return whether the current block was worth reading."""
        size = sum(len(value) for _, value in self._rows)
        enough = self._answers * _ROWS_AN_ANSWER >= len(self._rows)
        return enough and size <= _LARGEST_BLOCK_BYTES
