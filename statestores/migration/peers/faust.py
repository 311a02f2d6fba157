"""The tables that a Faust application has left in RocksDB.

A database each partition, ``<datadir>/v<version>/tables/<table>-<partition>.db``, of the bytes that
the table's codecs made. One row more is the changelog's offset.
"""

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import pyarrow as pa

from statestores.errors import (
    InvalidArgumentError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.files.local_path import local_path
from statestores.migration.peers.database import IdleRocksDB
from statestores.migration.peers.source import (
    PEER_ROW_SCHEMAS,
    PeerState,
    PeerStore,
    partition_in,
)
from statestores.migration.row_batches import as_batches
from statestores.spi.kinds import KEY_VALUE, WINDOW, Kind
from statestores.spi.offsets import TopicPartition

_DATABASE = re.compile(r"(.+)-(\d+)\.db", re.ASCII)
_OFFSET = b"__faust\0offset__"

_JSON = json.JSONDecoder()
_SECONDS = r"\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*"
_WINDOW = re.compile(rf"\s*,\s*\[{_SECONDS},{_SECONDS}\]\s*\]", re.ASCII)
"""What follows the key in the key of a windowed table: both ends of the window, in seconds."""

_LAST_INSTANT_MS = 100
"""By how much the end of a window that Faust writes lies before the next one's beginning."""


class FaustTables(PeerState):
    """The tables of one application.

    A windowed table has one row for each key and window, under what the key's codec makes of both.
    Where that is JSON, as it is unless the application says otherwise, the table can be a window
    store; or it is taken as it lies there, as a key-value store.
    """

    def __init__(self, path: str | PathLike[str], *, application_id: str | None = None) -> None:
        """Open the application's data directory, ``<datadir>`` or ``<datadir>/v<version>/tables``.

        *application_id* names the application, since the names of the changelogs are made from it.
        By default it is the directory's name without ``-data``, which is Faust's own default.

        Raises:
            StoreNotFoundError: There are no tables of Faust.
            InvalidArgumentError: There are those of several versions of the application.
        """
        self.path = local_path(path)
        self._application_id = application_id
        places = [self.path, *sorted(self.path.glob("v*/tables"))]
        full = [place for place in places if any(place.glob("*.db/CURRENT"))]
        if not full:
            raise StoreNotFoundError(
                f"there are no tables of Faust in {str(self.path)!r}; give the application's data "
                "directory, <app-id>-data by default, if it has store='rocksdb://'"
            )
        if len(full) > 1:
            raise InvalidArgumentError(
                f"there are tables of several versions in {str(self.path)!r}; give one of "
                f"{', '.join(str(place) for place in full)}"
            )
        self._found: list[PeerStore] | None = None
        self._tables: dict[str, dict[int, Path]] = {}
        for found in sorted(full[0].glob("*.db/CURRENT")):
            named = _DATABASE.fullmatch(found.parent.name)
            if named:
                self._tables.setdefault(named[1], {})[int(named[2])] = found.parent

    def stores(self) -> Sequence[PeerStore]:
        """Return the tables; of those with windows, the rows are read for the windows' size.

        Raises:
            StoreLockedError: The application is running.
            StoreCorruptedError, StorageError: A table cannot be read.
        """
        if self._found is None:
            self._found = [self._store(name) for name in sorted(self._tables)]
        return self._found

    def _store(self, name: str) -> PeerStore:
        size_ms = self._window_size_ms(name)
        return PeerStore(
            name=name,
            kinds=(KEY_VALUE,) if size_ms is None else (KEY_VALUE, WINDOW),
            partitions=tuple(sorted(self._tables[name])),
            window_size_ms=size_ms,
            # A row with a window is where its event was, whatever its bytes would give.
            places_by_key=size_ms is None,
        )

    def _window_size_ms(self, name: str) -> int | None:
        """Return how long the windows of a table are; ``None`` if it has none, or others too."""
        sizes = set()
        for path in self._tables[name].values():
            with IdleRocksDB(path) as database:
                for key, _ in _own_rows(database):
                    split = _with_window(key)
                    if split is None:
                        return None
                    sizes.add(split[2] - split[1])
        return sizes.pop() if len(sizes) == 1 else None

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a table's partition (MIG-16).

        Raises:
            StoreNotFoundError: There is no such partition.
            StoreLockedError: The application is running.
            StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        with IdleRocksDB(self._path(store, partition)) as database:
            rows = _own_rows(database) if kind == KEY_VALUE else _windows(database)
            yield from as_batches(rows, PEER_ROW_SCHEMAS[kind])

    def offsets(self, store: str, partition: int) -> Mapping[TopicPartition, int]:
        """Return the offset in ``<application>-<table>-changelog``.

        Raises:
            StoreNotFoundError: There is no such partition.
            InvalidArgumentError: Nothing says what the application's id is.
            StoreLockedError: The application is running.
            StoreCorruptedError, StorageError: It cannot be read.
        """
        path = self._path(store, partition)
        with IdleRocksDB(path) as database:
            stored = next(database.rows(start=_OFFSET, stop=_OFFSET + b"\0"), None)
        if stored is None:
            return {}
        if not stored[1].isdigit():
            raise StoreCorruptedError(
                f"the database in {str(path)!r} has {stored[1]!r} where its changelog's offset "
                "should be; let Faust restore the table from its changelog"
            )
        return {
            TopicPartition(f"{self._application()}-{store}-changelog", partition): int(stored[1])
        }

    def _application(self) -> str:
        if self._application_id is not None:
            return self._application_id
        for directory in (self.path, *self.path.parents[:2]):
            if directory.name.endswith("-data"):
                return directory.name.removesuffix("-data")
        raise InvalidArgumentError(
            f"the name of {str(self.path)!r} does not say which application it is of; pass the "
            "application's id, which the names of its changelogs begin with"
        )

    def _path(self, store: str, partition: int | None) -> Path:
        self.store(store)
        return partition_in(self._tables[store], partition, f"the table {store!r}", self.path)

    def close(self) -> None:
        """Do nothing: databases are open only while they are read."""


def _own_rows(database: IdleRocksDB) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of the table, without that of the offset."""
    return (row for row in database.rows() if row[0] != _OFFSET)


def _windows(database: IdleRocksDB) -> Iterator[tuple[bytes, int, int, bytes]]:
    """Yield the rows of a table with windows: key, begin, sequence and value."""
    for key, value in _own_rows(database):
        split = _with_window(key)
        if split is None:
            raise UnsupportedFormatError(
                f"the row {key!r} has no window of Faust's, which would be JSON: "
                "[key, [begin, end]]; import the table as a key-value store"
            )
        yield split[0], split[1], 0, value


def _with_window(key: bytes) -> tuple[bytes, int, int] | None:
    """Return the key, begin and end that *key* is made of; ``None`` if it is not (MIG-16).

    The key stays the bytes that it is, and the end is the next window's beginning.
    """
    try:
        text = key.decode()
        begin_of_key = 1 + len(text[1:]) - len(text[1:].lstrip())
        _, end_of_key = _JSON.raw_decode(text, begin_of_key)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    rest = _WINDOW.fullmatch(text, end_of_key)
    if rest is None or not text.startswith("["):
        return None
    begin, last = float(rest[1]), float(rest[2])
    begin_ms, last_ms = round(begin * 1_000), round(last * 1_000)
    return text[begin_of_key:end_of_key].encode(), begin_ms, last_ms + _LAST_INSTANT_MS
