"""Folds value by value, on the columns of a batch: the aggregate after each row, and the last ones.

Each aggregate is what the fold gives record by record. Nothing is read or written here.
"""

from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.processing.columns.column import Column, NotOnColumnsError, Numbers, numbers_of
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.kernels import kernel_of
from statestores.processing.operators.fold import Fold
from statestores.serdes import int64
from statestores.spi import Serde

NO_TIME = -1

_SAFE = float(1 << 62)


class Stored(NamedTuple):
    """What the store has for each key."""

    values: list[bytes | None]
    """The bytes of the aggregates; ``None`` where there is none."""

    stamps: list[int | None]
    """Their times."""


class Updates(NamedTuple):
    """What becomes of each row, and what each key has in the end."""

    new: Column
    """The aggregates after each row."""

    old: Column
    """Those before it."""

    times: Numbers
    """The time of each update."""

    stored: list[bytes | None]
    """For each key, the bytes of its last aggregate."""

    stored_ms: list[int]
    """Their times."""


class Lasts(NamedTuple):
    """What each group has in the end, and what it had."""

    before: list[Any]
    """What was stored, as values."""

    after: list[Any]
    """What is there now."""

    encoded: list[bytes | None]
    """The same, as bytes."""

    times: Numbers
    """Its times."""


def last_folded(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: Stored,
    serde: Serde[Any],
) -> Lasts:
    """Return what *values*, at *times*, make in the end of what is *stored* by *serde*.

    Raises:
        NotOnColumnsError: The fold's kernel cannot, or an aggregate is deleted.
    """
    before = decoded_values(serde, stored.values)
    if fold.kernel is None:
        updates = one_by_one(fold, groups, times, values, stored, serde)
        after = updates.new.take(groups.lasts).objects()
        return Lasts(before, after, updates.stored, updates.times[groups.lasts])
    after = kernel_of(fold.kernel)(groups, before, values) if len(times) else []
    encoded = Column(None, objects=after).encoded(serde).to_pylist()
    return Lasts(before, after, encoded, groups.greatest(times, times_of(stored.stamps)))


def folded(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: Stored,
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
    stored: Stored,
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
    before = decoded_values(serde, stored.values)
    is_new = np.array([each is None for each in before], np.bool_)
    start: Numbers = np.array([0 if each is None else each for each in before], np.int64)
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
    out_times = _running(groups, times, times_of(stored.stamps))
    after = pa.array(new)
    return Updates(
        Column(int64, array=after),
        Column(int64, array=pa.array(new - added, mask=is_first)),
        out_times,
        int64.encode_array(after.take(pa.array(groups.lasts))).to_pylist(),
        out_times[groups.lasts].tolist(),
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
    stored: Stored,
    serde: Serde[Any],
) -> Updates:
    """Return the updates of any fold.

    Each aggregate is encoded and decoded as if it had been stored: a function may change the one
    that it is given.

    Raises:
        NotOnColumnsError: One is deleted: a store has also seen what is put before that.
    """
    rows: list[tuple[bytes, int | None] | None] = [
        None if data is None else (data, seen_ms)
        for data, seen_ms in zip(stored.values, stored.stamps, strict=True)
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
            if seen_ms is not None and seen_ms > time_ms:
                time_ms = seen_ms  # noqa: PLW2901  # as in `Aggregate.receive`
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
        [data for data, _ in last],
        [time_ms or 0 for _, time_ms in last],
    )


def decoded_values(serde: Serde[Any], stored: list[bytes | None]) -> list[Any]:
    """Return the values of *stored* bytes; ``None`` where there are none."""
    return Column.decoded(pa.array(stored, pa.binary()), serde).objects()


def times_of(stamps: list[int | None]) -> Numbers:
    """Return *stamps* as numbers."""
    found = [NO_TIME if each is None else each for each in stamps] if None in stamps else stamps
    return np.array(found, np.int64)


def results(fold: Fold, column: Column) -> Column:
    """Return what comes out of the aggregates of *column*."""
    result = fold.result
    if result is None:
        return column
    objects = [None if each is None else result(each) for each in column.objects()]
    return Column(None, objects=objects)
