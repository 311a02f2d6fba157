"""The owner's store: pending writes in memory, and a commit that the server applies in one step.

Offsets and position are in memory as well, as the last commit left them: nobody else can change
them without fencing this store.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from statestores.errors import (
    CapabilityNotSupportedError,
    CommitConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    OffsetRegressionError,
    StorageError,
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
from statestores.spi.forking import disown_after_fork
from statestores.spi.offsets import check_offset, check_partition
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

from statestores_redis import scripts
from statestores_redis.frozen_rows import FrozenRows, Pair
from statestores_redis.reads import RedisReads, checked_key, checked_value
from statestores_redis.server import Server, Taken


class RedisFacade(RedisReads):
    """A read-only view, for other threads."""

    def __init__(self, store: "RedisKeyValueStore", isolation: Isolation) -> None:
        """Read *store*, with its pending writes if *isolation* says so."""
        self._store = store
        self._isolation = isolation

    @property
    def position(self) -> Position:
        with self._store.asking():
            if self._isolation is Isolation.READ_COMMITTED:
                return self._store.committed_position
            return self._store.pending_position

    def _pending(self) -> Mapping[bytes, bytes | None]:
        return {} if self._isolation is Isolation.READ_COMMITTED else self._store.pending


class RedisKeyValueStore(RedisReads, KeyValueStore[bytes, bytes]):
    """A key-value store of bytes on a Redis server; `opening.open_store` makes one."""

    def __init__(
        self,
        server: Server,
        specification: KeyValue[bytes, bytes],
        promised: Durability,
        durability: Durability,
    ) -> None:
        """Take the store over; *promised* is what the server keeps, *durability* what is usual."""
        self._server = server
        self._promised, self._durability = promised, durability
        self._store = self
        self.described = specification
        self._lock = threading.RLock()
        taken = server.take(specification)
        self._set_committed(taken)
        self.owned = True
        self.pending: dict[bytes, bytes | None] = {}
        self._bytes = 0
        self._doubtful: Callable[[], None] | None = None
        """What follows if the server has the commit of which nobody knows yet (COM-43)."""
        self._is_truncating = False
        """Whether a truncation has begun, and not ended (COM-42)."""
        self._kept_after_error = False
        """Whether a commit that raised turned out to be there, and no commit followed (COM-43)."""
        self.frozen: WeakSet[FrozenRows] = WeakSet()
        disown_after_fork(self)

    def _set_committed(self, taken: Taken) -> None:
        self._commits = taken.commits
        self.offsets = _partitions(taken.offsets)
        self.committed_position = self.pending_position = Position(_partitions(taken.position))

    # The lock, the fork, the end.

    def check_open(self) -> None:
        """Raise `StoreClosedError` when the store is closed."""
        if not self.owned:
            raise StoreClosedError(f"the store {self.name!r} is closed")

    @contextmanager
    def asking(self) -> Generator[Server, None, None]:
        """Hold the lock of an open store; first find out what became of a lost connection.

        Raises:
            StoreClosedError: The store is closed.
            FencedError, StorageError: The server does not say.
        """
        self.check_open()
        with self._lock:
            self.check_open()
            if self._server.is_lost or self._doubtful is not None or self._is_truncating:
                self._find_out()
            yield self._server

    def _find_out(self) -> None:
        commits = self._server.reclaim()
        follows, self._doubtful = self._doubtful, None
        if follows is not None and commits == self._commits + 1:
            follows()
        if self._is_truncating:
            self._truncate()

    def disown(self) -> None:
        """Let go, in a forked child: the connection is the parent's."""
        self.owned = False
        self._lock = threading.RLock()

    def close(self) -> None:
        if not self.owned:
            return
        with self._lock:
            self.owned = False
            self._server.release()

    @property
    def persistent(self) -> bool:
        return True

    # Reads.

    def _pending(self) -> Mapping[bytes, bytes | None]:
        return self.pending

    @property
    def position(self) -> Position:
        with self.asking():
            return self.pending_position

    @property
    def uncommitted_bytes(self) -> int:
        with self.asking():
            return self._bytes

    def next_page(self, rows: FrozenRows) -> list[Pair]:
        """Return the next rows of an iterator."""
        with self.asking():
            return rows.page()

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[bytes, bytes]:
        self.check_open()
        try:
            return RedisFacade(self, Isolation(isolation))
        except ValueError as error:
            raise InvalidArgumentError(
                f"isolation is 'read_committed' or 'read_uncommitted', got {isolation!r}"
            ) from error

    # Writes.

    def put(self, key: bytes, value: bytes | None) -> None:
        self.put_many([key], [value])

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if checked_value(value) is None:
            raise InvalidTypeError("put_if_absent needs a value, got None")
        with self.asking():
            present = self.get(key)
            if present is None:
                self.put(key, value)
            return present

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        names, contents = as_list("keys", keys), as_list("values", values)
        if len(names) != len(contents):
            raise InvalidArgumentError(f"got {len(names)} keys and {len(contents)} values")
        changes = [
            (checked_key(key), checked_value(value))
            for key, value in zip(names, contents, strict=True)
        ]
        with self.asking():
            self.pending.update(changes)
            self._bytes += sum(len(key) + len(value or b"") for key, value in changes)

    def delete(self, key: bytes) -> bytes | None:
        with self.asking():
            present = self.get(key)
            self.put(key, None)
            return present

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        with self.asking():
            self.pending_position = self.pending_position.merge(Position(position))

    # Commits.

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        self._check_durability(durability)
        with self.asking():
            merged = self._merged(offsets)
            self._write(
                self.pending,
                merged,
                self.pending_position,
                lambda: self._publish(merged, after_error=True),
            )
            self._publish(merged, after_error=False)

    def _check_durability(self, durability: object) -> None:
        wanted = self._durability if durability is None else durability
        if not isinstance(wanted, Durability):
            raise InvalidTypeError(f"durability must be a Durability or None, got {durability!r}")
        if wanted is Durability.POWER_LOSS and self._promised is not Durability.POWER_LOSS:
            raise CapabilityNotSupportedError(
                "this Redis does not wait for the disk: configure 'appendfsync always', or commit "
                "with Durability.PROCESS_CRASH"
            )

    def _merged(self, offsets: object) -> dict[TopicPartition, int]:
        if not isinstance(offsets, Mapping):
            raise InvalidTypeError(f"expected a mapping of offsets, got {offsets!r}")
        merged = dict(self.offsets)
        for partition, offset in offsets.items():
            check_partition(partition)
            if offset is None:
                merged.pop(partition, None)
                continue
            check_offset(partition, offset)
            if offset < merged.get(partition, 0):
                raise OffsetRegressionError(
                    f"the offset of {partition} is {merged[partition]}, and cannot become {offset}"
                )
            merged[partition] = offset
        return merged

    def _write(
        self,
        changes: Mapping[bytes, bytes | None],
        offsets: dict[TopicPartition, int],
        position: Position,
        follows: Callable[[], None],
    ) -> None:
        """Have the server apply a commit; *follows* is done later if it does not say that it did.

        Raises:
            StorageError: There is too much of it, or the server refuses, or does not answer.
            FencedError: Another process owns the store.
        """
        if len(changes) > scripts.MAX_CHANGES:
            raise StorageError(
                f"a commit changes {len(changes):,} keys, and Redis takes {scripts.MAX_CHANGES:,}; "
                "commit more often"
            )
        self._tell(changes)
        puts = [part for pair in changes.items() if pair[1] is not None for part in pair]
        deletions = [key for key, value in changes.items() if value is None]
        columns: list[list[Any]] = [puts, deletions, _fields(offsets), _fields(position)]
        arguments = [*map(len, columns), *(part for column in columns for part in column)]
        # In doubt from here on, so that an interrupt leaves it so.
        self._doubtful = follows
        self._server.ask(scripts.COMMIT, *arguments)
        self._doubtful = None

    def _tell(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Tell iterators that are under way what *changes* replace."""
        for rows in list(self.frozen):
            awaited = rows.awaited(changes)
            if awaited:
                before = self._server.ask(scripts.READ, *awaited)
                for key, value in zip(awaited, before, strict=True):
                    rows.tell(key, value)

    def _publish(self, offsets: dict[TopicPartition, int], *, after_error: bool) -> None:
        self._commits += 1
        self.offsets = offsets
        self._kept_after_error = after_error
        self.committed_position = self.pending_position
        self._forget()

    def _forget(self) -> None:
        self.pending = {}
        self.pending_position = self.committed_position
        self._bytes = 0

    def committed_offsets(self) -> dict[TopicPartition, int]:
        with self.asking():
            return dict(self.offsets)

    def clear_offsets(self) -> None:
        with self.asking():
            self._write({}, {}, self.committed_position, self._offsets_cleared)
            self._offsets_cleared()

    def _offsets_cleared(self) -> None:
        self._commits += 1
        self.offsets = {}

    def rollback(self) -> None:
        with self.asking():
            if self._kept_after_error:
                raise CommitConflictError(
                    "the commit that failed is there: its writes cannot be rolled back; commit"
                )
            self._forget()

    def truncate(self) -> None:
        with self.asking():
            for rows in list(self.frozen):
                rows.keep_everything()
            self._truncate()

    def _truncate(self) -> None:
        """Empty the store; what was begun and cut off is done again, which changes nothing more."""
        self._is_truncating = True
        commits = self._server.ask(scripts.TRUNCATE)
        self._set_committed(Taken(commits, {}, {}))
        self._forget()
        self._is_truncating = self._kept_after_error = False

    # Changes.

    def pending_changes(self) -> Changes:
        with self.asking():
            return Changes(list(self.pending), list(self.pending.values()))

    def committed_content(self) -> CommittedContent:
        with self.asking() as server:
            rows = FrozenRows(server.ask, b"", None, {}, reverse=False)
            self.frozen.add(rows)
            return CommittedContent(
                dict(self.offsets), self.committed_position, None, self._chunks(rows)
            )

    def _chunks(self, rows: FrozenRows) -> Generator[Changes, None, None]:
        while page := self.next_page(rows):
            yield Changes([key for key, _ in page], [value for _, value in page])

    def replay(self, changes: Changes) -> None:
        if not isinstance(changes, Changes):
            raise InvalidTypeError(f"changes must be Changes, got {changes!r}")
        others = (changes.times_ms, changes.end_times_ms, changes.sequences, changes.timestamps_ms)
        if any(column is not None for column in others):
            raise InvalidArgumentError("the changes of a key-value store have keys and values only")
        self.put_many(changes.keys, changes.values)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.replay(changes)


def _fields(offsets: Mapping[TopicPartition, int]) -> list[str | int]:
    return [
        part
        for (topic, partition), offset in offsets.items()
        for part in (f"{partition}:{topic}", offset)
    ]


def _partitions(fields: Mapping[bytes, bytes]) -> dict[TopicPartition, int]:
    def pairs() -> Iterator[tuple[TopicPartition, int]]:
        for field, offset in fields.items():
            partition, _, topic = field.decode().partition(":")
            yield TopicPartition(topic, int(partition)), int(offset)

    return dict(pairs())
