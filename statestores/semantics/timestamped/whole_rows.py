"""Rows of a timestamped store as they are stored: read and put at once, for who works on columns.

See `statestores.arrow.stamped_rows`, which cuts them into columns and joins them again.
"""

from itertools import repeat
from typing import Any

from statestores.semantics.every_kind.timed_store import TimedStore

_ABSENT = object()


class WholeRows(TimedStore):
    """Reads and puts rows by their keys in the engine."""

    _rows: dict[bytes, bytes | None]
    _cached: dict[bytes, bytes | None]
    _engine_gets: int
    _highest: tuple[bytes, bytes] | None

    _columns: tuple[int, tuple[Any, ...]] | None
    """After how many puts the pending writes were which columns of a changelog."""

    def read_rows(self, row_keys: list[bytes]) -> list[bytes | None]:
        """Return the rows with *row_keys*: pending, cached, or the engine's; expired ones too.

        Requires: each of them is `DATA` and a key.
        """
        self.check_open()
        found: list[Any] = list(map(self._cached.get, row_keys, repeat(_ABSENT)))
        if self._rows:
            found = list(map(self._rows.get, row_keys, found))
        if _ABSENT in found:
            places = [place for place, each in enumerate(found) if each is _ABSENT]
            self._engine_gets += len(places)
            stored = self._engine.get_many([row_keys[place] for place in places])
            for place, row in zip(places, stored, strict=True):
                found[place] = row
        return found

    def put_rows(
        self,
        row_keys: list[bytes],
        rows: list[bytes | None],
        *,
        highest: int,
        highest_ms: int,
        size_bytes: int,
        columns: tuple[Any, ...],
    ) -> None:
        """Put *rows*, ``None`` for a deletion; each of *row_keys* comes once.

        The row at the place *highest* has the highest timestamp. All of it has *size_bytes*, and is
        the same as *columns*, those of a changelog. Requires: rows do not expire.
        """
        is_all = not self._rows
        self._columns = None
        self._rows.update(zip(row_keys, rows, strict=True))
        moved = rows[highest] if highest_ms > self._stream_time else None
        if moved is not None:
            self._stream_time = highest_ms
            self._highest = row_keys[highest], moved
        self._uncommitted_bytes += size_bytes
        self._puts += len(rows)
        if is_all:
            self._columns = self._puts, columns

    def pending_columns(self) -> tuple[Any, ...] | None:
        self.check_open()
        found = self._columns
        return None if found is None or found[0] != self._puts else found[1]
