"""How a database is opened: SQLite's file, or a table on a PostgreSQL server."""

import re
from dataclasses import dataclass, replace
from typing import Self

from statestores.errors import InvalidOptionError
from statestores.spi import MemoryBudget, MemoryShare

URL_VARIABLE = "STATESTORES_POSTGRESQL_URL"
"""The environment variable that gives the server when the options do not."""

_LEAST_CACHE_BYTES = 64 * 1024
"""SQLite reads less as "none", or as a number of pages."""

_CONNECTIONS = 4
"""Those that a budget counts: one writes, and three read at the same moment."""

TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""Names that go into a statement as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteOptions:
    """The choices for a SQLite database in a file."""

    cache_bytes: int = 8 * 1024 * 1024
    """Memory for pages, for each connection. One connection writes, and each thread that reads at
    the same moment, each open scan and each snapshot has one. SQLite's own 2 MiB hold the upper
    levels of a tree of a few million rows; 8 MiB leave room for a commit of many rows."""

    wal_bytes: int = 16 * 1024 * 1024
    """How large the write-ahead log may grow before the commit that finds it so moves its pages to
    the database file. Beside a file of less than four times this, the limit is a quarter of the
    file, but not below 2 MiB. With a small log, a page that changes often is moved more often. An
    open scan or snapshot holds up the move, and the log keeps growing."""

    checksums: bool = True
    """Whether each row of a new file has a checksum, which every read compares, and the file one
    of its own, which every opening compares. An existing file stays as it was created. Without
    checksums, damage to the structure is found, but a changed value is read as data."""

    memory_budget: MemoryBudget | None = None
    """The memory that the caches of four connections share with other engines: the one that writes,
    and three that read at the same moment; any more read beyond the budget. Where an engine's part
    is less, each cache is smaller. ``None`` gives each what ``cache_bytes`` says."""

    def __post_init__(self) -> None:
        """Refuse sizes that SQLite would read as "none" or "no limit"."""
        for name, value in (("cache_bytes", self.cache_bytes), ("wal_bytes", self.wal_bytes)):
            if not _LEAST_CACHE_BYTES <= value <= 1 << 40:
                raise InvalidOptionError(
                    f"option {name!r} must be from {_LEAST_CACHE_BYTES} to {1 << 40}, got {value!r}"
                )

    def within_budget(self) -> tuple[Self, MemoryShare | None]:
        """Return the options with the cache that the budget grants, and the place in it.

        Raises:
            MemoryBudgetExceededError: It has no room for one more store.
        """
        if self.memory_budget is None:
            return self, None
        share = self.memory_budget.join(least_bytes=_CONNECTIONS * _LEAST_CACHE_BYTES)
        granted = min(self.cache_bytes, self.memory_budget.engine_bytes // _CONNECTIONS)
        return replace(self, cache_bytes=granted), share


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQLOptions:
    """Where the pairs are on a PostgreSQL server."""

    url: str | None = None
    """The server and database as SQLAlchemy's URL, ``postgresql://user@host/database``. Without
    it, the environment variable ``STATESTORES_POSTGRESQL_URL`` gives it, where a password is not
    seen by everyone who may list processes."""

    table: str | None = None
    """The table. Without it, a new engine makes one with a name of its own and writes the name
    into its directory: so each store and partition has its own, and it moves with the directory.
    Give the name to find a table again whose directory was lost."""

    def __post_init__(self) -> None:
        """Refuse a table name that would need quoting."""
        if self.table is not None and not TABLE_NAME.fullmatch(self.table):
            raise InvalidOptionError(
                "option 'table' must be letters, digits and underscores, at most 63 and not a "
                f"digit first, got {self.table!r}"
            )
