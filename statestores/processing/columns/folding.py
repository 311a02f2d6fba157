"""Folds value by value, on the columns of a batch: the aggregate after each row, and the last ones.

Each aggregate is what the fold gives record by record. Nothing is read or written here.
"""

from dataclasses import dataclass
from itertools import repeat
from math import isfinite
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.stamped_rows import Numbers as StampedNumbers
from statestores.processing.columns.column import Column, NotOnColumnsError, Numbers, numbers_of
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.kernels import kernel_of
from statestores.processing.operators.fold import Fold
from statestores.serdes import float64, int64, int64_sorted, json, msgpack
from statestores.serdes.mean_serde import MEANS
from statestores.spi import Serde

NO_TIME = -1

_TAKE_ALL = (int64, int64_sorted, float64, MEANS)
"""Serdes that take every number of their type, of 64 bits as kernels have them."""

_SAFE = float(1 << 62)
_NOTHING = int64.encode(0)


class StoredRows(Protocol):
    """What a store has for each group: `StampedRows`, or `Stored`."""

    @property
    def values(self) -> pa.Array:
        """The bytes of the aggregates; null where there is none."""

    @property
    def times(self) -> Numbers:
        """Their times, `NO_TIME` where there is none."""

    def numbers(self) -> StampedNumbers | None:
        """Return them as whole numbers, if all of them have the length of one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store has for each group, if somebody else has read it."""

    values: pa.Array
    """See `StoredRows`."""

    times: Numbers
    """See `StoredRows`."""

    def numbers(self) -> StampedNumbers | None:
        """Return them as whole numbers, if all of them have the length of one."""
        present = [_NOTHING if each is None else each for each in self.values.to_pylist()]
        if any(len(each) != len(_NOTHING) for each in present):
            return None
        return StampedNumbers(
            np.frombuffer(b"".join(present), ">i8").astype(np.int64),
            self.times,
            self.values.is_null().to_numpy(zero_copy_only=False),
        )


class Updates(NamedTuple):
    """What becomes of each row, and what each key has in the end."""

    new: Column
    """The aggregates after each row."""

    old: Column
    """Those before it."""

    times: Numbers
    """The time of each update."""

    stored: pa.Array
    """For each key, the bytes of its last aggregate."""

    stored_ms: Numbers
    """Their times."""


class Lasts(NamedTuple):
    """What each group has in the end, and what it had."""

    before: Column
    """What was stored, as values."""

    after: Column
    """What is there now."""

    encoded: pa.Array
    """The same, as bytes."""

    times: Numbers
    """Its times."""


def last_folded(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: StoredRows,
    serde: Serde[Any],
) -> Lasts:
    """Return what *values*, at *times*, make in the end of what is *stored* by *serde*.

    Raises:
        NotOnColumnsError: The fold's kernel cannot, or an aggregate is deleted.
    """
    before = Column.decoded(stored.values, serde)
    if fold.kernel is None or not _takes_each(serde, values):
        updates = one_by_one(fold, groups, times, values, stored, serde)
        last = updates.new.take(groups.lasts)
        return Lasts(before, last, updates.stored, updates.times[groups.lasts])
    found = kernel_of(fold.kernel)(groups, before.objects(), values) if len(times) else []
    after = Column(None, objects=found)
    return Lasts(before, after, after.encoded(serde), groups.greatest(times, stored.times))


def _takes_each(serde: Serde[Any], values: Any) -> bool:
    """Whether *serde* takes what *values* make on the way if it takes what they make in the end.

    A store sees what is there after each record, and one that *serde* refuses is not put: JSON has
    no infinity, which the least of several values may have been first.
    """
    if any(serde == each for each in _TAKE_ALL):
        return True
    if serde not in (json, msgpack):
        return False
    if isinstance(values, pa.Array):
        return not pa.types.is_floating(values.type) or bool(pc.all(pc.is_finite(values)).as_py())
    return all(type(each) is not float or isfinite(each) for each in values or ())


def folded(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: StoredRows,
    serde: Serde[Any],
) -> Updates:
    """Return what *values*, at *times*, make of what is *stored* by *serde* for each group.

    Raises:
        NotOnColumnsError: An aggregate is deleted: a store has also seen what is put before that.
    """
    found = _whole_numbers(fold, groups, times, values, stored, serde)
    return one_by_one(fold, groups, times, values, stored, serde) if found is None else found


def _whole_numbers(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: StoredRows,
    serde: Serde[Any],
) -> Updates | None:
    """Return the updates of counts, and of sums of whole numbers; ``None`` of anything else."""
    if serde != int64 or fold.kernel not in ("count", "sum", "add"):
        return None
    added: Numbers = np.ones(len(times), np.int64)
    if fold.kernel != "count":
        try:
            numbers = values.to_numpy() if isinstance(values, pa.Array) else numbers_of(values)
        except NotOnColumnsError:
            return None
        if numbers.dtype != np.int64:
            return None
        added = numbers
    present = stored.numbers()
    if present is None:
        return None  # the serde will say what it is
    start, is_new = present.values, present.absent
    if np.abs(added.astype(np.float64)).sum() + np.abs(start.astype(np.float64)).max() >= _SAFE:
        return None  # a sum may need more than 64 bits
    order = np.argsort(groups.codes, kind="stable")
    sums = np.cumsum(added[order])
    firsts = np.searchsorted(groups.codes[order], np.arange(groups.count))
    sums += (start - (sums[firsts] - added[order[firsts]]))[groups.codes[order]]
    new: Numbers = np.empty(len(times), np.int64)
    new[order] = sums
    is_first = np.zeros(len(times), np.bool_)
    is_first[groups.firsts[is_new]] = True
    out_times = _running(groups, times, present.times)
    after = pa.array(new)
    return Updates(
        Column(int64, array=after),
        Column(int64, array=pa.array(new - added, mask=is_first)),
        out_times,
        int64.encode_array(after.take(pa.array(groups.lasts))),
        out_times[groups.lasts],
    )


def _running(groups: Groups, times: Numbers, seen: Numbers) -> Numbers:
    """Return for each row the highest time of its group so far, and of what it had *seen*."""
    if (np.diff(times) >= 0).all():
        in_order: Numbers = np.maximum(times, seen[groups.codes])
        return in_order
    highest = seen.tolist()
    found = []
    for code, time_ms in zip(groups.codes.tolist(), times.tolist(), strict=True):
        highest[code] = max(highest[code], time_ms)
        found.append(highest[code])
    return np.array(found, np.int64)


def one_by_one(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: StoredRows,
    serde: Serde[Any],
) -> Updates:
    """Return the updates of any fold.

    Each aggregate is encoded and decoded as if it had been stored: a function may change the one
    that it is given.

    Raises:
        NotOnColumnsError: One is deleted: a store has also seen what is put before that.
    """
    rows: list[tuple[bytes, int] | None] = [
        None if data is None else (data, seen_ms)
        for data, seen_ms in zip(stored.values.to_pylist(), stored.times.tolist(), strict=True)
    ]
    initial, add, encode, decode = fold.initial, fold.add, serde.encode, serde.decode
    objects = values.to_pylist() if isinstance(values, pa.Array) else values
    olds, news, out_times = [], [], []
    for code, value, time_ms in zip(
        groups.codes.tolist(),
        repeat(None, len(times)) if objects is None else objects,
        times.tolist(),
        strict=True,
    ):
        row = rows[code]
        if row is None:
            old, new = None, add(initial(), value)
        else:
            data, seen_ms = row
            old = decode(data)
            new = add(old, value)
            time_ms = max(time_ms, seen_ms)  # noqa: PLW2901  # as in `Aggregate.receive`
        if new is None:
            raise NotOnColumnsError("an aggregate is deleted")
        rows[code] = encode(new), time_ms
        olds.append(old)
        news.append(new)
        out_times.append(time_ms)
    last = [row for row in rows if row is not None]
    return Updates(
        Column(None, objects=news),
        Column(None, objects=olds),
        np.array(out_times, np.int64),
        pa.array([data for data, _ in last], pa.binary()),
        np.array([time_ms for _, time_ms in last], np.int64),
    )


def results(fold: Fold, column: Column) -> Column:
    """Return what comes out of the aggregates of *column*."""
    result = fold.result
    if result is None:
        return column
    objects = [None if each is None else result(each) for each in column.objects()]
    return Column(None, objects=objects)
