"""Pending windows that are not rows yet: by their start, and then by their keys.

Most puts are of the window of the put before. Such a put needs one dictionary, and the keys of the
rows are made at once when the commit, or a range, asks for them. Invariants:

* what is here is newer than the pending row of the same window, if there is one;
* only the owner changes it; a facade that looks at pending writes asks for them to be rows from
  then on (`EngineWindowStore.read_only`), and meanwhile reads both, this first.
"""

from collections.abc import Iterable
from itertools import chain

from statestores.semantics.retained.rows import RetainedRows, unpack_time_from

Row = bytes | None

RowsByStart = dict[int, dict[bytes, Row]]
"""Values, ``None`` for a deletion, by start and key."""


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
