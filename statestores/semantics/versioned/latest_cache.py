"""Latest versions that were committed or read recently: see `statestores.semantics.rows.row_cache`.

They are kept as a start and a value, and not as rows: a commit that supersedes them then need not
cut them in two, and those of its own are the pending ones as they are.
"""

from collections.abc import Iterable
from typing import ClassVar

from statestores.semantics.rows.row_cache import RecentRows
from statestores.semantics.versioned.rows import Latest, latest_of


class LatestCache(RecentRows[Latest]):
    """The latest version of each key, ``None`` where there is none."""

    __slots__ = ()

    overhead_bytes: ClassVar[int] = 200
    """As for rows, with a pair and a number in addition. Measured: 170 to 210."""

    def keep_row(self, key: bytes, row: bytes | None) -> None:
        """Take a row that was read from the engine, if there is any room."""
        if self._capacity_bytes:
            self.keep(key, latest_of(row))

    @staticmethod
    def _size(rows: Iterable[Latest]) -> int:
        return sum([len(value) for _, value in rows if value is not None])
