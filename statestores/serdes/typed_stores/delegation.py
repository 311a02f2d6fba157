"""What a typed store hands to the store of bytes below it, unchanged.

Commit, offsets, position, changes and replay have no types: a changelog holds bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from statestores.spi.durability import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import CommittedContent, ReadOnlyStore, StateStore


class DelegatingReadOnlyStore(ReadOnlyStore):
    """Asks the store of bytes below whatever can be asked of every store."""

    _store: ReadOnlyStore
    _specification: StoreSpecification[Any, Any]

    def __repr__(self) -> str:
        return repr(self._store)

    @property
    def store_of_bytes(self) -> ReadOnlyStore:
        """The store below, for whoever encodes and decodes whole columns."""
        return self._store

    @property
    def name(self) -> str:
        return self._specification.name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        return self._specification

    @property
    def is_open(self) -> bool:
        return self._store.is_open

    @property
    def position(self) -> Position:
        return self._store.position

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._store.committed_offset(partition)

    def next_offset(self, partition: TopicPartition) -> int:
        return self._store.next_offset(partition)


class DelegatingStateStore(DelegatingReadOnlyStore, StateStore):
    """Passes on to the store of bytes below the calls that every owner can make."""

    _store: StateStore

    @property
    def persistent(self) -> bool:
        return self._store.persistent

    @property
    def uncommitted_bytes(self) -> int:
        return self._store.uncommitted_bytes

    @property
    def has_pending_writes(self) -> bool:
        return self._store.has_pending_writes

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        self._store.commit(offsets, durability=durability)

    def committed_offsets(self) -> dict[TopicPartition, int]:
        return self._store.committed_offsets()

    def clear_offsets(self) -> None:
        self._store.clear_offsets()

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        self._store.advance_position(position)

    def rollback(self) -> None:
        self._store.rollback()

    def pending_changes(self) -> Changes:
        return self._store.pending_changes()

    def committed_content(self) -> CommittedContent:
        return self._store.committed_content()

    def committed_changes(self) -> Iterator[Changes]:
        return self._store.committed_changes()

    def replay(self, changes: Changes) -> None:
        self._store.replay(changes)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self._store.load(changes, stream_time_ms=stream_time_ms)

    def truncate(self) -> None:
        self._store.truncate()

    def metrics(self) -> Metrics:
        return self._store.metrics()

    def close(self) -> None:
        self._store.close()
