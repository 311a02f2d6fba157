"""Quix Streams' state, at the level of its partitions and transactions: no broker, no changelog.

The options are its defaults, which do not ask RocksDB to wait for the disk. An application calls
`as_state(key)` once per message, and `get` and `set` of the state that this gives; so do the doors.
The figures leave out the cost of producing to the changelog.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from statestores_benchmarks.contenders.door import Contender, Door, closing_at_end

NEEDS = ("quixstreams",)

_TOPIC = "bench"
_NAME = "v"
"""The name of the value in a key's state."""


class Transactions:
    """A partition with one transaction after another, as checkpoints make them."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition
        self.current = partition.begin()

    def commit(self) -> None:
        """Write what the transaction has, and begin the next one."""
        self.current.prepare()
        self.current.flush()
        self.current = self._partition.begin()


@contextmanager
def key_values(path: Path) -> Iterator[Transactions]:
    """Give the transactions of a partition of its plain store."""
    from quixstreams.state.rocksdb import RocksDBStore  # noqa: PLC0415  # it may be absent

    store = RocksDBStore("store", _TOPIC, str(path))
    with closing_at_end(store.create_new_partition(0)) as partition:
        yield Transactions(partition)


@contextmanager
def timestamped(path: Path, grace_ms: int) -> Iterator[Transactions]:
    """Give the transactions of a partition of its timestamped store, which its as-of join uses."""
    from quixstreams.state.rocksdb.timestamped import (  # noqa: PLC0415  # it may be absent
        TimestampedStore,
    )

    store = TimestampedStore("store", _TOPIC, str(path), grace_ms=grace_ms, keep_duplicates=False)
    with closing_at_end(store.create_new_partition(0)) as partition:
        yield Transactions(partition)


@contextmanager
def windowed(path: Path) -> Iterator[Transactions]:
    """Give the transactions of a partition of its windowed store."""
    from quixstreams.state.rocksdb.windowed.store import (  # noqa: PLC0415  # it may be absent
        WindowedRocksDBStore,
    )

    store = WindowedRocksDBStore("store", _TOPIC, str(path))
    with closing_at_end(store.create_new_partition(0)) as partition:
        yield Transactions(partition)


@dataclass(frozen=True, slots=True)
class Message:
    """What recovery reads from a message of the changelog."""

    key_bytes: bytes
    value_bytes: bytes
    at: int
    head: list[tuple[str, bytes]]

    def key(self) -> bytes:
        """Return the key."""
        return self.key_bytes

    def value(self) -> bytes:
        """Return the value."""
        return self.value_bytes

    def offset(self) -> int:
        """Return the offset."""
        return self.at

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the column family, and what was processed when it was written."""
        return self.head


_HEAD = [
    ("__column_family__", b"default"),
    ("__processed_tp_offsets__", json.dumps({_TOPIC: 0}).encode()),
]


def messages(keys: list[bytes], values: list[bytes]) -> list[Message]:
    """Return the changelog of *keys* and *values*, as the consumer would give it."""
    return [
        Message(key, value, offset, _HEAD)
        for offset, (key, value) in enumerate(zip(keys, values, strict=True))
    ]


@contextmanager
def recovering(path: Path, highwater: int) -> Iterator[Any]:
    """Give what applies a changelog's messages to a new partition, one after another."""
    from quixstreams.state.recovery import RecoveryPartition  # noqa: PLC0415  # it may be absent
    from quixstreams.state.rocksdb import RocksDBStore  # noqa: PLC0415  # the same

    store = RocksDBStore("store", _TOPIC, str(path))
    with closing_at_end(store.create_new_partition(0)) as partition:
        yield RecoveryPartition(
            changelog_name="changelog",
            partition_num=0,
            store_partition=partition,
            committed_offsets={_TOPIC: highwater},
            lowwater=0,
            highwater=highwater,
        )


@contextmanager
def _states(path: Path, *, as_bytes: bool) -> Iterator[Door[bytes, Any]]:
    with key_values(path) as transactions:

        def get_bytes(key: bytes) -> Any:
            return transactions.current.as_state(key).get_bytes(_NAME)

        def put_bytes(key: bytes, value: bytes) -> None:
            transactions.current.as_state(key).set_bytes(_NAME, value)

        def get(key: bytes) -> Any:
            return transactions.current.as_state(key).get(_NAME)

        def put(key: bytes, value: object) -> None:
            transactions.current.as_state(key).set(_NAME, value)

        if as_bytes:
            yield Door(get_bytes, put_bytes, transactions.commit)
        else:
            yield Door(get, put, transactions.commit)


QUIX_BYTES = Contender(
    name="Quix Streams",
    what="`as_state(key)`, `get_bytes`, `set_bytes`, a transaction a commit",
    open=partial(_states, as_bytes=True),
    needs=NEEDS,
)
QUIX_JSON = Contender(
    name="Quix Streams",
    what="`as_state(key)`, `get`, `set`, a transaction a commit",
    open=partial(_states, as_bytes=False),
    needs=NEEDS,
)
