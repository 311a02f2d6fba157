"""Functions that scripts call besides the store's own, for copies and comparisons.

Their source goes into the file that performs a script again, so each needs only the contract and
the others.
"""

from collections.abc import Callable
from typing import Any

from statestores.spi import Changes, CommittedContent, SessionRecord, StateStore, WindowRecord


def rows(changes: Changes, start: int, stop: int) -> Changes:
    """Return the rows of *changes* from *start* up to *stop*."""
    columns = (
        changes.keys,
        changes.values,
        changes.times_ms,
        changes.end_times_ms,
        changes.sequences,
        changes.timestamps_ms,
    )
    cut: list[Any] = [None if column is None else column[start:stop] for column in columns]
    return Changes(*cut)


def load_content(target: StateStore, source: StateStore, batch_rows: int, *, commit: bool) -> None:
    """Load what *source* has committed into the empty *target*, in batches."""
    load_export(target, source.committed_content(), batch_rows, commit=commit)


def load_export(
    target: StateStore, content: CommittedContent, batch_rows: int = 1000, *, commit: bool = False
) -> None:
    """Load *content* into the empty *target*, in batches, and commit it with its offsets."""
    # Stream time may be all that is left: everything that moved it was deleted.
    target.load(target.pending_changes(), stream_time_ms=content.stream_time_ms)
    for changes in content.changes:
        for start in range(0, len(changes), batch_rows):
            part = rows(changes, start, start + batch_rows)
            target.load(part, stream_time_ms=content.stream_time_ms)
            if commit:
                target.commit({})
    target.advance_position(content.position)
    target.commit(dict(content.offsets))


def backwards(rows: list[Any]) -> list[Any]:
    """Return *rows* from the last to the first."""
    return rows[::-1]


def joined(parts: list[list[Any]]) -> list[Any]:
    """Return the rows of *parts*, one after the other, without repetitions."""
    found: list[Any] = []
    for part in parts:
        found += [row for row in part if row not in found]
    return found


def merged(parts: list[list[Any]]) -> list[Any]:
    """Return the rows of *parts* in the order of their keys, and within a key in that of parts."""
    return sorted([row for part in parts for row in part], key=lambda row: row[0])


def first_of(rows: list[Any]) -> Any:
    """Return the first of *rows*, or ``None``."""
    return rows[0] if rows else None


def value_at(rows: list[Any], start_ms: int | None = None) -> Any:
    """Return the value of the last of *rows*, or of those that start at *start_ms*, or ``None``."""
    found = [row[-1] for row in rows if start_ms is None or row[1] == start_ms]
    return found[-1] if found else None


def since(rows: list[Any], horizon_ms: int) -> list[Any]:
    """Return the *rows* whose window starts, session ends or timestamp is above *horizon_ms*."""
    found = []
    for row in rows:
        if isinstance(row, WindowRecord):
            time_ms = row.start_ms
        elif isinstance(row, SessionRecord):
            time_ms = row.end_ms
        else:
            time_ms = row[1].timestamp_ms
        if time_ms > horizon_ms:
            found.append(row)
    return found


def overlapping(rows: list[Any], earliest_end_ms: int | None, latest_start_ms: int | None) -> Any:
    """Return the sessions among *rows* that end and start within the bounds."""
    return [
        row
        for row in rows
        if (earliest_end_ms is None or earliest_end_ms <= row.end_ms)
        and (latest_start_ms is None or row.start_ms <= latest_start_ms)
    ]


def under(rows: list[Any], prefix: bytes) -> list[Any]:
    """Return *rows* with *prefix* before their keys."""
    return [(prefix + row[0], *row[1:]) for row in rows]


def later(found: Any, ms: int) -> Any:
    """Return *found* with every time in it moved on by *ms*."""
    if type(found) is int:
        return found + ms
    if isinstance(found, tuple):
        return tuple(later(part, ms) for part in found)
    return [later(part, ms) for part in found] if isinstance(found, list) else found


def wider(rows: list[Any], ms: int) -> list[Any]:
    """Return windows that end *ms* after those of *rows*."""
    return [(key, start_ms, end_ms + ms, value) for key, start_ms, end_ms, value in rows]


def last_of_each(rows: list[Any]) -> list[Any]:
    """Return the last of *rows* of each key and start."""
    return list({row[:2]: row for row in rows}.values())


def renumbered(changes: Changes, by: int) -> Changes:
    """Return *changes* with sequences that are higher by *by*."""
    sequences = [number + by for number in changes.sequences or ()]
    return Changes(changes.keys, changes.values, changes.times_ms, sequences=sequences)


def longer(value: bytes | None) -> bytes | None:
    """Return *value* with a 1 at its end; nothing of what has one already."""
    return None if value and value.endswith(b"1") else (value or b"") + b"1"


def append_to_many(store: Any, keys: list[bytes]) -> None:
    """Make the values of *keys* `longer` in one update."""
    store.update_many(keys, lambda _, present: [longer(value) for value in present])


def append_and_stamp_many(store: Any, keys: list[bytes], timestamp_ms: int) -> None:
    """Make the values of *keys* `longer` in one update, all with one timestamp."""

    def updated(_: list[bytes], present: list[Any]) -> list[Any]:
        values = [longer(found and found[0]) for found in present]
        return [None if value is None else (value, timestamp_ms) for value in values]

    store.update_many(keys, updated)


def merge_one_by_one(store: Any, method: str, columns: list[list[Any]]) -> None:
    """Get and put, row by row of *columns*, what `min_many` or `max_many` do at once."""
    choose: Any = min if method == "min_many" else max
    for key, value, *times in zip(*columns, strict=True):
        found = store.get(key)
        if value is None:
            continue
        if found is None:
            store.put(key, value, *times)
        elif times:
            store.put(key, choose(found[0], value), max(found[1], *times))
        else:
            store.put(key, choose(found, value))


HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        rows,
        load_content,
        load_export,
        backwards,
        joined,
        merged,
        first_of,
        value_at,
        since,
        overlapping,
        under,
        later,
        wider,
        last_of_each,
        renumbered,
        longer,
        append_to_many,
        append_and_stamp_many,
        merge_one_by_one,
    )
}
"""All of them, by the names that scripts use."""
