"""What one opening has named in groups of the index, by spans of time, and the newest of its rows.

Of the newest spans the rows themselves are kept: the owner of a window store finds them here, and
their keys are the names. Of other spans the names alone are kept, and of the earliest nothing. What
is known of a span is by the starts of windows (`named_starts`) as long as it has come in no other
way, or else by the keys of rows. Invariants:

* a row that is kept is as the engine has it, ``None`` where it has none: each commit brings up what
  is here of the rows that it changes, however it names them. Rows that have expired are removed
  from the engine alone, and nobody reads them;
* if there is memory for rows, they are kept of each span by starts from `_kept_from` on, and of no
  earlier span: it is given up from the earliest span on;
* of a span up to the *frontier* nothing is here: what was named there was named before this
  opening, or is forgotten;
* a span is in one of the two forms, and never goes back to that by starts;
* from `whole_from_ms` on the engine has no row that is not kept by its start. During a commit, and
  after one that has failed, there is no such time. Whatever names rows in another way, or gives
  some up, moves it beyond their span.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from statestores.semantics.retained.named_starts import (
    NOT_KEPT,
    NamedStarts,
    Rows,
    Sizes,
    sizes_of,
)
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.retained.rows_by_start import StartRows
from statestores.semantics.rows.write_buffer import total_bytes

SPANS_PER_RETENTION = 64
"""A row stays a span longer than it must, at most: a 64th of the retention."""

_BYTES_OF_A_NAME = 100
"""What a name takes in memory besides its bytes: as an object, and its place in a set."""

_BYTES_OF_A_VALUE = 60
"""The same of a value, with what a place in a dictionary takes beyond one in a set."""

NEVER_MS = 1 << 63
"""Above every time."""

_Staged = tuple[int, list[bytes], int, list[bytes], Sequence[bytes | None]]
"""A span, what is named there for the first time and its bytes; keys of rows to keep, values."""

_StagedStart = tuple[int, int, Rows, Sizes, bool]
"""What `NamedStarts.add` is to be given."""


class NamedSpans:
    """The names and rows, and how much memory they take."""

    __slots__ = (
        "_frontier",
        "_is_under_way",
        "_kept_from",
        "_most_name_bytes",
        "_most_value_bytes",
        "_name_bytes",
        "_names",
        "_next_whole_from_ms",
        "_singles_to",
        "_staged",
        "_staged_of_starts",
        "_staged_starts",
        "_value_bytes",
        "rows",
        "span_ms",
        "starts",
        "takes_new",
        "whole_from_ms",
    )

    def __init__(
        self, retention_ms: int, most_name_bytes: int | None, most_value_bytes: int
    ) -> None:
        """Know nothing of what the store has.

        *most_name_bytes* of memory are for names; ``None``: each put is that of a new row, and
        nothing need be remembered. *most_value_bytes* are for the rows of names, 0 if none are to
        be kept.
        """
        self.span_ms = max(1, retention_ms // SPANS_PER_RETENTION)
        """How much time a span has: the one of a time is their quotient."""
        self.rows: dict[int, Rows] = {}
        """The rows that are kept, by span. It is never replaced."""
        self.starts = NamedStarts()
        """What is known of other spans, by start."""
        self.takes_new = False
        """Whether to keep rows by their keys of spans of which none are kept so far."""

        self._most_name_bytes = most_name_bytes
        self._most_value_bytes = most_value_bytes
        self.forget()

    def forget(self) -> None:
        """Know nothing of what was named so far."""
        # First: an interrupt may come behind each line, and reads go on.
        self.whole_from_ms = self._next_whole_from_ms = NEVER_MS
        """From this time on all rows of the engine are kept by their start."""
        self.rows.clear()
        self.starts.forget()
        self._names: dict[int, set[bytes]] = {}
        self._name_bytes = self._value_bytes = 0
        self._frontier: int | None = None
        self._kept_from = 0
        self._singles_to = -1
        self._staged: list[_Staged] = []
        self._staged_starts: list[_StagedStart] = []
        self._staged_of_starts: list[tuple[int, bytes, bytes | None]] = []
        self._is_under_way = False

    def begin(self, committed_ms: int) -> None:
        """Begin a commit; what was there before this opening is up to *committed_ms*."""
        if self._is_under_way:  # the last one: an interrupt came while it was to be forgotten
            self.forget()
        self._is_under_way = True
        if self._frontier is None:
            self._frontier = committed_ms // self.span_ms
            if self._most_value_bytes and self._most_name_bytes is not None:
                self._next_whole_from_ms = (self._frontier + 1) * self.span_ms
        self.whole_from_ms = NEVER_MS  # until this has succeeded, or all of it is forgotten

    def name_otherwise(self, span: int) -> None:
        """Note that some rows of *span* are named in another way than in a group by their start."""
        self._next_whole_from_ms = max(self._next_whole_from_ms, (span + 1) * self.span_ms)

    def name_singly(self, span: int) -> None:
        """Note that some rows of spans up to *span* are named one by one."""
        self.name_otherwise(span)
        self._singles_to = max(self._singles_to, span)

    def has_singles(self, span: int) -> bool:
        """Return whether a row of *span*, which is known, may be named by itself."""
        return span <= self._singles_to

    @property
    def keeps_rows(self) -> bool:
        """Whether some rows are kept."""
        return bool(self.rows or self.starts.rows)

    @property
    def _takes_any(self) -> bool:
        return self.takes_new and self._most_value_bytes > 0

    def is_known(self, span: int) -> bool:
        """Return whether all that was named in *span* is here."""
        return self._frontier is not None and span > self._frontier

    def is_by_start(self, span: int) -> bool:
        """Return whether all that was named in *span*, if anything, is known by its start."""
        return self.is_known(span) and span not in self.rows and span not in self._names

    def have_by_key(self, span: int, of: RetainedRows) -> None:
        """Have what is known of *span* by the keys of rows: some of them change in another way."""
        self.name_otherwise(span)
        is_kept = self.starts.keeps(span)
        if is_kept is None:
            return
        rows: Rows = {}
        for start_ms, theirs in self.starts.pop(span):
            keys = of.data_keys_at(list(theirs), start_ms)
            rows.update(zip(keys, theirs.values(), strict=True))
        self._name_bytes += _size_of(rows)
        if is_kept:
            self.rows[span] = rows
            self._value_bytes += _bytes_of(rows)
        else:
            self._names[span] = set(rows)

    def kept_values(
        self, keys: list[bytes], data_keys: list[bytes], times_ms: list[int]
    ) -> list[bytes | None]:
        """Return the values of rows, `NOT_KEPT` for those that are not kept."""
        by_span, by_start, span_ms = self.rows, self.starts.rows, self.span_ms
        nothing: Rows = {}
        return [
            by_start[time_ms].get(key, NOT_KEPT)
            if time_ms in by_start
            else by_span.get(time_ms // span_ms, nothing).get(data_key, NOT_KEPT)
            for key, data_key, time_ms in zip(keys, data_keys, times_ms, strict=True)
        ]

    def names_of(self, span: int) -> AbstractSet[bytes] | None:
        """Return what was named in *span*, which is known; ``None`` for nothing."""
        rows = self.rows.get(span)
        return self._names.get(span) if rows is None else rows.keys()

    def stage(
        self,
        span: int,
        fresh: list[bytes],
        fresh_bytes: int,
        keys: list[bytes],
        values: Sequence[bytes | None] | None,
        batch: Rows,
    ) -> None:
        """Have the batch name *fresh* rows in groups, among the *keys* of *span* that it changes.

        Their values are *values*, in the order of the keys, or else in *batch*.
        """
        if self._most_name_bytes is None:
            return
        rows = self.rows.get(span)
        changed: list[bytes] = []
        theirs: Sequence[bytes | None] = []
        if rows is not None or (self._takes_any and span >= self._kept_from):
            changed = keys
            if len(fresh) < len(keys):
                known = self.names_of(span)
                again = [key for key in keys if key in known] if known else []
                if len(again) < len(keys):
                    changed = fresh + again
            if changed is keys and values is not None:
                theirs = values
            elif changed:
                of = batch or dict(zip(keys, values or (), strict=True))
                theirs = [of[key] for key in changed]
        if fresh and rows is None and not changed:
            # Now: the engine's batch takes them out of the processor's cache. If it fails, all is
            # forgotten (`begin`).
            self._names.setdefault(span, set()).update(fresh)
        if fresh or changed:
            self._staged.append((span, fresh, fresh_bytes, changed, theirs))

    def stage_start(self, of: RetainedRows, changed: StartRows, row_bytes: int) -> list[bytes]:
        """Have the batch change the rows of a start; return the keys of those that were not named.

        A row takes *row_bytes*, and the new ones have to be named in groups, or else `unstage` is
        next. Requires: their span `is_by_start`.
        """
        start_ms, rows, _, data_keys, joined = changed
        span = start_ms // self.span_ms
        is_kept = span >= self._kept_from and self._most_value_bytes > 0
        known, count = self.starts.take(start_ms, rows, is_kept=is_kept)
        fresh = data_keys
        if not count:
            fresh = []
        elif count < len(rows):
            fresh = of.data_keys_at(list(islice(reversed(known), count)), start_ms)
        length = len(b"".join(data_keys) if joined is None else joined) // len(data_keys)
        sizes = sizes_of(count, length, len(rows), row_bytes)
        self._staged_starts.append((span, start_ms, known, sizes, is_kept))
        return fresh

    def unstage(self, fresh: Sequence[int]) -> None:
        """Have the starts that are staged without their newest names: so many of each."""
        if any(fresh):
            self.name_singly(self._staged_starts[-1][0])  # the others are of the same span
        staged = zip(self._staged_starts[-len(fresh) :], fresh, strict=True)
        self._staged_starts[-len(fresh) :] = [
            (
                span,
                start_ms,
                dict(islice(known.items(), len(known) - count)),
                sizes._replace(name_bytes=0),
                is_kept,
            )
            for (span, start_ms, known, sizes, is_kept), count in staged
            if count < len(known)
        ]

    def stage_row(
        self, of: RetainedRows, time_ms: int, data_key: bytes, value: bytes | None
    ) -> None:
        """Have the batch change the row *data_key*, which is named by itself."""
        span = time_ms // self.span_ms
        if data_key in self.rows.get(span, ()):
            self._staged.append((span, [], 0, [data_key], [value]))
        elif time_ms in self.starts.rows:
            key = of.key_of(data_key)
            if key in self.starts.rows[time_ms]:
                self._staged_of_starts.append((time_ms, key, value))

    def committed(self) -> None:
        """Remember what the last batch named and changed: it is committed."""
        for span, fresh, fresh_bytes, changed, values in self._staged:
            rows = self.rows.get(span)
            if rows is None and changed:
                names = self._names.pop(span, set())
                rows = self.rows[span] = dict.fromkeys(names, NOT_KEPT)
            self._name_bytes += fresh_bytes + _BYTES_OF_A_NAME * len(fresh)
            if rows is not None:
                rows.update(zip(changed, values, strict=True))
                self._value_bytes += total_bytes(list(values)) + _BYTES_OF_A_VALUE * len(values)
        self._staged = []
        starts = self.starts
        for span, start_ms, known, sizes, is_kept in self._staged_starts:
            starts.add(span, start_ms, known, sizes, is_kept=is_kept)
        self._staged_starts = []
        for start_ms, key, value in self._staged_of_starts:
            if starts.keeps(start_ms // self.span_ms):
                starts.rows[start_ms][key] = value
        self._staged_of_starts = []
        if self._value_bytes + starts.value_bytes > self._most_value_bytes:
            self._keep_fewer_rows()
        name_bytes = self._name_bytes + starts.name_bytes
        if self._most_name_bytes is not None and name_bytes > self._most_name_bytes:
            self._keep_fewer_names(self._most_name_bytes)
        self.whole_from_ms = self._next_whole_from_ms
        self._is_under_way = False

    def _keep_fewer_rows(self) -> None:
        """Keep the names alone of the earliest spans, until the others take a part of it."""
        # Counted anew: what was replaced since is in the sum too.
        sizes = {span: _bytes_of(rows) for span, rows in self.rows.items()}
        self._value_bytes = sum(sizes.values())
        starts = self.starts
        starts.count_anew()
        eighths = 6 if sizes else 7  # those by key are counted again and again
        for span in sorted([*sizes, *starts.kept_spans()]):
            if self._value_bytes + starts.value_bytes <= self._most_value_bytes * eighths // 8:
                break
            if span in sizes:
                self._names[span] = set(self.rows.pop(span))
                self._value_bytes -= sizes[span]
            else:
                starts.keep_names(span)
            self._kept_from = span + 1
            self.name_otherwise(span)

    def _keep_fewer_names(self, most_bytes: int) -> None:
        """Forget the names of the earliest spans, until the others take no more than they may."""
        starts = self.starts
        for span in sorted([*self._names, *self.rows, *starts]):
            if self._name_bytes + starts.name_bytes <= most_bytes:
                break
            self._frontier = span
            self.name_otherwise(span)
            self._drop(span)

    def drop_expired(self, horizon_ms: int) -> None:
        """Forget the spans of which nothing is visible any more: nothing is put there again."""
        first = (horizon_ms + 1) // self.span_ms
        for span in [span for span in (*self._names, *self.rows, *self.starts) if span < first]:
            self._drop(span)

    def _drop(self, span: int) -> None:
        """Forget *span*, of which something is known."""
        if span in self.starts:
            self.starts.pop(span)
            return
        rows = self.rows.pop(span, None)
        if rows is not None:
            self._value_bytes -= _bytes_of(rows)
        self._name_bytes -= _size_of(self._names.pop(span) if rows is None else rows)


def _size_of(names: Iterable[bytes]) -> int:
    """Return what *names* take in memory, about."""
    sizes = list(map(len, names))
    return sum(sizes) + _BYTES_OF_A_NAME * len(sizes)


def _bytes_of(rows: Rows) -> int:
    """Return what the values of *rows* take in memory, about."""
    return total_bytes(list(rows.values())) + _BYTES_OF_A_VALUE * len(rows)
