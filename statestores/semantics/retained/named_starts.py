"""What one opening has named in groups of the index, by the start of windows, with their rows.

Windows of one start are committed as the dictionary in which they were pending, and that becomes
what is known of the start: neither is it copied, nor need the names of rows be kept. Invariants:

* a key of a start is the name of a row that this opening has committed in a group of its span;
* a row that is kept is as the engine has it, ``None`` where it has none. Where only the name is
  kept there is `NOT_KEPT`;
* of each span, either all rows are kept or none: memory is given up by spans;
* the starts of a span lie together in `order`, since a span is one stretch of time.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from statestores.semantics.rows.write_buffer import total_bytes

Rows = dict[bytes, bytes | None]

_BYTES_OF_A_KEY = 80
"""What a key takes in memory besides its bytes: as an object, and a place in a dictionary."""

_BYTES_OF_A_VALUE = 40
"""The same of a value, as an object."""

_BYTES_OF_A_START = 400
"""What a dictionary takes that is almost empty, with its places in others."""

NOT_KEPT = bytes(bytearray(b"not kept"))
"""In place of the value of a row of which only the name is kept: this very object."""


class Sizes(NamedTuple):
    """What rows of a start take in memory, about."""

    name_bytes: int
    """Of the keys that are new there."""

    value_bytes: int
    """Of all values."""

    values: int
    """How many these are."""


def sizes_of(fresh: int, key_bytes: int, values: int, row_bytes: int) -> Sizes:
    """Return what so many *fresh* keys and *values* take, each of about so many bytes.

    A row is *row_bytes* with its key and a time, and its key in the engine has *key_bytes*.
    """
    value_bytes = max(0, row_bytes - key_bytes)
    return Sizes(
        fresh * (_BYTES_OF_A_KEY + key_bytes), values * (_BYTES_OF_A_VALUE + value_bytes), values
    )


@dataclass(slots=True)
class _Span:
    """What is known of the starts of one span."""

    is_kept: bool
    """Whether the rows are, and not only their names."""

    starts: set[int] = field(default_factory=set)
    name_bytes: int = 0
    value_bytes: int = 0
    """What the values took when they came: a row that was put again counts twice."""

    values: int = 0
    """How many values that is."""


class NamedStarts:
    """Names and rows by start and key, and how much memory they take."""

    __slots__ = ("_spans", "name_bytes", "order", "rows", "value_bytes")

    def __init__(self) -> None:
        self.rows: dict[int, Rows] = {}
        """The rows by start and key. It is never replaced."""
        self.order: list[int] = []
        """The starts of all spans, ascending. It is never replaced."""
        self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self.rows.clear()
        self.order.clear()
        self._spans: dict[int, _Span] = {}
        self.name_bytes = 0
        """What the names take."""
        self.value_bytes = 0
        """What the values of rows that are kept take, at most: one that was replaced is counted."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the spans of which something is known."""
        return iter(self._spans)

    def keeps(self, span: int) -> bool | None:
        """Return whether the rows of *span* are kept; ``None`` if nothing is known of it."""
        known = self._spans.get(span)
        return None if known is None else known.is_kept

    def kept_spans(self) -> list[int]:
        """Return the spans of which the rows are kept."""
        return list(filter(self.keeps, self._spans))

    def __contains__(self, span: int) -> bool:
        """Whether something is known of *span*."""
        return span in self._spans

    def take(self, start_ms: int, rows: Rows, *, is_kept: bool) -> tuple[Rows, int]:
        """Return what was known of the start with *rows* above it, and how many of them are new.

        The new ones come last. If nothing was known, it is the dictionary *rows* itself. Until it
        is brought back by `add`, nothing is known of the start: an interrupt loses that, and leaves
        nothing that is wrong. This is done while the rows are in the processor's cache: after the
        engine's batch it takes twice as long.
        """
        if not is_kept:
            rows = dict.fromkeys(rows, NOT_KEPT)
        known = self.rows.pop(start_ms, None)
        if known is None:
            return rows, len(rows)
        before = len(known)
        known.update(rows)
        return known, len(known) - before

    def add(self, span: int, start_ms: int, rows: Rows, sizes: Sizes, *, is_kept: bool) -> None:
        """Know *rows* of the start, some of which are committed anew.

        Of a new *span*, what is known of the rows *is_kept*, or only their names.
        """
        known = self._spans.get(span)
        if known is None:
            known = self._spans[span] = _Span(is_kept=is_kept)
        name_bytes, value_bytes, values = sizes
        if start_ms not in known.starts:
            known.starts.add(start_ms)
            insort(self.order, start_ms)
            name_bytes += _BYTES_OF_A_START
        self.rows[start_ms] = rows
        known.name_bytes += name_bytes
        self.name_bytes += name_bytes
        if known.is_kept:
            known.value_bytes += value_bytes
            known.values += values
            self.value_bytes += value_bytes

    def pop(self, span: int) -> list[tuple[int, Rows]]:
        """Forget *span*; return its starts and rows."""
        known = self._spans.pop(span)
        order = self.order
        del order[bisect_left(order, min(known.starts)) : bisect_right(order, max(known.starts))]
        self.name_bytes -= known.name_bytes
        self.value_bytes -= known.value_bytes
        return [(start_ms, self.rows.pop(start_ms, {})) for start_ms in known.starts]

    def keep_names(self, span: int) -> None:
        """Keep the names of *span* alone."""
        known = self._spans[span]
        self.value_bytes -= known.value_bytes
        known.is_kept, known.value_bytes, known.values = False, 0, 0
        for start_ms in known.starts & self.rows.keys():
            self.rows[start_ms] = dict.fromkeys(self.rows[start_ms], NOT_KEPT)

    def count_anew(self) -> None:
        """Leave out of `value_bytes` the values that were replaced since they came."""
        for known in self._spans.values():
            rows = [self.rows.get(start_ms, {}) for start_ms in known.starts]
            count = sum(map(len, rows))
            if count < known.values:
                values = chain.from_iterable(each.values() for each in rows)
                value_bytes = total_bytes(list(values)) + _BYTES_OF_A_VALUE * count
                self.value_bytes -= known.value_bytes - value_bytes
                known.value_bytes, known.values = value_bytes, count
