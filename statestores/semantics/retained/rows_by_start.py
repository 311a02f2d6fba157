"""Pending windows that are not rows yet: by their start, and then by their keys.

Most puts are of the window of the put before. Such a put needs one dictionary, and the keys of the
rows are made at once when the commit, or a range, asks for them. Invariants:

* what is here is as new as the pending row of the same window, if there is one, or newer;
* only the owner changes it; a facade that looks at pending writes asks for them to be rows from
  then on (`EngineWindowStore.read_only`), and meanwhile reads both, this first.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from statestores.semantics.retained.rows import RetainedRows, unpack_time_from
from statestores.spi.records import Changes
from statestores.spi.write_order import ORDERED_FROM, columns_by_key

Row = bytes | None

RowsByStart = dict[int, dict[bytes, Row]]
"""Values, ``None`` for a deletion, by start and key."""


class StartRows(NamedTuple):
    """The rows of one start that a commit changes."""

    start_ms: int

    rows: dict[bytes, Row]
    """Values by key; at least one."""

    values: list[Row]
    """The same values, by their keys if they are many."""

    data_keys: list[bytes]
    """The keys of the rows, in the order of `values`."""

    joined: bytes | None
    """All of these as one, if they are at hand like that: then they have the same length."""


def starts_of(
    of: RetainedRows, by_start: RowsByStart, others: Mapping[bytes, Row], horizon_ms: int = -1
) -> RowsByStart:
    """Return the rows of *by_start* with times above *horizon_ms*, and *others* that are few.

    The dictionaries are those of *by_start*, and get what is missing in them: it is pending too.
    """
    visible = {start_ms: rows for start_ms, rows in by_start.items() if start_ms > horizon_ms}
    for data_key, value in others.items():
        start_ms = of.time_of(data_key)
        if start_ms > horizon_ms:
            visible.setdefault(start_ms, {}).setdefault(of.key_of(data_key), value)
    return visible


def columns_of(
    of: RetainedRows, starts: RowsByStart
) -> tuple[list[StartRows], list[bytes], list[Row]]:
    """Return the rows of *starts*, of which there is one at least: by start, and as two columns."""
    columns = [_start_rows(of, start_ms, rows) for start_ms, rows in starts.items()]
    if len(columns) == 1:
        return columns, columns[0].data_keys, columns[0].values
    data_keys = [key for each in columns for key in each.data_keys]
    return columns, data_keys, [value for each in columns for value in each.values]


def _start_rows(of: RetainedRows, start_ms: int, rows: dict[bytes, Row]) -> StartRows:
    """Return *rows* of a start, as engines take many of them best."""
    if len(rows) < ORDERED_FROM:
        keys, values = list(rows), list(rows.values())
    else:
        keys, in_order = columns_by_key(rows)  # as the keys of the rows, which are longer
        values = list(in_order)
    return StartRows(start_ms, rows, values, *of.joined_keys_at(keys, start_ms))


def changes_of(by_start: RowsByStart) -> Changes:
    """Return the rows of *by_start* in the order of their times."""
    starts = sorted(by_start.items())
    return Changes(
        [key for _, rows in starts for key in rows],
        [value for _, rows in starts for value in rows.values()],
        [start_ms for start_ms, rows in starts for _ in rows],
    )


def flat_rows(of: RetainedRows, by_start: RowsByStart) -> Iterable[tuple[bytes, Row]]:
    """Return the rows of *by_start*, which has one at least, as they lie in the engine."""
    return chain.from_iterable(
        zip(of.data_keys_at(list(rows), start_ms), rows.values(), strict=True)
        for start_ms, rows in by_start.items()
    )


class PendingWindows(dict[bytes, Row]):
    """Pending rows as a facade sees them, with those that are not rows yet. It is never written."""

    __slots__ = ("_by_start", "_flat", "_of")

    def __init__(self, of: RetainedRows, by_start: RowsByStart, flat: dict[bytes, Row]) -> None:
        """Show both, live. Requires: *by_start* was looked at before *flat*."""
        super().__init__()
        self._of, self._by_start, self._flat = of, by_start, flat

    def get(self, data_key: bytes, default: object = None) -> object:  # type: ignore[override]  # any default
        """Return a pending row."""
        rows = self._by_start.get(unpack_time_from(data_key, -self._of.time_from_end)[0])
        key = self._of.key_of(data_key)
        if rows is not None and key in rows:
            return rows[key]
        return self._flat.get(data_key, default)

    def copy(self) -> dict[bytes, Row]:
        """Return all of them as rows."""
        by_start = {start_ms: rows.copy() for start_ms, rows in list(self._by_start.items())}
        rows = self._flat.copy()
        rows.update(flat_rows(self._of, by_start))
        return rows
