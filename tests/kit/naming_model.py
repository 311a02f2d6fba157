"""A naive model of what a commit of windows and sessions names, and what is remembered of it.

It has the rules of LAY-20 and LAY-30 and of the memory for names, as loops over dictionaries: see
`statestores.semantics.retained.naming`, `named_spans` and `named_starts`.
"""

from collections.abc import Iterable
from typing import Any

from statestores.semantics.retained.name_groups import group_key, pack_names
from statestores.semantics.retained.named_spans import NEVER_MS
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.semantics.retained.rows import RetainedRows, pack_time
from statestores.semantics.retained.rows_by_start import RowsByStart

Row = bytes | None

MOST_NAMES, MOST_BYTES, FEWEST_NAMES, FEWEST_ROWS, FREE_DEATHS = 7, 300, 3, 6, 2
"""The bounds of the rules, far lower than those of the library: a test sets them."""

NAME, VALUE, KEY_OF_START, VALUE_OF_START, START = 100, 60, 80, 40, 400
"""What a name, a value, these of a start, and a start take in memory besides their bytes, about."""


def bytes_of(values: Iterable[Row]) -> int:
    """Return the length of all *values*."""
    return sum(len(value or b"") for value in values)


class Span:
    """What is known of the names and rows of one span."""

    def __init__(self, *, by_start: bool, is_kept: bool) -> None:
        """Know nothing yet."""
        self.by_start, self.is_kept = by_start, is_kept
        self.rows: dict[bytes, Row] = {}
        self.starts: set[int] = set()
        self.name_bytes = self.value_bytes = self.values = 0
        """Of a span by start: what came."""


class NamingModel:
    """One opening: what is known by span, and the rules by which rows are named."""

    def __init__(
        self, of: RetainedRows, retention_ms: int, most_names: int | None, most_values: int
    ) -> None:
        """Know nothing of what the store has."""
        self.of, self.most_names, self.most_values = of, most_names, most_values
        self.span_ms = max(1, retention_ms // 64)
        self.named = self.deaths = 0
        self.takes_new = False
        self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self.spans: dict[int, Span] = {}
        self.frontier: int | None = None
        self.kept_from, self.singles_to = 0, -1
        self.next_whole_ms = self.whole_ms = NEVER_MS
        self.value_bytes = 0
        self.staged: list[Any] = []
        self.is_under_way = False

    def begin(self, committed_ms: int) -> None:
        """Begin a commit; nothing is known after one that has not come to an end."""
        if self.is_under_way:
            self.forget()
        self.is_under_way = True
        self.whole_ms = NEVER_MS
        if self.frontier is None:
            self.frontier = committed_ms // self.span_ms
            if self.most_values and self.most_names is not None:
                self.next_whole_ms = (self.frontier + 1) * self.span_ms

    def name_otherwise(self, span: int) -> None:
        """Give up ranges from memory up to the end of *span*."""
        self.next_whole_ms = max(self.next_whole_ms, (span + 1) * self.span_ms)

    def name_singly(self, span: int) -> None:
        """Note single names up to *span*."""
        self.name_otherwise(span)
        self.singles_to = max(self.singles_to, span)

    def is_dying_with(self, fresh: int) -> bool:
        """Return whether more than half of the names are of rows that were deleted."""
        return self.deaths > (self.named + fresh) // 2 + FREE_DEATHS

    def drop_expired(self, horizon_ms: int) -> None:
        """Forget spans below that of the first visible time."""
        for span in list(self.spans):
            if (span + 1) * self.span_ms <= horizon_ms + 1:
                self.drop(span)

    def drop(self, span: int) -> None:
        """Forget a span."""
        known = self.spans.pop(span)
        if not known.by_start and known.is_kept:
            self.value_bytes -= self.size_of_values(known)

    @staticmethod
    def size_of_values(known: Span) -> int:
        """Return what the values of a span take by key."""
        return bytes_of(known.rows.values()) + VALUE * len(known.rows)

    def index_of(
        self, fresh: list[bytes], singles: dict[bytes, Row], group: int
    ) -> tuple[dict[bytes, Row], int]:
        """Return groups of *fresh* names, and rows for single ones."""
        index: dict[bytes, Row] = {}
        while fresh:
            part = [fresh[0]]
            while len(part) < MOST_NAMES and bytes_of(part) < MOST_BYTES and len(part) < len(fresh):
                part.append(fresh[len(part)])
            fresh = fresh[len(part) :]
            highest = max(map(self.of.time_of, part))
            index[group_key(pack_time(highest), group)] = pack_names(part)
            group += 1
        for key, value in singles.items():
            index[self.of.index_key(key)] = None if value is None else b""
        return index, group

    def batch_of(
        self, pending: dict[bytes, Row], horizon_ms: int, committed_ms: int, group: int
    ) -> tuple[dict[bytes, Row], int]:
        """Name rows that come by their keys; return all rows, and the next group."""
        self.begin(committed_ms)
        visible = {key: row for key, row in pending.items() if self.of.time_of(key) > horizon_ms}
        if len(pending) < FEWEST_ROWS:
            for key, value in visible.items():
                known = self.spans.get(self.of.time_of(key) // self.span_ms)
                if known is not None and known.is_kept and key in known.rows:
                    self.staged.append((self.of.time_of(key) // self.span_ms, {key: value}))
            if visible:
                self.name_singly(max(map(self.of.time_of, visible)) // self.span_ms)
            return visible | self.index_of([], visible, group)[0], group
        self.drop_expired(horizon_ms)
        batch = dict(visible)
        for span in dict.fromkeys(self.of.time_of(key) // self.span_ms for key in visible):
            theirs = {
                k: v for k, v in visible.items() if self.of.time_of(k) // self.span_ms == span
            }
            index, group = self.name_by_key(span, theirs, group)
            batch |= index
        return batch, group

    def name_by_key(
        self, span: int, theirs: dict[bytes, Row], group: int
    ) -> tuple[dict[bytes, Row], int]:
        """Name rows of one span, of which what is known is by key from now on."""
        self.name_otherwise(span)
        known = self.spans.get(span)
        if known is not None and known.by_start:
            known.by_start, known.starts = False, set()
            if known.is_kept:
                self.value_bytes += self.size_of_values(known)
        names = set(known.rows) if known is not None else set()
        fresh = [key for key in theirs if key not in names]
        singles = {}
        assert self.frontier is not None
        if span <= self.frontier or (known is None and self.is_dying_with(len(theirs))):
            fresh, singles = [], theirs
        else:
            self.deaths += sum(1 for key in theirs if key in names and theirs[key] is None)
            if span <= self.singles_to:
                singles = {key: None for key, value in theirs.items() if value is None}
            fresh = [key for key in fresh if theirs[key] is not None]
            if len(fresh) < FEWEST_NAMES or self.is_dying_with(len(fresh)):
                fresh, singles = [], singles | {key: theirs[key] for key in fresh}
        if singles:
            self.name_singly(span)
        self.named += len(fresh)
        if self.most_names is not None:
            changed = {k: v for k, v in theirs.items() if k in names or k in fresh}
            is_kept = known is not None and known.is_kept
            if not is_kept and not (self.takes_new and self.most_values and span >= self.kept_from):
                changed = dict.fromkeys(fresh, NOT_KEPT)
            if changed:
                self.staged.append((span, changed))
        return self.index_of(fresh, singles, group)

    def name_starts(
        self,
        starts: RowsByStart,
        row_bytes: int,
        horizon_ms: int,
        committed_ms: int,
        group: int,
    ) -> tuple[dict[bytes, Row], int]:
        """Name windows that come by their start; return the rows of the index."""
        self.begin(committed_ms)
        self.drop_expired(horizon_ms)
        index: dict[bytes, Row] = {}
        row_bytes //= sum(map(len, starts.values()))
        for span in dict.fromkeys(start_ms // self.span_ms for start_ms in starts):
            parts = {
                start_ms: {self.of.data_key(key, start_ms): row for key, row in theirs.items()}
                for start_ms, theirs in starts.items()
                if start_ms // self.span_ms == span
            }
            known = self.spans.get(span)
            assert self.frontier is not None
            if span <= self.frontier or (known is not None and not known.by_start):
                every = {key: row for part in parts.values() for key, row in part.items()}
                more, group = self.name_by_key(span, every, group)
            else:
                more, group = self.name_by_start(span, parts, row_bytes, group)
            index |= more
        return index, group

    def name_by_start(
        self, span: int, parts: dict[int, dict[bytes, Row]], row_bytes: int, group: int
    ) -> tuple[dict[bytes, Row], int]:
        """Name windows of one span of which nothing is known by key."""
        known = self.spans.get(span)
        if known is None:
            is_kept = span >= self.kept_from and self.most_values > 0
            known = Span(by_start=True, is_kept=is_kept)
        fresh: list[bytes] = []
        staged = []
        for start_ms, theirs in parts.items():
            new = [key for key in theirs if key not in known.rows]
            # The newest first, if some of the others were known.
            fresh += new if len(new) == len(theirs) else new[::-1]
            length = bytes_of(theirs) // len(theirs)
            values = len(theirs) * (VALUE_OF_START + max(0, row_bytes - length))
            staged.append((start_ms, theirs, new, length, values))
        is_single = len(fresh) < FEWEST_NAMES or self.is_dying_with(len(fresh))
        for start_ms, theirs, new, length, values in staged:
            left = dict(theirs)
            if is_single:
                left = {key: row for key, row in theirs.items() if key not in new}
            names = 0 if is_single else len(new) * (KEY_OF_START + length)
            sizes = (names, values, len(theirs))
            has_start = start_ms in known.starts
            if left or has_start:
                self.staged.append((span, left, start_ms, sizes, known.is_kept))
        if not is_single:
            self.named += len(fresh)
            return self.index_of(fresh, {}, group)
        if fresh:
            self.name_singly(span)
        return self.index_of([], dict.fromkeys(fresh, b""), group)

    def committed(self) -> None:
        """Know what was staged, as far as memory goes."""
        for span, changed, *start in self.staged:
            known = self.spans.get(span)
            if start:
                self.add_start(span, changed, *start)
                continue
            has_values = any(row is not NOT_KEPT for row in changed.values())
            if known is None:
                known = self.spans[span] = Span(by_start=False, is_kept=has_values)
            known.is_kept = known.is_kept or has_values
            known.rows |= changed
            if known.is_kept and not known.by_start:
                self.value_bytes += bytes_of(changed.values()) + VALUE * len(changed)
        self.staged = []
        if self.total_value_bytes() > self.most_values:
            self.keep_fewer_rows()
        if self.most_names is not None:
            for span in sorted(self.spans):
                if self.total_name_bytes() <= self.most_names:
                    break
                self.frontier = span
                self.kept_from = max(self.kept_from, span + 1)
                self.name_otherwise(span)
                self.drop(span)
        self.whole_ms = self.next_whole_ms
        self.is_under_way = False

    def add_start(
        self,
        span: int,
        changed: dict[bytes, Row],
        start_ms: int,
        sizes: tuple[int, int, int],
        is_kept: bool,
    ) -> None:
        """Know more of a start."""
        known = self.spans.setdefault(span, Span(by_start=True, is_kept=is_kept))
        known.rows |= changed if known.is_kept else dict.fromkeys(changed, NOT_KEPT)
        known.name_bytes += sizes[0] + (0 if start_ms in known.starts else START)
        known.starts.add(start_ms)
        if known.is_kept:
            known.value_bytes += sizes[1]
            known.values += sizes[2]

    def keep_fewer_rows(self) -> None:
        """Keep names alone of the earliest spans."""
        by_key = [each for each in self.spans.values() if each.is_kept and not each.by_start]
        self.value_bytes = sum(map(self.size_of_values, by_key))
        for known in self.spans.values():
            if known.by_start and len(known.rows) < known.values:
                known.values = len(known.rows)
                known.value_bytes = bytes_of(known.rows.values()) + VALUE_OF_START * known.values
        for span in sorted(span for span, known in self.spans.items() if known.is_kept):
            if self.total_value_bytes() <= self.most_values * (6 if by_key else 7) // 8:
                break
            known = self.spans[span]
            if not known.by_start:
                self.value_bytes -= self.size_of_values(known)
            known.rows = dict.fromkeys(known.rows, NOT_KEPT)
            known.is_kept, known.value_bytes, known.values = False, 0, 0
            self.kept_from = span + 1
            self.name_otherwise(span)

    def total_value_bytes(self) -> int:
        """Return what values take."""
        return self.value_bytes + sum(
            known.value_bytes for known in self.spans.values() if known.by_start
        )

    def total_name_bytes(self) -> int:
        """Return what names take."""
        return sum(
            known.name_bytes if known.by_start else bytes_of(known.rows) + NAME * len(known.rows)
            for known in self.spans.values()
        )
