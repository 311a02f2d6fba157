"""Seeks whose starts ascend find what single seeks find, by scanning where that is cheaper."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statestores.arrow.keys import ascending_seeks
from statestores.arrow.keys.ascending_seeks import AscendingSeeks
from statestores.spi.engine import EngineReader

ROWS = 40
STOP = b"%03d" % ROWS


class Counted(EngineReader):
    """Rows in a list, with what was asked of them."""

    def __init__(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self.rows = rows
        self.seeks = 0
        self.scans = 0

    def get(self, key: bytes) -> bytes | None:
        """Return one value."""
        return dict(self.rows).get(key)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Return the lowest pair, and count a seek."""
        self.seeks += 1
        return next(self._within(start, stop), None)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Return the highest pair."""
        return max(self._within(start, stop), default=None)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over pairs, and count a scan."""
        assert not reverse
        self.scans += 1
        return self._within(start, stop)

    def _within(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return (row for row in self.rows if start <= row[0] and (stop is None or row[0] < stop))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that a few rows fill."""
    monkeypatch.setattr(ascending_seeks, "_BLOCK_ROWS", 3)
    monkeypatch.setattr(ascending_seeks, "_ROWS_AN_ANSWER", 2)
    monkeypatch.setattr(ascending_seeks, "_SEEKS_BETWEEN_BLOCKS", 4)
    monkeypatch.setattr(ascending_seeks, "_LARGEST_BLOCK_BYTES", 30)


@given(
    numbers=st.sets(st.integers(0, ROWS + 3)),
    questions=st.lists(st.tuples(st.integers(0, ROWS + 1), st.integers(0, 5))),
    size=st.sampled_from([0, 20]),
)
@example(numbers=set(), questions=[(0, 1), (1, 1)], size=0)
@example(numbers=set(range(ROWS)), questions=[(number, 1) for number in range(ROWS)], size=20)
def test_they_find_what_single_seeks_find(
    numbers: set[int], questions: list[tuple[int, int]], size: int
) -> None:
    """Near and far ones, repeated ones, and those behind the last row."""
    rows = [(b"%03d" % number, b"v" * size) for number in sorted(numbers)]
    bounds = [(b"%03d" % start, b"%03d" % (start + length)) for start, length in questions]
    bounds = [(start, min(stop, STOP)) for start, stop in sorted(bounds)]
    seeks = AscendingSeeks(Counted(rows), STOP)

    found = [seeks.first(start, stop) for start, stop in bounds]

    assert found == [Counted(rows).first(start, stop) for start, stop in bounds]


def test_dense_questions_are_one_scan() -> None:
    """No seek at all, whatever the number of blocks."""
    reader = Counted([(b"%03d" % number, b"") for number in range(ROWS)])
    seeks = AscendingSeeks(reader, STOP)
    for number in range(ROWS):
        seeks.first(b"%03d" % number, STOP)

    assert (reader.scans, reader.seeks) == (1, 0)


def test_sparse_questions_are_seeks_but_for_a_block_now_and_then() -> None:
    """Each block in vain is followed by as many seeks as are between two."""
    reader = Counted([(b"%03d" % number, b"") for number in range(ROWS)])
    seeks = AscendingSeeks(reader, STOP)
    for number in range(0, ROWS, 4):
        seeks.first(b"%03d" % number, STOP)

    assert (reader.scans, reader.seeks) == (2, 8)


def test_large_values_are_passed_over() -> None:
    """Reading what nobody asked for would cost more than a seek, and memory."""
    reader = Counted([(b"%03d" % number, b"large value") for number in range(ROWS)])
    seeks = AscendingSeeks(reader, STOP)
    for number in range(5):
        seeks.first(b"%03d" % number, STOP)

    assert (reader.scans, reader.seeks) == (1, 2)
