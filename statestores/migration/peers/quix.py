"""The state directory that an application of Quix Streams has left behind.

A database each partition: ``<group>/<store>/<topic>/<partition>``. Rows are in the column family
``default``; which others there are says what the store is. The key of a record and the key within
its state are one key of bytes, ``<record>|<state>``; windows and times end with two numbers of 8
bytes, big-endian, each after a ``|``.
"""

import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from statestores.errors import (
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
from statestores.spi.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from statestores.spi.offsets import TopicPartition

_DEFAULT = "default"
_METADATA = "__metadata__"
_VALUES = "__values__"
_COUNTER = "__global-counter__"
_TIMES = "__min-eligible-timestamps__"
_LATEST = "__latest-timestamps__"
_OF_WINDOWS = frozenset(
    {_LATEST, _VALUES, "__expiration-index__", "__deletion-index__", "__value-deletion-index__"}
)
_OF_TTL = frozenset(
    {"__ttl_index__", "__ttl_system__", "__ttl_backfill_pending__", "__ttl_backfill_stamped__"}
)
_KNOWN = _OF_WINDOWS | _OF_TTL | {_DEFAULT, _METADATA, _COUNTER, _TIMES}

_CHANGELOG_OFFSET = b"__changelog_offset__"
_TTL_ENABLED = b"__ttl_enabled__"
_TTL_FORMAT = b"__ttl_format_version__"
_TTL_NOW = b"__ttl_high_water_ms__"
_TTL_UNFINISHED = (b"__ttl_adopt_pending__", b"__ttl_backfill_in_progress__")
_TTL_FORMATS = (1, 2)

_NUMBER = struct.Struct(">Q")
_TAIL = struct.Struct(">cQcQ")
_MAX_TIME_MS = (1 << 63) - 1


class QuixStateDirectory(PeerState):
    """The stores of one consumer group, named ``<topic>.<store>``."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open the group's directory: ``<state_dir>/<consumer_group>``.

        Raises:
            StoreNotFoundError: There are no databases of Quix Streams.
        """
        self.path = local_path(path)
        self._partitions: dict[str, dict[int, Path]] = {}
        self._topics: dict[str, tuple[str | None, str]] = {}
        for pattern in ("*/*/*/CURRENT", "*/*/CURRENT"):
            for found in sorted(self.path.glob(pattern)):
                self._add(found.parent)
        if not self._partitions:
            raise StoreNotFoundError(
                f"there is no state of Quix Streams in {str(self.path)!r}; give the directory of "
                "the consumer group, <state_dir>/<consumer_group>"
            )

    def _add(self, database: Path) -> None:
        store, *topic, number = database.relative_to(self.path).parts
        if not number.isascii() or not number.isdigit():
            raise StoreNotFoundError(
                f"{str(database)!r} is no partition of a store of Quix Streams; give the directory "
                "of the consumer group, <state_dir>/<consumer_group>"
            )
        name = ".".join((*topic, store))
        self._partitions.setdefault(name, {})[int(number)] = database
        self._topics[name] = (topic[0] if topic else None, store)

    @cached_property
    def _stores(self) -> tuple[PeerStore, ...]:
        return tuple(
            self._store(name, dict(sorted(self._partitions[name].items())))
            for name in sorted(self._partitions)
        )

    def stores(self) -> Sequence[PeerStore]:
        """Return all stores; of windows, the rows are read for their sizes.

        Raises:
            StoreLockedError: The application is running.
            StoreCorruptedError, UnsupportedFormatError, StorageError: A store cannot be read.
        """
        return self._stores

    def _store(self, name: str, partitions: Mapping[int, Path]) -> PeerStore:
        families: set[str] = set()
        sizes: set[int] = set()
        problem: str | None = None
        for path in partitions.values():
            with IdleRocksDB(path) as database:
                own = set(database.families)
                if own - _KNOWN:
                    raise UnsupportedFormatError(
                        f"the database in {str(path)!r} has the column families "
                        f"{sorted(own - _KNOWN)}, which this release does not know; upgrade "
                        "statestores"
                    )
                families |= own
                problem = problem or _problem(path, database)
                if own & _OF_WINDOWS:
                    tails = (_split(path, key) for key, _ in database.rows(_DEFAULT))
                    sizes.update(end - start for _, start, end in tails)
        if problem is not None:
            return PeerStore(name=name, kinds=(), partitions=tuple(partitions), problem=problem)
        if families & _OF_WINDOWS:
            if len(sizes) > 1:
                kinds: tuple[Kind, ...] = (SESSION,)
            else:
                kinds = (WINDOW, SESSION)
            return PeerStore(
                name=name,
                kinds=kinds,
                partitions=tuple(partitions),
                window_size_ms=next(iter(sizes)) if len(sizes) == 1 else None,
            )
        kind = VERSIONED if _TIMES in families else KEY_VALUE
        return PeerStore(name=name, kinds=(kind,), partitions=tuple(partitions))

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows; values that their time to live has passed are left out (MIG-16).

        Raises:
            StoreNotFoundError: There is no such partition.
            StoreLockedError: The application is running.
            StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        path = self._path(store, partition)
        with IdleRocksDB(path) as database:
            rows = _live(path, database) if kind == KEY_VALUE else _timed(path, database, kind)
            yield from as_batches(rows, PEER_ROW_SCHEMAS[kind])

    def offsets(self, store: str, partition: int) -> Mapping[TopicPartition, int]:
        """Return the offset in ``changelog__<group>--<topic>--<store>``.

        Raises:
            StoreNotFoundError: There is no such partition.
            StoreLockedError: The application is running.
            StoreCorruptedError, StorageError: It cannot be read.
        """
        path = self._path(store, partition)
        with IdleRocksDB(path) as database:
            offset = _metadata(path, database).get(_CHANGELOG_OFFSET)
        if offset is None:
            return {}
        topic, name = self._topics[store]
        parts = [self.path.name, *([] if topic is None else [topic]), name]
        changelog = TopicPartition("changelog__" + "--".join(parts), partition)
        return {changelog: _number(path, offset)}

    def _path(self, store: str, partition: int | None) -> Path:
        self.store(store)
        return partition_in(self._partitions[store], partition, f"the store {store!r}", self.path)

    def close(self) -> None:
        """Do nothing: databases are open only while they are read."""


def _problem(path: Path, database: IdleRocksDB) -> str | None:
    """Return why no store here can be what the database at *path* is; ``None`` if one can."""
    families = database.families
    if _VALUES in families and next(database.rows(_VALUES), None) is not None:
        return (
            f"the windows in {str(path)!r} collect their values, which no store here does; leave "
            "the store out by naming the others, or let the windows close first"
        )
    if (
        _TIMES in families
        and _COUNTER in families
        and next(database.rows(_COUNTER), None) is not None
    ):
        return (
            f"the store in {str(path)!r} keeps several values of one time, which no versioned "
            "store does; leave it out by naming the others"
        )
    return None


def _metadata(path: Path, database: IdleRocksDB) -> dict[bytes, bytes]:
    if _METADATA not in database.families:
        raise StoreCorruptedError(
            f"the database in {str(path)!r} has no column family {_METADATA!r}: it is not one of "
            "Quix Streams"
        )
    return dict(database.rows(_METADATA))


def _live(path: Path, database: IdleRocksDB) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values, without what tells when they expire, and without those that have."""
    metadata = _metadata(path, database)
    unfinished = [name.decode() for name in _TTL_UNFINISHED if name in metadata]
    if unfinished:
        raise UnsupportedFormatError(
            f"the store in {str(path)!r} is changing its format ({', '.join(unfinished)}); start "
            "its application once more, so that Quix Streams finishes that"
        )
    if not metadata.get(_TTL_ENABLED):
        yield from database.rows(_DEFAULT)
        return
    version = _number(path, metadata.get(_TTL_FORMAT, b""))
    if version not in _TTL_FORMATS:
        raise UnsupportedFormatError(
            f"the values in {str(path)!r} have format {version} of times to live, which this "
            "release does not know; upgrade statestores"
        )
    now = _number(path, metadata[_TTL_NOW]) if _TTL_NOW in metadata else -1
    for key, stamped in database.rows(_DEFAULT):
        if len(stamped) < _NUMBER.size:
            _refuse(path, key, "its value is too short for the time at which it expires")
        if _NUMBER.unpack_from(stamped)[0] > now:
            yield key, stamped[_NUMBER.size :]


def _timed(path: Path, database: IdleRocksDB, kind: Kind) -> Iterator[tuple[bytes | int, ...]]:
    """Yield the rows of windows, sessions, or values at times, with the columns of *kind*."""
    for stored, value in database.rows(_DEFAULT):
        key, first, second = _split(path, stored)
        if kind == VERSIONED:
            yield key, value, first
        elif kind == WINDOW:
            yield key, first, 0, value
        else:
            yield key, first, second, value


def _split(path: Path, stored: bytes) -> tuple[bytes, int, int]:
    """Return the record's key and the two numbers after it."""
    if len(stored) < _TAIL.size:
        _refuse(path, stored, "it is too short for two numbers")
    first_mark, first, second_mark, second = _TAIL.unpack_from(stored, len(stored) - _TAIL.size)
    if first_mark != b"|" or second_mark != b"|" or max(first, second) > _MAX_TIME_MS:
        _refuse(path, stored, "it does not end with two times")
    return stored[: -_TAIL.size], first, second


def _number(path: Path, stored: bytes) -> int:
    if len(stored) != _NUMBER.size:
        raise StoreCorruptedError(
            f"the metadata in {str(path)!r} has {stored!r} where a number of 8 bytes should be; "
            "let Quix Streams restore the store from its changelog"
        )
    number: int = _NUMBER.unpack(stored)[0]
    return number


def _refuse(path: Path, key: bytes, problem: str) -> NoReturn:
    raise StoreCorruptedError(
        f"the row {key[:64]!r} in {str(path)!r} does not fit the store's kind: {problem}; let Quix "
        "Streams restore the store from its changelog"
    )
