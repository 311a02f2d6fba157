"""Joins of two streams on columns: what the rows of both sides find, and which come out alone.

The rows of each key that the stores have are read once; those of the batch are added to them, each
with its place. A row finds what comes before it, as far as the store would still have had it, in
the order of times and of arrival. What comes out alone, and when, follows from the same numbers.
Of what waits and is found, or comes out, within the batch nothing is stored.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.column import Column, Flags, Numbers, is_exact
from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.streams.rows import JoinRows, Pairs, Side, pairs_of, stored_rows
from statestores.processing.columns.streams.values import JoinValues, objects_of
from statestores.processing.columns.streams.waiting import ComesOut, Waiting, waiting_after
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.stream_stream import StreamJoinSide
from statestores.processing.serdes import header_bytes, time_bytes

if TYPE_CHECKING:
    from statestores.processing.record import Record

_WAITED, _PAIR, _ALONE = 0, 1, 2
"""The order of what comes out with one row."""


def joined_side(
    operator: StreamJoinSide, columns: RecordColumns, task: TaskRows
) -> RecordColumns | None:
    """Join rows of one side; none of the other comes in between."""
    if columns.value.serde is None or not is_exact(columns.value.serde):
        # A joiner may change what it is given, and then the records are joined one by one.
        copies = Column(columns.value.serde, objects=deepcopy(columns.value.objects()))
        columns = columns.with_value(copies)
    return Joined([Side(operator, columns)], task).put(task)


class _Output(NamedTuple):
    """What comes out, in order."""

    places: Numbers
    """The row with which each comes out."""

    kinds: Numbers
    """A pair, or a row alone."""

    of: Numbers
    """Of a pair, what was found; of a row that has waited, its number among those."""

    times: Numbers
    """The times."""


class Joined:
    """Rows of both sides, joined; nothing is changed until `put`."""

    def __init__(self, sides: Sequence[Side], task: TaskRows) -> None:
        """Join the rows of *sides*, at least one.

        Raises:
            NotOnColumnsError: Columns cannot.
            Exception: The joiner fails, or a serde does.
        """
        rows = self._rows = JoinRows(sides, task)
        join = rows.join
        stored = {each: stored_rows(rows, task, is_left=each) for each in (True, False)}
        pairs = {each: pairs_of(rows, stored[each], is_left=each) for each in (True, False)}
        has_found = np.zeros(len(rows), np.bool_)
        for each in pairs.values():
            has_found[each.finders] = True
        alone = rows.joins & ~has_found & rows.comes_alone
        at_once = alone & (rows.times + rows.after_ms < rows.now)
        self._waiting: Waiting | None = None
        if join.waiting is not None:
            self._waiting = waiting_after(rows, pairs, alone & ~at_once, join.waiting, task)
        self._queued: list[Record[Any, Any]] = []
        self._queued_at: dict[int, int] = {}
        for number, out in enumerate(self._outs):
            if out.content is not None:
                codec = join.left_codec if out.is_left else join.right_codec
                self._queued_at[number] = len(self._queued)
                self._queued.append(codec.decode(out.content)[0])
        self._values = JoinValues(rows, stored, task)
        self._keyless: Flags = rows.no_key & ~rows.no_value & rows.comes_alone
        output = self._in_order(pairs, at_once | self._keyless)
        values = self._joined(output) if self._values.are_exact else self._one_by_one(output)
        self._out = self._columns(output, values) if len(output.places) else None

    @property
    def _outs(self) -> list[ComesOut]:
        return [] if self._waiting is None else self._waiting.out

    def _in_order(self, pairs: dict[bool, Pairs], at_once: Flags) -> _Output:
        rows, alone = self._rows, np.flatnonzero(at_once)
        waited = np.array([each.at for each in self._outs], np.int64)
        waited_ms = np.array([each.time_ms for each in self._outs], np.int64)
        parts = [
            (waited, _WAITED, np.arange(len(waited)), waited_ms),
            *(
                (each.finders, _PAIR, each.found, np.maximum(each.times, rows.times[each.finders]))
                for each in pairs.values()
            ),
            (alone, _ALONE, alone, rows.times[alone]),
        ]
        places, of, times = (np.concatenate([each[at] for each in parts]) for at in (0, 2, 3))
        kinds = np.concatenate([np.full(len(each[0]), each[1]) for each in parts])
        order = np.lexsort((kinds, places))  # stable: the parts are in order themselves
        return _Output(places[order], kinds[order], of[order], times[order])

    def _joined(self, output: _Output) -> list[Any]:
        """Return the values of what comes out, none of which can change in place."""
        values, (places, kinds, of, _) = self._values, output
        is_left = self._rows.is_left[places]
        own = values.given[places]
        other = np.full(len(places), None, object)
        for side in (True, False):
            found = (kinds == _PAIR) & (is_left != side)
            other[found] = values.others(of[found], is_left=side)
        for at in np.flatnonzero(kinds == _WAITED).tolist():
            own[at], is_left[at] = self._waited(int(of[at]))
        left, right = np.where(is_left, own, other), np.where(is_left, other, own)
        return list(map(self._rows.join.joiner, left, right))

    def _one_by_one(self, output: _Output) -> list[Any]:
        """Return the values of what comes out, each of which a joiner may change."""
        values, joiner = self._values, self._rows.join.joiner
        sides, joined = self._rows.is_left.tolist(), []
        for place, kind, of in zip(*(each.tolist() for each in output[:3]), strict=True):
            own, is_left, other = values.given[place], sides[place], None
            if kind == _PAIR:
                other = values.other(of, is_left=not is_left)
            elif kind == _WAITED:
                own, is_left = self._waited(of)
            joined.append(joiner(own, other) if is_left else joiner(other, own))
        at = output.places[output.kinds != _WAITED]
        values.check_unchanged(at[~self._rows.no_key[at]])
        return joined

    def _waited(self, number: int) -> tuple[Any, bool]:
        """Return the value of what has waited, and its side."""
        out = self._outs[number]
        if out.content is not None:
            return self._queued[self._queued_at[number]].value, out.is_left
        if self._values.are_exact:
            return self._values.others(out.place, is_left=out.is_left), out.is_left
        return self._values.other(out.place, is_left=out.is_left), out.is_left

    def _columns(self, output: _Output, values: list[Any]) -> RecordColumns:
        """Return what comes out: of the rows of the batch, and of those that waited before it."""
        rows, of = self._rows, output.places.copy()
        for at in np.flatnonzero(output.kinds == _WAITED).tolist():
            number = int(output.of[at])
            queued = self._queued_at.get(number)
            of[at] = self._outs[number].place if queued is None else len(rows) + queued
        return RecordColumns(
            self._keys(output, of),
            Column(None, objects=values),
            output.times,
            self._headers(of),
            rows.rows[output.places],
        )

    def _keys(self, output: _Output, of: Numbers) -> Column:
        rows, serde = self._rows, self._rows.key_serde
        queued = [each.key for each in self._queued]
        if is_exact(serde):
            behind = Column(None, objects=queued).encoded(serde)
            return Column.decoded(pa.concat_arrays([rows.keys, behind]), serde).take(of)
        keys = np.full(len(rows) + len(queued), None, object)
        for is_left, side in rows.sides.items():
            keys[rows.at[is_left]] = objects_of(side.columns.key.objects())
        keys[len(rows) :] = objects_of(queued)
        objects = keys[of].tolist()
        for at in np.flatnonzero((output.kinds == _WAITED) & (of < len(rows))).tolist():
            objects[at] = serde.decode(rows.names[rows.codes[of[at]]])
        return Column(None, objects=objects)

    def _headers(self, of: Numbers) -> pa.Array | None:
        rows = self._rows
        several = np.full(len(rows) + len(self._queued), None, object)
        for is_left, side in rows.sides.items():
            if side.columns.headers is not None:
                several[rows.at[is_left]] = objects_of(side.columns.headers.to_pylist())
        for at, record in enumerate(self._queued, len(rows)):
            several[at] = header_bytes(record.headers) if record.headers else None
        packed = pa.array(several, pa.binary())
        return None if packed.null_count == len(packed) else packed.take(pa.array(of))

    def put(self, task: TaskRows) -> RecordColumns | None:
        """Keep the rows and what waits, count what is dropped; return what comes out."""
        rows = self._rows
        names = np.array([*rows.names, b""], object)
        for is_left in rows.sides:
            store: Any = store_of_bytes(task.store(rows.store_of(is_left=is_left)))
            at = np.flatnonzero(rows.joins & (rows.is_left == is_left))
            keys = names[rows.codes[at]].tolist()
            store.put_many(keys, self._values.data[at].tolist(), rows.times[at].tolist())
        self._wait(task)
        task.observed_time(rows.join.name).now_ms = int(rows.now[-1])
        dropped = (rows.no_key | rows.no_value) & ~self._keyless
        for is_left, side in rows.sides.items():
            for reason, flags in (
                ("null-key", dropped & rows.no_key),
                ("null-value", dropped & ~rows.no_key),
                ("late", rows.late),
            ):
                of_side = flags & (rows.is_left == is_left)
                if of_side.any():
                    task.drop_rows(side.operator.name, reason, rows.rows[of_side])
        return self._out

    def _wait(self, task: TaskRows) -> None:
        """Let wait what does, and nothing that has come out or was found."""
        rows, waiting = self._rows, self._waiting
        if waiting is None or rows.join.waiting is None:
            return
        queue = task.time_queue(rows.join.waiting)
        for time_ms, name in waiting.gone:
            queue.remove(time_ms, name)
        if waiting.head_ms is not None:
            queue.head_ms = waiting.head_ms
        for is_left, side in rows.sides.items():
            codec = rows.join.left_codec if is_left else rows.join.right_codec
            stays = [each for each in waiting.stays if rows.is_left[each[2]] == is_left]
            places = np.array([each[2] for each in stays], np.int64)
            local = np.searchsorted(rows.at[is_left], places)
            for (time_ms, name, _), (_, item) in zip(
                stays, side.columns.take(local).items(), strict=True
            ):
                queue.put(time_ms, name, codec.encode(item))
        if waiting.last_number is not None:
            task.store(rows.join.waiting).put(b"n", time_bytes(waiting.last_number))
