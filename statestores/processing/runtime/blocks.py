"""Rows of several partitions through a task: topic by topic, run by run, or record by record.

What becomes of them is what becomes of the records in the order of the block. Where sources commute
(`Commuting`) and no timer is due, all rows of one topic are taken at once, then those of the next.
Else each run of rows of one partition is a batch, if it is long enough for columns.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from statestores.processing.columns.commuting import Commuting, Plan, Rows, end_of_plan
from statestores.processing.columns.streams.meetings import Meetings
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.record_rows import fields_of
from statestores.processing.runtime.batches import Batches, BlockTask
from statestores.processing.runtime.row_order import Block, Lot

if TYPE_CHECKING:
    from statestores.processing.columns.column import Numbers
    from statestores.processing.columns.rows import RecordColumns
    from statestores.processing.record import RawRecord, RecordFields
    from statestores.processing.runtime.task_runtime import TaskRuntime

_WINDOW_ROWS = 1_000
"""How many rows are taken run by run before topic by topic is tried again."""

_LEAST_ROWS = 16
"""Fewer rows are not worth finding out whether they may change places."""

_LAST_MS = (1 << 63) - 1

_WIDENING = 4
"""How much further than last time it looks for rows that may not."""


class Blocks:
    """The blocks of one task."""

    def __init__(
        self,
        task: "TaskRuntime",
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        batches: Batches,
        errors: ErrorPolicy,
        least_rows: int,
        least_run_rows: int,
    ) -> None:
        """Take blocks for *task*: batches from *least_rows* on, runs from *least_run_rows* on."""
        self._task = task
        self._batches = batches
        self._commuting = Commuting(task.part, operators, errors)
        self._meetings = Meetings(task.part, operators, ways, errors, least_rows, least_run_rows)
        self._window = min(least_rows, least_run_rows, _WINDOW_ROWS)

    def take(self, block: Block, *, stops: bool) -> list[int]:
        """Take the rows of *block*; return how many of each lot.

        That is all of them, unless it *stops* where a processor has asked for a commit.
        """
        done = [0] * len(block.lots)
        at, end, look = 0, len(block.order), len(block.order)
        until = end
        plan = self._commuting.plan(tuple(lot.partition.topic for lot in block.lots))
        while at < end and not (stops and self._task.commit_requested):
            together = self._take_together(block, at, until, done)
            at += together
            until = at + max(_WINDOW_ROWS, together) * _WIDENING  # likewise, where columns fail
            if together:
                continue
            reach = 0 if plan is None else self._reach(plan, block, at, at + look, done)
            if plan is not None and reach:
                self._take_by_topic(plan, block, at, at + reach, done)
                at += reach
            else:
                at += self._take_by_run(block, at, min(end, at + self._window), done, stops=stops)
            look = max(_WINDOW_ROWS, reach * _WIDENING)  # else short reaches take quadratic time
        return done

    @property
    def declined(self) -> dict[str, dict[str, int]]:
        """Where rows of several topics were tried together, and not taken so: as for batches."""
        return self._meetings.declined

    def _take_together(self, block: Block, start: int, stop: int, done: list[int]) -> int:
        """Take rows from *start* on, up to *stop*, whose topics meet in a join.

        Return how many there were.
        """
        topics = [lot.partition.topic for lot in block.lots]
        order = block.order[start:stop]
        if self._meetings.of(topics, len(order)) is None:
            return 0
        lots, times = _parts(block, order, done)
        due = np.flatnonzero(times >= min(self._task.next_stream_ms, _LAST_MS))
        if len(due):
            order = order[: due[0]]
            lots, _ = _parts(block, order, done)
        meeting = self._meetings.of(topics, len(order))
        if meeting is None:
            return 0
        at = BlockTask(self._task, lots, order)
        several: dict[str, RecordColumns] = {}
        try:
            for number, lot in enumerate(lots):
                if len(lot.offsets):
                    columns = self._batches.decoded(topics[number], lot.batch)
                    columns.rows = np.flatnonzero(order == number)
                    several[topics[number]] = columns
            joined = meeting.joined(several, at)
        except Exception as error:  # noqa: BLE001  # the records will say it, each for itself
            meeting.entry.declined[f"{type(error).__name__}: {error}"] += 1
            return 0
        last_ms = max(each.last_ms for each in several.values())
        self._task.take_lots(lots, last_ms, lambda: meeting.give(joined, at))
        for number, lot in enumerate(lots):
            done[number] += len(lot.offsets)
        return len(order)

    def _reach(self, plan: Plan, block: Block, start: int, stop: int, done: list[int]) -> int:
        """Return how many rows from *start* on are worth taking as *plan* says, and may be.

        Only rows before *stop* are looked at.
        """
        order = block.order[start:stop]
        topics = [lot.partition.topic for lot in block.lots]
        if not self._is_worth(topics, order):
            return 0
        lots, times = _parts(block, order, done)
        keys = [lot.batch.column(0) for lot in lots]
        reach = end_of_plan(plan, Rows(topics, order, keys, times), self._task)
        if not self._is_worth(topics, order[:reach]):
            return 0
        return 0 if int(times[:reach].max()) >= self._task.next_stream_ms else reach

    def _is_worth(self, topics: list[str], order: "Numbers") -> bool:
        """Whether enough rows are in *order* that one of the topics takes them as columns."""
        if len(order) < min(self._window, _LEAST_ROWS):
            return False
        counts = np.bincount(order, minlength=len(topics)).tolist()
        return any(map(self._batches.has_columns, topics, counts))

    def _take_by_topic(
        self, plan: Plan, block: Block, start: int, stop: int, done: list[int]
    ) -> None:
        """Take the rows from *start* to *stop* of one topic after the other."""
        counts = np.bincount(block.order[start:stop], minlength=len(block.lots)).tolist()
        lots = {lot.partition.topic: number for number, lot in enumerate(block.lots)}
        for topic in plan.topics:
            number = lots[topic]
            if counts[number]:
                first = done[number]
                self._take_lot(block.lots[number].part(first, first + counts[number]))
                done[number] += counts[number]

    def _take_lot(self, lot: Lot) -> None:
        topic, partition = lot.partition
        self._task.process_rows(topic, partition, lot.offsets, lot.batch)

    def _take_by_run(
        self, block: Block, start: int, stop: int, done: list[int], *, stops: bool
    ) -> int:
        """Take the rows from *start* to *stop*, those of one lot that follow each other at once.

        Return how many were taken.
        """
        order = block.order[start:stop]
        turns = np.flatnonzero(np.diff(order)) + 1
        bounds = [0, *turns.tolist(), len(order)]
        totals = np.bincount(order, minlength=len(block.lots)).tolist()
        singles: dict[int, _Singles] = {}
        for first, last in pairwise(bounds):
            number, count = int(order[first]), last - first
            lot, begin = block.lots[number], done[number]
            topic = lot.partition.topic
            if count > 1 and self._batches.has_columns(topic, count):
                self._take_lot(lot.part(begin, begin + count))
                if number in singles:
                    singles[number].skip(count)
            else:
                if number not in singles:
                    rest = lot.part(begin, begin + totals[number])
                    singles[number] = _Singles(rest, self._batches)
                singles[number].take(count, self._task)
            done[number] += count
            totals[number] -= count
            if stops and self._task.commit_requested:
                return last
        return len(order)


def _parts(block: Block, order: "Numbers", done: list[int]) -> tuple[list[Lot], "Numbers"]:
    """Return the rows of each lot that are next in *order*, and the times in that order."""
    counts = np.bincount(order, minlength=len(block.lots)).tolist()
    lots = [
        lot.part(first, first + count)
        for lot, first, count in zip(block.lots, done, counts, strict=True)
    ]
    times = np.empty(len(order), np.int64)
    for number, lot in enumerate(lots):
        times[order == number] = lot.times
    return lots, times


class _Singles:
    """The rows of one lot, one by one: decoded at once where that can be done."""

    def __init__(self, lot: Lot, batches: Batches) -> None:
        topic = lot.partition.topic
        self._lot = lot
        self._at = 0
        items = batches.items(topic, lot.batch)
        self._raw: Callable[[], RawRecord] | None = None
        if items is not None:
            self._raw = batches.raw_at(lot.offsets, lot.batch)
        self._items: Iterator[RecordFields] = iter(fields_of(lot.batch)) if items is None else items

    def take(self, count: int, task: "TaskRuntime") -> None:
        """Process the next *count* rows."""
        start, lot = self._at, self._lot
        self._at += count
        items: Iterable[Any] = islice(self._items, count)
        task.process_each(*lot.partition, lot.offsets[start : self._at], items, self._raw)

    def skip(self, count: int) -> None:
        """Have the next *count* rows processed by others."""
        self._at += count
        deque(islice(self._items, count), maxlen=0)
