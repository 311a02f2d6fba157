"""The tables that a Faust application has left in RocksDB.

A database each partition, ``<datadir>/v<version>/tables/<table>-<partition>.db``, of the bytes that
the table's codecs made. One row more is the changelog's offset.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import pyarrow as pa

from statestores.errors import InvalidArgumentError, StoreCorruptedError, StoreNotFoundError
from statestores.files.local_path import local_path
from statestores.migration.peers.database import IdleRocksDB
from statestores.migration.peers.source import (
    PEER_ROW_SCHEMAS,
    PeerState,
    PeerStore,
    as_batches,
    partition_in,
)
from statestores.spi.kinds import KEY_VALUE, Kind
from statestores.spi.offsets import TopicPartition

_DATABASE = re.compile(r"(.+)-(\d+)\.db", re.ASCII)
_OFFSET = b"__faust\0offset__"


class FaustTables(PeerState):
    """The tables of one application. A windowed table's keys are what its codec made of both."""

    def __init__(self, path: str | PathLike[str], *, application_id: str | None = None) -> None:
        """Open the application's data directory, ``<datadir>`` or ``<datadir>/v<version>/tables``.

        *application_id* names the application, since the names of the changelogs are made from it.
        By default it is the directory's name without ``-data``, which is Faust's own default.

        Raises:
            StoreNotFoundError: There are no tables of Faust.
            InvalidArgumentError: There are those of several versions of the application.
        """
        self.path = local_path(path).absolute()
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
        self._tables: dict[str, dict[int, Path]] = {}
        for found in sorted(full[0].glob("*.db/CURRENT")):
            named = _DATABASE.fullmatch(found.parent.name)
            if named:
                self._tables.setdefault(named[1], {})[int(named[2])] = found.parent

    def stores(self) -> Sequence[PeerStore]:
        """Return the tables."""
        return [
            PeerStore(
                name=name,
                kinds=(KEY_VALUE,),
                partitions=tuple(sorted(partitions)),
                places_by_key=True,
            )
            for name, partitions in sorted(self._tables.items())
        ]

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a table's partition (MIG-16).

        Raises:
            StoreNotFoundError: There is no such partition.
            StoreLockedError: The application is running.
            StoreCorruptedError, StorageError: It cannot be read.
        """
        with IdleRocksDB(self._path(store, partition)) as database:
            rows = (row for row in database.rows() if row[0] != _OFFSET)
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
