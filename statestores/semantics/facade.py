"""What the read-only facades of every kind have in common (ROF)."""

from typing import Any

from statestores.semantics.engine_store import EngineStore
from statestores.semantics.layout import read_offset, read_position
from statestores.spi.engine import Engine
from statestores.spi.offsets import Position, TopicPartition, check_partition
from statestores.spi.specification import StoreSpecification
from statestores.spi.store import ReadOnlyStore


class EngineFacade(ReadOnlyStore):
    """What the facades of every kind have in common. The engine holds committed rows only."""

    def __init__(self, store: EngineStore[Any, Any], engine: Engine) -> None:
        self._store = store
        self._engine = engine

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        return self._store.specification

    @property
    def is_open(self) -> bool:
        return self._store.is_open

    @property
    def position(self) -> Position:
        self._store.check_open()
        return read_position(self._engine)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self._store.check_open()
        check_partition(partition)
        return read_offset(self._engine, partition)
