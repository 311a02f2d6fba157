"""How the rows of a commit get into the index, and which of them are in it already (LAY-20).

Time is divided into spans, a 64th of the retention each. What a commit puts into a span is named in
one group (`name_groups`), unless this opening has named it before. Invariants:

* What is remembered as named was committed by this opening in a group of its span (`named_spans`).
  A failure, a rollback in doubt, and a commit past the write buffer make it forget.
* Where it is not known what was named, since it was written before this opening, or is forgotten,
  rows are named one by one, in rows that replace themselves. So within one opening each row is
  named twice at most, however often it is put.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from statestores.semantics.retained.name_groups import (
    FEWEST_NAMES,
    group_key,
    groups_of,
    is_one_group,
    pack_joined,
    pack_names,
)
from statestores.semantics.retained.named_spans import NamedSpans
from statestores.semantics.retained.named_starts import Rows
from statestores.semantics.retained.rows import NEVER, TIME_BYTES, RetainedRows, pack_time
from statestores.semantics.retained.rows_by_start import StartRows

_FREE_DEATHS = 128
_NAMES_FOR_EACH_DEATH = 2
"""Of rows that are deleted the names stay in their groups until their time has come. A store that
deletes more than every second row that it has named names them one by one from then on, since such
names go as well: sessions that are extended again and again."""


_FEWEST_ROWS = 24
"""Below this number of rows, what a commit does for groups takes longer than a row for each."""


class Naming:
    """The names that this opening of one store has given."""

    __slots__ = ("_deaths", "_named", "_rows", "_spans", "committed", "forget")

    def __init__(self, rows: RetainedRows, spans: NamedSpans) -> None:
        """Know nothing of what the store has; remember in *spans* what is named."""
        self._rows = rows
        self._spans = spans
        self._named = self._deaths = 0
        self.forget = spans.forget
        self.committed = spans.committed

    @staticmethod
    def has_groups_for(rows: int) -> bool:
        """Return whether a commit of so many *rows* may name them in groups."""
        return rows >= _FEWEST_ROWS

    def batch_of(
        self,
        pending: Mapping[bytes, bytes | None],
        bounds_ms: tuple[int, int] | None,
        horizon_ms: int,
        committed_ms: int,
        first_group: int,
    ) -> tuple[Rows, int, int]:
        """Return the rows that *pending* ones change, with those of the index.

        Their times are within *bounds_ms*, if that is known: then few commits need look at each.
        What has expired before it is committed is left out. *committed_ms* is stream time as of the
        last commit: no stored row has a later time. Groups are numbered from *first_group* on, and
        the number of the next one is returned too, and the lowest time in the index.
        """
        self._spans.begin(committed_ms)
        batch = dict(pending)
        if not self.has_groups_for(len(batch)):
            lowest = self._name_each(batch, horizon_ms)
            return batch, first_group, int.from_bytes(lowest)
        by_span = self._at_once(batch, bounds_ms, horizon_ms)
        if by_span is None:
            by_span = self._by_span(batch, pending, horizon_ms)
        self._spans.drop_expired(horizon_ms)
        index, next_group, lowest = self._index_of(
            by_span, batch, list(batch.values()), bounds_ms, first_group
        )
        batch.update(index)
        return batch, next_group, int.from_bytes(lowest)

    def index_of(
        self,
        columns: Sequence[StartRows],
        row_bytes: int,
        horizon_ms: int,
        committed_ms: int,
        first_group: int,
    ) -> tuple[Rows, int, int]:
        """Return the rows of the index for *columns* of visible rows, none of which is a deletion.

        They take *row_bytes* at most. Requires: no row comes twice, and `has_groups_for`
        so many. The rest as of `batch_of`.
        """
        spans = self._spans
        spans.begin(committed_ms)
        spans.drop_expired(horizon_ms)
        by_span: dict[int, list[StartRows]] = {}
        for each in columns:
            by_span.setdefault(each.start_ms // spans.span_ms, []).append(each)
        every = sum(len(each.rows) for each in columns)
        index: Rows = {}
        lowest = NEVER
        for span, parts in by_span.items():
            if spans.is_by_start(span):
                found, first_group, low = self._index_of_starts(
                    parts, row_bytes // every, first_group
                )
            else:
                keys = [key for each in parts for key in each.data_keys]
                values = [value for each in parts for value in each.values]
                starts = [each.start_ms for each in parts]
                found, first_group, low = self._index_of(
                    {span: keys}, {}, values, (min(starts), max(starts)), first_group
                )
            index.update(found)
            lowest = min(lowest, low)
        return index, first_group, int.from_bytes(lowest)

    def _index_of_starts(
        self, parts: list[StartRows], row_bytes: int, next_group: int
    ) -> tuple[Rows, int, bytes]:
        """Return what `_index_of` does for rows of one span that is known by starts.

        Each takes *row_bytes*, about.
        """
        fresh_parts = [self._spans.stage_start(self._rows, part, row_bytes) for part in parts]
        fresh = fresh_parts[0] if len(parts) == 1 else list(chain.from_iterable(fresh_parts))
        if len(fresh) < FEWEST_NAMES or self._is_dying_with(len(fresh)):
            self._spans.unstage(list(map(len, fresh_parts)))
            index: Rows = dict.fromkeys(self._rows.index_keys(fresh), b"")
            return index, next_group, min(index)[1 : 1 + TIME_BYTES] if index else NEVER
        self._named += len(fresh)
        index = {}
        lowest = NEVER
        start_ms, _, _, data_keys, joined = parts[0]
        only = pack_time(start_ms) if len(parts) == 1 else None
        if only and fresh is data_keys and joined is not None and is_one_group(fresh, joined):
            index[group_key(only, next_group)] = pack_joined(len(fresh[0]), joined)
            return index, next_group + 1, only
        for part in groups_of(fresh, len(b"".join(fresh))):
            time = only or self._rows.highest_time(part)
            index[group_key(time, next_group)] = pack_names(part)
            next_group += 1
            lowest = min(lowest, time)
        return index, next_group, lowest

    def _index_of(
        self,
        by_span: Mapping[int, list[bytes]],
        batch: Rows,
        values: list[bytes | None],
        bounds_ms: tuple[int, int] | None,
        next_group: int,
    ) -> tuple[Rows, int, bytes]:
        """Return rows of the index, the number of the next group, and the lowest time.

        *bounds_ms* are the lowest and the highest time of all rows, if they are known. *values* are
        those of all keys, in their order if they are of one span; *batch* has all rows, unless they
        are that and none of them is a deletion.
        """
        only = highest = None
        if bounds_ms is not None:
            highest = pack_time(bounds_ms[1])
            only = highest if bounds_ms[0] == bounds_ms[1] else None
        has_deletions = None in values
        in_order = values if len(by_span) == 1 else None
        index: Rows = {}
        lowest = NEVER
        for span, keys in by_span.items():
            self._spans.have_by_key(span, self._rows)
            fresh, single = self._divided(span, keys, batch, has_deletions=has_deletions)
            if single:
                self._spans.name_singly(span)
            fresh_bytes = len(b"".join(fresh))
            self._named += len(fresh)
            self._spans.stage(span, fresh, fresh_bytes, keys, in_order, batch)
            for part in groups_of(fresh, fresh_bytes) if fresh else ():
                # Of all rows that become one group the highest time is known.
                known = highest if in_order is not None and part is keys else only
                time = known or self._rows.highest_time(part)
                index[group_key(time, next_group)] = pack_names(part)
                next_group += 1
                lowest = min(lowest, time)
            if single:
                index_keys = self._rows.index_keys(single)
                if has_deletions:
                    theirs = in_order if single is keys and in_order else map(batch.get, single)
                    names = [None if value is None else b"" for value in theirs]
                    index.update(zip(index_keys, names, strict=True))
                else:
                    index.update(dict.fromkeys(index_keys, b""))
                lowest = min(lowest, min(index_keys)[1 : 1 + TIME_BYTES])
        return index, next_group, lowest

    def _name_each(self, batch: Rows, horizon_ms: int) -> bytes:
        """Add a row of the index for each in *batch*; return the lowest time in the index."""
        visible = pack_time(max(0, horizon_ms + 1))
        lowest, highest = NEVER, b""
        data_keys = list(batch)
        for index_key, data_key in zip(self._rows.index_keys(data_keys), data_keys, strict=True):
            time = index_key[1 : 1 + TIME_BYTES]
            if time < visible:
                del batch[data_key]
            else:
                if self._spans.keeps_rows:
                    self._spans.stage_row(
                        self._rows, int.from_bytes(time), data_key, batch[data_key]
                    )
                batch[index_key] = None if batch[data_key] is None else b""
                if time < lowest:  # noqa: PLR1730  # a call costs a tenth
                    lowest = time
                if time > highest:  # noqa: PLR1730  # likewise
                    highest = time
        if highest:
            self._spans.name_singly(int.from_bytes(highest) // self._spans.span_ms)
        return lowest

    def _at_once(
        self, batch: Rows, bounds_ms: tuple[int, int] | None, horizon_ms: int
    ) -> dict[int, list[bytes]] | None:
        """Return what `_by_span` does, if all rows are known to be visible and of one span."""
        if bounds_ms is None or bounds_ms[0] <= horizon_ms:
            return None
        span = bounds_ms[0] // self._spans.span_ms
        return {span: list(batch)} if bounds_ms[1] // self._spans.span_ms == span else None

    def _by_span(
        self, batch: Rows, pending: Mapping[bytes, bytes | None], horizon_ms: int
    ) -> dict[int, list[bytes]]:
        """Return the keys of *pending* by span; delete from *batch* what has expired."""
        # `time_of`, written out: this is in the path of each put. As bytes, times compare like
        # numbers, and those of the same span as the one before need no look-up.
        time_from = -self._rows.time_from_end
        time_to = (time_from + TIME_BYTES) or None
        span_ms = self._spans.span_ms
        visible = pack_time(max(0, horizon_ms + 1))
        # Most commits are of one span; of others, the first and the last row mostly tell.
        first, last = next(iter(batch)), next(reversed(batch))
        span = int.from_bytes(first[time_from:time_to]) // span_ms
        if int.from_bytes(last[time_from:time_to]) // span_ms == span:
            times = {data_key[time_from:time_to] for data_key in batch}
            lowest, highest = min(times), max(times)
            is_one = int.from_bytes(lowest) // span_ms == int.from_bytes(highest) // span_ms
            if is_one and lowest >= visible:
                return {span: list(batch)}
        by_span: dict[int, list[bytes]] = {}
        bounds: dict[int, tuple[bytes, bytes, Callable[[bytes], None]]] = {}
        low = high = b""
        for data_key in pending:
            time = data_key[time_from:time_to]
            if not low <= time < high:
                if time < visible:
                    del batch[data_key]
                    continue
                span = int.from_bytes(time) // span_ms
                found = bounds.get(span)
                if found is None:
                    keys: list[bytes] = []
                    by_span[span] = keys
                    first = max(visible, pack_time(span * span_ms))
                    found = bounds[span] = first, pack_time((span + 1) * span_ms), keys.append
                low, high, append = found
            append(data_key)
        return by_span

    def _divided(
        self, span: int, keys: list[bytes], batch: Rows, *, has_deletions: bool
    ) -> tuple[list[bytes], list[bytes]]:
        """Return which *keys* of *span* to name in a group, and which one by one."""
        if not self._spans.is_known(span):
            return [], keys
        known = self._spans.names_of(span)
        if known is None and self._is_dying_with(len(keys)):
            return [], keys
        fresh = keys
        if known is not None and not known.isdisjoint(keys):
            fresh = [key for key in keys if key not in known]
        single: list[bytes] = []
        if has_deletions:
            deleted = {key for key in keys if batch[key] is None}
            if known is not None:
                self._deaths += len(deleted & known)
            fresh = [key for key in fresh if key not in deleted]
            if self._spans.has_singles(span):
                # Also of those that were named in a group: they may be named one by one as well.
                single = [key for key in keys if key in deleted]
        if len(fresh) < FEWEST_NAMES or self._is_dying_with(len(fresh)):
            return [], single + fresh
        return fresh, single

    def _is_dying_with(self, fresh: int) -> bool:
        """Return whether so many rows are deleted that *fresh* names more would be too many."""
        return self._deaths > (self._named + fresh) // _NAMES_FOR_EACH_DEATH + _FREE_DEATHS
