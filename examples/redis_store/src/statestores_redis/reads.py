"""What the owner and its facades read alike: what is committed, with the pending writes or without.

Each read takes the store's lock, so it sees one commit, and never half of what the owner does.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from statestores.errors import InvalidTypeError
from statestores.spi import KeyValue, ReadOnlyKeyValueStore, TopicPartition
from statestores.spi.offsets import check_partition
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

from statestores_redis import scripts
from statestores_redis.frozen_rows import FrozenRows, Pair, one_by_one

if TYPE_CHECKING:
    from statestores_redis.store import RedisKeyValueStore

_AT_ONCE = 10_000
"""How many keys one request asks for."""


def checked_key(key: object) -> bytes:
    """Return *key*, which is bytes.

    Raises:
        InvalidTypeError: It is something else.
    """
    if type(key) is not bytes:
        raise InvalidTypeError(f"a key is bytes, got {key!r}")
    return key


def checked_value(value: object) -> bytes | None:
    """Return *value*, which is bytes, or ``None`` for a deletion.

    Raises:
        InvalidTypeError: It is something else.
    """
    if value is not None and type(value) is not bytes:
        raise InvalidTypeError(f"a value is bytes or None, got {value!r}")
    return value


class RedisReads(ReadOnlyKeyValueStore[bytes, bytes]):
    """The reading half."""

    _store: "RedisKeyValueStore"
    """The owner's store; itself, for the owner."""

    def _pending(self) -> Mapping[bytes, bytes | None]:
        """Return the pending writes that this reader sees. The caller holds the lock."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self._store.specification.name

    @property
    def specification(self) -> KeyValue[bytes, bytes]:
        return self._store.described

    @property
    def is_open(self) -> bool:
        return self._store.owned

    def committed_offset(self, partition: TopicPartition) -> int | None:
        check_partition(partition)
        with self._store.asking():
            return self._store.offsets.get(partition)

    def next_offset(self, partition: TopicPartition) -> int:
        check_partition(partition)
        with self._store.asking():
            reflected = self._store.committed_position.get(partition)
            offset = self._store.offsets.get(partition, reflected)
        return 0 if offset is None else offset + 1

    def get(self, key: bytes) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        wanted = [checked_key(key) for key in as_list("keys", keys)]
        with self._store.asking() as server:
            pending = self._pending()
            missing = list(dict.fromkeys(key for key in wanted if key not in pending))
            found: dict[bytes, bytes | None] = {}
            for at in range(0, len(missing), _AT_ONCE):
                some = missing[at : at + _AT_ONCE]
                found |= zip(some, server.ask(scripts.READ, *some), strict=True)
            return [pending[key] if key in pending else found[key] for key in wanted]

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        start = b"" if first is None else checked_key(first)
        stop = None if last is None else checked_key(last) + b"\x00"
        return self._frozen(start, stop, reverse=reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[Pair]:
        # The least bytes above all that begin with the prefix; nothing is above ff ff.
        head = checked_key(prefix).rstrip(b"\xff")
        stop = head[:-1] + bytes([head[-1] + 1]) if head else None
        return self._frozen(prefix, stop, reverse=reverse)

    def approximate_num_entries(self) -> int:
        with self._store.asking() as server:
            pending = sum(value is not None for value in self._pending().values())
            return int(server.ask(scripts.COUNT)) + pending

    def _frozen(self, start: bytes, stop: bytes | None, *, reverse: Any) -> Iterator[Pair]:
        if type(reverse) is not bool:
            raise InvalidTypeError(f"reverse must be a bool, got {reverse!r}")
        store = self._store
        with store.asking() as server:
            rows = FrozenRows(server.ask, start, stop, self._pending(), reverse=reverse)
            store.frozen.add(rows)
        return one_by_one(rows, store.next_page, store.check_open)
