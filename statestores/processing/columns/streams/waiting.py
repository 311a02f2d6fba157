"""What waits in a join of streams until nothing on time can match it, on columns.

A row that waits comes out with the first row at the join's time that is past its last match, unless
one of the other side has found it by then.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from statestores.processing.columns.column import Flags, Numbers
from statestores.processing.columns.streams.rows import NEVER, JoinRows, Pairs
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.stream_stream import LEFT, RIGHT
from statestores.processing.operators.time_queue import TimeQueue
from statestores.processing.serdes import time_bytes

_NUMBER_BYTES = 8


class ComesOut(NamedTuple):
    """A row that waits no longer, and has found nobody."""

    at: int
    """The row of the batch with which it comes out."""

    time_ms: int
    """When it was."""

    name: bytes
    """Its name in the queue: of one time and row, the order is by it."""

    place: int
    """The row of the batch that it is; below 0: it waited before."""

    content: bytes | None
    """The record, if it waited before."""

    @property
    def is_left(self) -> bool:
        """Whether it is of the left side."""
        return self.name[:1] == LEFT


class Waiting(NamedTuple):
    """What becomes of what waits."""

    out: list[ComesOut]
    """What comes out, in order."""

    gone: list[tuple[int, bytes]]
    """Time and name of what waits no longer, of those that waited before."""

    stays: list[tuple[int, bytes, int]]
    """Time, name and place of the rows of the batch that wait from now on."""

    last_number: int | None
    """The number of the last row that has waited; ``None``: none has, in this batch."""

    head_ms: int | None
    """Before which nothing waits any more; ``None``: as before."""


def waiting_after(
    rows: JoinRows, several: dict[bool, Pairs], waits: Flags, waiting: str, task: TaskRows
) -> Waiting:
    """Return what becomes of what waited, and of the rows of which *waits* is true.

    *several* has for each side what is found of it; *waiting* is the store of what waits.
    """
    window = rows.join.window
    spreads = {
        True: window.after_ms + window.grace_ms,
        False: window.before_ms + window.grace_ms,
    }
    triggers = np.flatnonzero(rows.times == rows.now)  # whatever comes of the row itself
    places = np.flatnonzero(waits)
    kept = task.store(waiting).get(b"n")
    first = 0 if kept is None else int.from_bytes(kept, "big") + 1
    sides = rows.is_left[places]
    deadlines = rows.times[places] + np.where(sides, spreads[True], spreads[False])
    outs = _triggered(rows, triggers, places, deadlines)
    found = {
        is_left: _Found(rows, pairs)
        for is_left, pairs in several.items()
        if is_left or rows.join.how == "outer"
    }
    for is_left, finds in found.items():
        of_side = np.flatnonzero(sides == is_left)
        at = places[of_side]
        until = finds.first_after(rows.codes[at], rows.times[at], at)
        is_found = until < outs[of_side]  # a row comes out before the one that comes with it looks
        outs[of_side[is_found]] = -1
    out: list[ComesOut] = []
    stays: list[tuple[int, bytes, int]] = []
    for number, (place, at) in enumerate(zip(places.tolist(), outs.tolist(), strict=True), first):
        if at < 0:
            continue
        side = LEFT if rows.is_left[place] else RIGHT
        name = side + rows.names[rows.codes[place]] + time_bytes(number)
        time_ms = int(rows.times[place])
        if at < NEVER:
            out.append(ComesOut(at, time_ms, name, place, None))
        else:
            stays.append((time_ms, name, place))
    gone, head_ms = _queued(rows, found, triggers, spreads, waiting, task, out)
    out.sort(key=lambda each: each[:3])
    last = first + len(places) - 1 if len(places) else None
    return Waiting(out, gone, stays, last, head_ms)


def _triggered(rows: JoinRows, triggers: Numbers, places: Numbers, deadlines: Numbers) -> Numbers:
    """Return with which row each comes out that is of a place, and waits until its deadline."""
    after = np.searchsorted(triggers, places, side="right")
    past = np.searchsorted(rows.now[triggers], deadlines, side="right")
    which = np.maximum(after, past)
    found: Numbers = np.concatenate([triggers, [NEVER]])[np.minimum(which, len(triggers))]
    return found


class _Found:
    """When rows of one side are found, by their keys and times: all of them at once."""

    def __init__(self, rows: JoinRows, pairs: Pairs) -> None:
        self._rows = rows
        stored, codes = pairs.found < 0, rows.codes[pairs.finders]
        order = np.lexsort((pairs.finders, pairs.times, codes))
        self.codes, self.times = codes[order], pairs.times[order]
        self.finders, self.stored = pairs.finders[order], stored[order]
        self.starts = self._starts()
        self.groups = {
            (code, time_ms): place
            for place, (code, time_ms) in enumerate(
                zip(
                    self.codes[self.starts].tolist(),
                    self.times[self.starts].tolist(),
                    strict=True,
                )
            )
        }
        """The place of each key and time that is found, among those."""

    def _starts(self) -> Numbers:
        if not len(self.codes):
            return np.array([], np.int64)
        is_new = (np.diff(self.codes) != 0) | (np.diff(self.times) != 0)
        return np.concatenate([[0], np.flatnonzero(is_new) + 1])

    def has_stored(self, place: int) -> bool:
        """Whether one of a group was stored before the batch."""
        start = self.starts[place]
        end = self.starts[place + 1] if place + 1 < len(self.starts) else len(self.codes)
        return bool(self.stored[start:end].any())

    def first_after(self, codes: Numbers, times: Numbers, places: Numbers) -> Numbers:
        """Return which row first finds each that is of a key and time, and of a place."""
        if not self.groups:
            return np.full(len(places), NEVER)
        get = self.groups.get
        groups = np.array(
            [get(each, -1) for each in zip(codes.tolist(), times.tolist(), strict=True)], np.int64
        )
        width = len(self._rows) + 1
        sizes = np.diff(np.concatenate([self.starts, [len(self.codes)]]))
        numbers = np.repeat(np.arange(len(self.starts)), sizes) * width + self.finders
        which = np.searchsorted(numbers, groups * width + places, side="right")
        ends = np.concatenate([self.starts, [len(self.codes)]])[groups + 1]
        has_one = (groups >= 0) & (which < ends)
        found = np.concatenate([self.finders, [NEVER]])
        return np.where(has_one, found[np.minimum(which, len(self.finders))], NEVER)


def _queued(
    rows: JoinRows,
    found: dict[bool, _Found],
    triggers: Numbers,
    spreads: dict[bool, int],
    waiting: str,
    task: TaskRows,
    out: list[ComesOut],
) -> tuple[list[tuple[int, bytes]], int | None]:
    """Say what becomes of what waited before the batch: add to *out*, return what is gone."""
    queue = task.time_queue(waiting)
    gone: list[tuple[int, bytes]] = []
    head_ms: int | None = None
    last_ms = -1
    codes = {name: code for code, name in enumerate(rows.names)}
    if len(triggers):
        last_ms = int(rows.now[triggers[-1]]) - min(spreads.values()) - 1
        queued = queue.until(last_ms)
        sides = np.array([name[:1] == LEFT for _, name, _ in queued], np.bool_)
        times = np.array([time_ms for time_ms, _, _ in queued], np.int64)
        before = np.full(len(queued), -1)
        deadlines = times + np.where(sides, spreads[True], spreads[False])
        ats = _triggered(rows, triggers, before, deadlines)
        untils = np.full(len(queued), NEVER)
        named = np.array([codes.get(name[1:-_NUMBER_BYTES], -1) for _, name, _ in queued], np.int64)
        for is_left, finds in found.items():
            of_side = np.flatnonzero(sides == is_left)
            untils[of_side] = finds.first_after(named[of_side], times[of_side], before[of_side])
        left_ms = last_ms + 1
        for (time_ms, name, content), at, until in zip(
            queued, ats.tolist(), untils.tolist(), strict=True
        ):
            if at < NEVER and at <= until:
                out.append(ComesOut(at, time_ms, name, -1, content))
            elif until == NEVER:
                left_ms = min(left_ms, time_ms)
                continue
            gone.append((time_ms, name))
        if queued:
            head_ms = left_ms
    gone += _found_later(rows, found, last_ms, queue)
    return gone, head_ms


def _found_later(
    rows: JoinRows, found: dict[bool, _Found], last_ms: int, queue: TimeQueue
) -> Iterator[tuple[int, bytes]]:
    """Yield time and name of what waited, is later than *last_ms*, and has been found."""
    for is_left, finds in found.items():
        side = LEFT if is_left else RIGHT
        for (code, time_ms), place in finds.groups.items():
            if time_ms > last_ms and time_ms >= queue.head_ms and finds.has_stored(place):
                beginning = side + rows.names[code]
                size = len(beginning) + _NUMBER_BYTES
                for name in queue.named(time_ms, beginning, size):
                    yield time_ms, name
