"""A key-value store of two dicts, written from the contract alone: a store at door two.

It shares nothing with `statestores.semantics`, so a suite that passes on both depends on neither.
"""

# ruff: noqa: D102  # an implementation inherits the contract's docstrings

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OffsetRegressionError,
    StoreClosedError,
)
from statestores.spi import (
    Changes,
    CommittedContent,
    Durability,
    Isolation,
    KeyValue,
    KeyValueStore,
    Position,
    ReadOnlyKeyValueStore,
    TopicPartition,
)
from statestores.spi.offsets import check_offset, check_partition

T = TypeVar("T")

Pair = tuple[bytes, bytes]


class Committed(NamedTuple):
    """What one commit left; replaced as a whole, never changed."""

    pairs: dict[bytes, bytes]
    offsets: dict[TopicPartition, int]
    position: Position


def _key(key: object) -> bytes:
    if type(key) is not bytes:
        raise InvalidTypeError(f"a key is bytes, got {key!r}")
    return key


def _value(value: object) -> bytes | None:
    if value is not None and type(value) is not bytes:
        raise InvalidTypeError(f"a value is bytes or None, got {value!r}")
    return value


def _column(values: Any) -> list[Any]:
    if isinstance(values, bytes | str) or not (
        hasattr(values, "to_pylist") or isinstance(values, Iterable)
    ):
        raise InvalidTypeError(f"expected many values, got {values!r}")
    return list(values.to_pylist() if hasattr(values, "to_pylist") else values)


def _truth(reverse: object) -> bool:
    """Return *reverse* if it is a ``bool``."""
    if not isinstance(reverse, bool):
        raise InvalidTypeError(f"reverse must be a bool, got {reverse!r}")
    return reverse


class DictReader(ReadOnlyKeyValueStore[bytes, bytes]):
    """What the store and its facades read alike."""

    _store: "DictStore"

    def _seen(self) -> Committed:
        """Return what this reader sees."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self._store.specification.name

    @property
    def specification(self) -> KeyValue[bytes, bytes]:
        return self._store.described

    @property
    def is_open(self) -> bool:
        return not self._store.closed

    @property
    def position(self) -> Position:
        return self._seen().position

    def committed_offset(self, partition: TopicPartition) -> int | None:
        check_partition(partition)
        return self._seen().offsets.get(partition)

    def next_offset(self, partition: TopicPartition) -> int:
        self._store.check_open()
        committed = self._store.committed
        offset = committed.offsets.get(partition, committed.position.get(partition))
        return 0 if offset is None else offset + 1

    def get(self, key: bytes) -> bytes | None:
        return self._seen().pairs.get(_key(key))

    def get_many(self, keys: Any) -> list[bytes | None]:
        pairs = self._seen().pairs
        return [pairs.get(_key(key)) for key in _column(keys)]

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        low = b"" if first is None else _key(first)
        high = None if last is None else _key(last)
        return self._while_open(
            sorted(
                (
                    pair
                    for pair in self._seen().pairs.items()
                    if low <= pair[0] and (high is None or pair[0] <= high)
                ),
                reverse=_truth(reverse),
            )
        )

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[Pair]:
        start = _key(prefix)
        pairs = [pair for pair in self._seen().pairs.items() if pair[0].startswith(start)]
        return self._while_open(sorted(pairs, reverse=_truth(reverse)))

    def approximate_num_entries(self) -> int:
        return len(self._seen().pairs)

    def _while_open(self, items: list[T]) -> Iterator[T]:
        for item in items:
            self._store.check_open()
            yield item
        self._store.check_open()


class DictFacade(DictReader):
    """A read-only view."""

    def __init__(self, store: "DictStore", isolation: Isolation) -> None:
        self._store = store
        self._isolation = isolation

    def _seen(self) -> Committed:
        self._store.check_open()
        if self._isolation is Isolation.READ_COMMITTED:
            return self._store.committed
        return self._store.pending


class DictStore(DictReader, KeyValueStore[bytes, bytes]):
    """The owner's view: what is committed, what is pending, and which keys changed."""

    def __init__(self, specification: KeyValue[bytes, bytes]) -> None:
        self._store = self
        self.described = specification
        self.closed = False
        self.committed = self.pending = Committed({}, {}, Position())
        self._changed: dict[bytes, bytes | None] = {}
        self._bytes = 0

    def check_open(self) -> None:
        """Raise when the store is closed."""
        if self.closed:
            raise StoreClosedError(f"the store {self.name!r} is closed")

    def _seen(self) -> Committed:
        self.check_open()
        return self.pending

    @property
    def persistent(self) -> bool:
        return False

    @property
    def uncommitted_bytes(self) -> int:
        return self._bytes

    # Writes: each replaces what is pending, so that readers in other threads see whole states.

    def put(self, key: bytes, value: bytes | None) -> None:
        self.put_many([key], [value])

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        _key(key)
        if _value(value) is None:
            raise InvalidTypeError("put_if_absent needs a value, got None")
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_many(self, keys: Any, values: Any) -> None:
        self.check_open()
        names, contents = _column(keys), _column(values)
        if len(names) != len(contents):
            raise InvalidArgumentError(f"got {len(names)} keys and {len(contents)} values")
        changes = [(_key(key), _value(value)) for key, value in zip(names, contents, strict=True)]
        pairs = dict(self.pending.pairs)
        for key, value in changes:
            self._changed[key] = value
            self._bytes += len(key) + len(value or b"")
            if value is None:
                pairs.pop(key, None)
            else:
                pairs[key] = value
        self.pending = self.pending._replace(pairs=pairs)

    def delete(self, key: bytes) -> bytes | None:
        present = self.get(key)
        self.put(key, None)
        return present

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        self.check_open()
        merged = self.pending.position.merge(Position(position))
        self.pending = self.pending._replace(position=merged)

    # Commits.

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        self.check_open()
        if not isinstance(offsets, Mapping):
            raise InvalidTypeError(f"expected a mapping of offsets, got {offsets!r}")
        merged = dict(self.committed.offsets)
        for partition, offset in offsets.items():
            check_partition(partition)
            if offset is None:
                merged.pop(partition, None)
                continue
            check_offset(partition, offset)
            if offset < merged.get(partition, 0):
                raise OffsetRegressionError(f"{offset} is lower than {merged[partition]}")
            merged[partition] = offset
        self._publish(self.pending._replace(offsets=merged))

    def _publish(self, state: Committed) -> None:
        self.committed = self.pending = state
        self._changed, self._bytes = {}, 0

    def committed_offsets(self) -> dict[TopicPartition, int]:
        self.check_open()
        return dict(self.committed.offsets)

    def clear_offsets(self) -> None:
        self.check_open()
        self.committed = self.committed._replace(offsets={})
        self.pending = self.pending._replace(offsets={})

    def rollback(self) -> None:
        self.check_open()
        self._publish(self.committed)

    def truncate(self) -> None:
        self.check_open()
        self._publish(Committed({}, {}, Position()))

    def close(self) -> None:
        self.closed = True

    # Changes.

    def pending_changes(self) -> Changes:
        self.check_open()
        return Changes(list(self._changed), list(self._changed.values()))

    def committed_content(self) -> CommittedContent:
        self.check_open()
        pairs, offsets, position = self.committed
        ordered = sorted(pairs.items())
        chunks = (
            Changes([key for key, _ in part], [value for _, value in part])
            for part in (ordered[row : row + 1_000] for row in range(0, len(ordered), 1_000))
        )
        return CommittedContent(offsets, position, None, chunks)

    def replay(self, changes: Changes) -> None:
        others = (changes.times_ms, changes.end_times_ms, changes.sequences, changes.timestamps_ms)
        if any(column is not None for column in others):
            raise InvalidArgumentError("a key-value store takes keys and values alone")
        self.put_many(changes.keys, changes.values)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.replay(changes)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[bytes, bytes]:
        self.check_open()
        try:
            return DictFacade(self, Isolation(isolation))
        except ValueError as error:
            raise InvalidArgumentError(
                f"isolation is 'read_committed' or 'read_uncommitted', got {isolation!r}"
            ) from error
