"""The rows of both sides of a join of streams: those of a batch, and those that its stores have."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.column import Flags, NotOnColumnsError, Numbers
from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.stream_stream import StreamJoinSide
from statestores.processing.stores import key_serde

NEVER = 1 << 62
"""Later than every row, and every time that columns take."""

_MOST_PAIRS = 2_000_000
"""With more of them than that, records take less memory."""


class Side(NamedTuple):
    """What comes to one side."""

    operator: StreamJoinSide
    """The side."""

    columns: RecordColumns
    """Its rows, in the order in which they come up; ``rows`` says of which row of the input."""


class JoinRows:
    """The rows of a batch, of both sides, in the order in which they come up."""

    def __init__(self, sides: Sequence[Side], task: TaskRows) -> None:
        """Put the rows of *sides*, at least one, in order.

        Raises:
            NotOnColumnsError: A time is too late for numbers of 64 bits.
            SerializationError: A key is not of the serde's type.
        """
        join = self.join = sides[0].operator.join
        several = [each.columns for each in sides]
        rows = np.concatenate([each.rows for each in several])
        order = np.argsort(rows, kind="stable")
        self.rows: Numbers = rows[order]
        self.times: Numbers = np.concatenate([each.times for each in several])[order]
        flags = [np.full(len(each.columns), each.operator.is_left) for each in sides]
        self.is_left: Flags = np.concatenate(flags)[order]
        self.sides = {each.operator.is_left: each for each in sides}
        self.at: dict[bool, Numbers] = {
            is_left: np.flatnonzero(self.is_left == is_left) for is_left in (True, False)
        }
        window = join.window
        reach = abs(window.before_ms) + abs(window.after_ms) + window.grace_ms
        if int(self.times.max()) + reach >= NEVER >> 1:
            raise NotOnColumnsError("a time is too late")
        self.before_ms: Numbers = np.where(self.is_left, window.before_ms, window.after_ms)
        self.after_ms: Numbers = np.where(self.is_left, window.after_ms, window.before_ms)
        comes_alone = {True: join.how != "inner", False: join.how == "outer"}
        self.comes_alone: Flags = np.where(self.is_left, comes_alone[True], comes_alone[False])
        serde = self.key_serde = key_serde(task.store(join.left_store).specification)
        self.keys: pa.Array = pa.concat_arrays([each.key.encoded(serde) for each in several]).take(
            pa.array(order)
        )
        self.no_key: Flags = np.concatenate([each.key.absent() for each in several])[order]
        self.no_value: Flags = np.concatenate([each.value.absent() for each in several])[order]
        self.now: Numbers = np.maximum.accumulate(
            np.maximum(self.times, task.observed_time(join.name).now_ms)
        )
        is_whole = ~(self.no_key | self.no_value)
        if join.how == "inner":
            self.late = is_whole & (self.times + self.after_ms + window.grace_ms < self.now)
        else:
            self.late = np.zeros(len(self), np.bool_)
        self.joins: Flags = is_whole & ~self.late
        """The rows that look for others, and are kept."""
        found: Any = self.keys.dictionary_encode()
        self.names: list[bytes] = found.dictionary.to_pylist()
        self.codes: Numbers = found.indices.fill_null(-1).to_numpy().astype(np.int64)
        """Which of the names is the key of each; -1 without one."""
        self.horizons = {is_left: self._horizon(task, is_left=is_left) for is_left in (True, False)}

    def __len__(self) -> int:
        return len(self.rows)

    def store_of(self, *, is_left: bool) -> str:
        """Return the store of a side."""
        return self.join.left_store if is_left else self.join.right_store

    def _horizon(self, task: TaskRows, *, is_left: bool) -> Numbers:
        """Return up to what time the store of a side has let go of rows, as each row comes."""
        store: Any = store_of_bytes(task.store(self.store_of(is_left=is_left)))
        known_ms = store.stream_time_ms
        first_ms = -1 if known_ms is None else known_ms
        put = np.where(self.joins & (self.is_left == is_left), self.times, -1)
        reached = np.maximum.accumulate(np.concatenate([[first_ms], put]))[:-1]
        horizons: Numbers = reached - store.specification.retention_ms
        return horizons


class Pairs(NamedTuple):
    """Rows that find others, in the order in which they do."""

    finders: Numbers
    """The rows of the batch that find one."""

    found: Numbers
    """The rows that are found: of the batch; or below 0, those of a store."""

    times: Numbers
    """The times of these."""


class StoredRows(NamedTuple):
    """What the store of one side has within the reach of the other side's rows."""

    codes: list[int]
    """The keys."""

    times: list[int]
    """The times."""

    values: list[bytes]
    """The values."""


def stored_rows(rows: JoinRows, task: TaskRows, *, is_left: bool) -> StoredRows:
    """Return what the store of a side has that the other side's rows may find, once each."""
    finders = np.flatnonzero(rows.joins & (rows.is_left != is_left))
    found = StoredRows([], [], [])
    store: Any = store_of_bytes(task.store(rows.store_of(is_left=is_left)))
    lows = np.maximum(rows.times[finders] - rows.before_ms[finders], 0)
    highs = np.maximum(rows.times[finders] + rows.after_ms[finders], 0)
    for code, low_ms, high_ms in _spans(rows.codes[finders], lows, highs):
        for _, time_ms, _, value in store.fetch_range(rows.names[code], low_ms, high_ms):
            found.codes.append(code)
            found.times.append(time_ms)
            found.values.append(value)
    return found


def _spans(codes: Numbers, lows: Numbers, highs: Numbers) -> Iterator[tuple[int, int, int]]:
    """Yield the times of each key that are within a span, joined where they meet."""
    reaches = np.flatnonzero(highs >= lows)
    order = reaches[np.lexsort((lows[reaches], codes[reaches]))]
    last_code = last_low = last_high = -1
    for code, low_ms, high_ms in zip(
        codes[order].tolist(), lows[order].tolist(), highs[order].tolist(), strict=True
    ):
        if code == last_code and low_ms <= last_high + 1:
            last_high = max(last_high, high_ms)
            continue
        if last_code >= 0:
            yield last_code, last_low, last_high
        last_code, last_low, last_high = code, low_ms, high_ms
    if last_code >= 0:
        yield last_code, last_low, last_high


def pairs_of(rows: JoinRows, stored: StoredRows, *, is_left: bool) -> Pairs:
    """Return which rows of the other side find rows of a side, in the order of the finders.

    Those of one finder are in the order of their times and of their arrival.

    Raises:
        NotOnColumnsError: There are too many, or the times are too far apart.
    """
    own = rows.joins & (rows.is_left == is_left) & (rows.times > rows.horizons[is_left])
    places = np.flatnonzero(own)
    finders = np.flatnonzero(rows.joins & (rows.is_left != is_left))
    several = len(stored.codes)
    codes = np.concatenate([np.array(stored.codes, np.int64), rows.codes[places]])
    times = np.concatenate([np.array(stored.times, np.int64), rows.times[places]])
    at = np.concatenate([np.arange(-several, 0), places])
    if not len(codes) or not len(finders):
        nothing = np.array([], np.int64)
        return Pairs(nothing, nothing, nothing)
    order = np.lexsort((at, times, codes))
    codes, times, at = codes[order], times[order], at[order]
    least, most = int(times.min()), int(times.max())
    span = most - least + 3
    if span > NEVER // (len(rows.names) + 1):
        raise NotOnColumnsError("times are too far apart")
    numbers = codes * span + (times - least + 1)
    base = rows.codes[finders] * span
    lows = np.maximum(rows.times[finders] - rows.before_ms[finders], 0)
    highs = np.maximum(rows.times[finders] + rows.after_ms[finders], 0)
    starts = np.searchsorted(numbers, base + np.clip(lows - least + 1, 0, span - 1), side="left")
    ends = np.searchsorted(numbers, base + np.clip(highs - least + 1, 0, span - 2), side="right")
    counts = np.where(highs >= lows, np.maximum(ends - starts, 0), 0)
    total = int(counts.sum())
    if total > _MOST_PAIRS:
        raise NotOnColumnsError("a batch has too many pairs")
    ends_of = np.cumsum(counts)
    who = np.repeat(finders, counts)
    which = np.arange(total) - np.repeat(ends_of - counts, counts) + np.repeat(starts, counts)
    is_there = (at[which] < who) & (times[which] > rows.horizons[is_left][who])
    who, which = who[is_there], which[is_there]
    return Pairs(who, at[which], times[which])
