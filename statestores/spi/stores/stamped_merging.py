"""Many updates at once of values with timestamps, which may expire while they are merged (TKV-8).

A merged value has the highest timestamp of what is in it. So stream time, which is the highest
of all, is that of what is put in the end, and the rows in between need not be put: but where values
expire by the wall clock, one that had expired when it was put is replaced by what comes after it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi.milliseconds import in_milliseconds
from statestores.spi.records import TimestampedValue
from statestores.spi.stores.merging import (
    KeyedRows,
    Merge,
    merge_rows,
    merging,
    unmergeable,
    value_types,
)

_NEVER_MS = -1
_MAX_TIME_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """How values expire while rows are merged."""

    ttl_ms: int
    """How long a value lasts."""

    now_ms: int
    """The clock at the beginning; -1 for a stream time that has not begun."""

    follows_rows: bool
    """Whether the timestamps of the rows move it: it is stream time."""


class StampedColumns(NamedTuple):
    """What is put, in this order; a key may come twice."""

    keys: list[Any]
    values: list[Any]
    times: list[int]


def merge_stamped(
    merge: Merge,
    rows: KeyedRows,
    present: list[TimestampedValue[Any] | None],
    expiry: Expiry | None,
) -> StampedColumns:
    """Return what to put, so that *rows* are merged into what their keys have at *present*.

    *expiry* says how values expire; ``None``: they do not.

    Raises:
        InvalidTypeError: Two values cannot be merged.
    """
    if expiry is not None:
        return _merge_expiring(merge, rows, present, expiry)
    values = merge_rows(merge, rows, [None if each is None else each[0] for each in present])
    seen = [_NEVER_MS if each is None or each[1] is None else each[1] for each in present]
    times = rows.times
    if times == sorted(times) and not rows.has_nulls:
        latest = dict(zip(rows.names, times, strict=True))  # in the order of the keys
        highest = list(map(max, seen, latest.values()))
    else:
        stamps = dict(zip(rows.distinct, seen, strict=True))
        for name, time_ms in zip(rows.names, times, strict=True):
            stamps[name] = max(stamps[name], time_ms)
        highest = [stamps[name] for name in values]
    return StampedColumns(rows.keys_of(values), list(values.values()), highest)


def _merge_expiring(
    merge: Merge,
    rows: KeyedRows,
    present: list[TimestampedValue[Any] | None],
    expiry: Expiry,
) -> StampedColumns:
    """Merge row by row: what a row finds is judged by the stream time of those before it."""
    value_types(merge, rows.values)
    merged: dict[Any, Any] = dict(zip(rows.distinct, present, strict=True))
    together, ttl_ms, now_ms = merging(merge), expiry.ttl_ms, expiry.now_ms
    replaced: list[tuple[Any, Any, int]] = []
    put: dict[Any, None] = {}
    for name, value, time_ms in zip(rows.names, rows.values, rows.times, strict=True):
        found, highest_ms = merged[name], time_ms
        if found is not None:
            seen_ms = found[1]
            if seen_ms is not None and seen_ms + ttl_ms <= now_ms:
                if name in put and not expiry.follows_rows:
                    replaced.append((name, *found))
                found = None
            elif seen_ms is not None and seen_ms > time_ms:
                highest_ms = seen_ms
        try:
            merged[name] = value if found is None else together(found[0], value), highest_ms
        except TypeError as error:
            raise unmergeable(merge, error) from error
        put[name] = None
        if expiry.follows_rows and time_ms > now_ms:
            now_ms = time_ms
    final = [(name, *merged[name]) for name in rows.distinct if name in put]
    keys = dict(zip(rows.distinct, rows.keys, strict=True))
    every = [*replaced, *final]
    return StampedColumns(
        [keys[name] for name, _, _ in every],
        [value for _, value, _ in every],
        [time_ms for _, _, time_ms in every],
    )


def check_stamps(times: list[Any]) -> None:
    """Accept timestamps, also those that no value has in the end; ``None`` is judged elsewhere.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is none.
    """
    if not times or (
        set(map(type, times)) == {int} and min(times) >= 0 and max(times) <= _MAX_TIME_MS
    ):
        return
    for time_ms in times:
        if time_ms is None:
            continue
        if type(time_ms) is not int:
            raise InvalidTypeError(
                "timestamp_ms must be an int of milliseconds, got "
                f"{time_ms!r}{in_milliseconds(time_ms)}"
            )
        if not 0 <= time_ms <= _MAX_TIME_MS:
            raise InvalidArgumentError(
                "timestamp_ms must be from 0 to 2**63 - 1 milliseconds since the epoch, got "
                f"{time_ms!r}"
            )
