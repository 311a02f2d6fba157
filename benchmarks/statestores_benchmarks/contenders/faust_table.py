"""Faust's RocksDB store, as its tables call it: a real app that is never started, no broker.

A table's write is not atomic with the offset: each put goes to RocksDB separately, and a commit
writes the offset as a row of its own. The figures leave out the cost of producing to the changelog.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from statestores_benchmarks.contenders.door import Contender, Door

NEEDS = ("faust", "rocksdict")

_PARTITION = 0


class _Message:
    """What a store needs from the message whose event is being processed."""

    def __init__(self, position: Any, key: bytes, value: bytes, offset: int) -> None:
        self.tp = position
        self.partition = _PARTITION
        self.key, self.value, self.offset = key, value, offset


class _Event:
    def __init__(self, message: _Message) -> None:
        self.message = message


@contextmanager
def _table(path: Path, value_type: type[bytes] | None) -> Iterator[tuple[Any, Any]]:
    """Give a table's store and the changelog's partition; without a type, values are JSON."""
    import faust  # noqa: PLC0415  # it may be absent
    from faust.types import TP  # noqa: PLC0415  # the same

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = faust.App(
        "bench", store="rocksdb://", datadir=path / "faust", autodiscover=False, loop=loop
    )
    table = app.Table(
        "counts",
        partitions=1,
        key_type=bytes,
        value_type=value_type,
        options={"driver": "rocksdict"},
    )
    position = TP("bench-counts-changelog", _PARTITION)
    store = table.data
    store.partition_path(_PARTITION).parent.mkdir(parents=True, exist_ok=True)
    try:
        yield store, position
    finally:
        for database in store._dbs.values():  # noqa: SLF001  # only a running app closes them
            database.close()
        store._dbs.clear()  # noqa: SLF001  # the same
        asyncio.set_event_loop(None)
        loop.close()


@contextmanager
def _rows(path: Path, value_type: type[bytes] | None) -> Iterator[Door[bytes, Any]]:
    from faust.streams import _current_event  # noqa: PLC0415  # it may be absent

    with _table(path, value_type) as (store, position):
        event = _Event(_Message(position, b"", b"", 0))
        token = _current_event.set(ref(event))
        committed = 0
        store.persisted_offset(position)  # opens the database

        def get(key: bytes) -> Any:
            try:
                return store[key]
            except KeyError:
                return None

        def commit() -> None:
            nonlocal committed
            committed += 1
            store.set_persisted_offset(position, committed)

        try:
            yield Door(get, store.__setitem__, commit)
        finally:
            _current_event.reset(token)


@contextmanager
def recovering(path: Path, keys: list[bytes], values: list[bytes]) -> Iterator[tuple[Any, Any]]:
    """Give a table's store, and the changelog as the events that its recovery applies."""
    with _table(path, bytes) as (store, position):
        events = [
            _Event(_Message(position, key, value, offset))
            for offset, (key, value) in enumerate(zip(keys, values, strict=True))
        ]
        yield store, events


FAUST_BYTES = Contender(
    name="Faust",
    what="the table's store, `raw` serializer",
    open=partial(_rows, value_type=bytes),
    needs=NEEDS,
)
FAUST_JSON = Contender(
    name="Faust",
    what="the table's store, `json` serializer",
    open=partial(_rows, value_type=None),
    needs=NEEDS,
)
