"""What all floors of many rows share: batches of columns, and those of the driver."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from statestores_benchmarks.data import COMMIT_ROWS
from statestores_benchmarks.drivers import raw_batch

Begin = Callable[[], tuple[Callable[[bytes, bytes], object], Callable[[], object]]]
"""Begins a batch of the driver: how to put a row into it, and how to write it."""


def batches_of(columns: Sequence[list[Any]]) -> list[list[list[Any]]]:
    """Return *columns*, keys first, in parts: as many rows as commits have, and each key once."""
    step = min(COMMIT_ROWS, len(set(columns[0])))
    return [
        [column[start : start + step] for column in columns]
        for start in range(0, len(columns[0]), step)
    ]


def by_key(pending: dict[bytes, Any]) -> tuple[list[bytes], Iterable[Any]]:
    """Return what is *pending* as columns in the order of the keys: the driver takes them faster.

    For a thousand rows that gains twice what the sorting takes
    (docs/decisions/0221-a-commit-of-some-hundred-rows-is-sorted.md).
    """
    keys = sorted(pending)
    return keys, map(pending.__getitem__, keys)


def beginner(backend: str, store: Any) -> Begin:
    """Return what begins batches of the driver that *store* is on."""
    database = store._engine._database  # noqa: SLF001  # the driver's

    def begin() -> tuple[Callable[[bytes, bytes], object], Callable[[], object]]:
        batch, write = raw_batch(backend, database)
        return batch.put, write

    return begin


def getter(backend: str, store: Any) -> Callable[[list[bytes]], list[bytes | None]]:
    """Return what reads many rows of the driver that *store* is on."""
    get = store._engine._database.get  # noqa: SLF001  # likewise
    return get if backend == "rocksdb" else lambda keys: list(map(get, keys))


Seek = Callable[[bytes], tuple[bytes, bytes] | None]
"""Returns the first row at a key or above it."""


def seeker(backend: str, store: Any) -> Callable[[], tuple[Seek, Seek]]:
    """Return what begins searches of the driver that *store* is on: upwards, and downwards.

    They see what was written before they were begun.
    """
    database = store._engine._database  # noqa: SLF001  # likewise
    return partial(_BEGIN_SEEKS[backend], database)


def _rocksdb_seeks(database: Any) -> tuple[Seek, Seek]:
    cursor = database.iter()

    def here() -> tuple[bytes, bytes] | None:
        key = cursor.key()
        return None if key is None else (key, cursor.value())

    def up(key: bytes) -> tuple[bytes, bytes] | None:
        cursor.seek(key)
        return here()

    def down(key: bytes) -> tuple[bytes, bytes] | None:
        cursor.seek_for_prev(key)
        return here()

    return up, down


def _leveldb_seeks(database: Any) -> tuple[Seek, Seek]:
    cursor = database.raw_iterator()

    def here() -> tuple[bytes, bytes] | None:
        return cursor.item() if cursor.valid() else None

    def up(key: bytes) -> tuple[bytes, bytes] | None:
        cursor.seek(key)
        return here()

    def down(key: bytes) -> tuple[bytes, bytes] | None:
        cursor.seek(key)
        if not cursor.valid():
            cursor.seek_to_last()
        elif cursor.key() != key:
            cursor.prev()
        return here()

    return up, down


_BEGIN_SEEKS = {"rocksdb": _rocksdb_seeks, "leveldb": _leveldb_seeks}


def escaped(keys: Iterable[bytes]) -> Iterable[bytes]:
    """Return *keys*, escaped if one of them has to be."""
    if b"\x00" in b"".join(keys):
        return [key.replace(b"\x00", b"\x00\xff") for key in keys]
    return keys
