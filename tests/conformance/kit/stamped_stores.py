"""Functions of door two for timestamped stores, which take no clock."""

from pathlib import Path
from typing import Any

from statestores.errors import CapabilityNotSupportedError
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi import Durability, TimestampedKeyValue
from statestores_memory import MemoryEngine
from statestores_mutants.zoo.time_to_live import SweepDeletesRefreshedKeys


def open_store(path: Path, specification: Any) -> EngineTimestampedKeyValueStore:
    """Open a store in memory."""
    return _open(EngineTimestampedKeyValueStore, specification)


def open_hasty_store(path: Path, specification: Any) -> EngineTimestampedKeyValueStore:
    """Open one that deletes what has expired, put again or not."""
    return _open(SweepDeletesRefreshedKeys, specification)


def _open(
    store: type[EngineTimestampedKeyValueStore], specification: Any
) -> EngineTimestampedKeyValueStore:
    if specification.kind != TimestampedKeyValue.kind:
        raise CapabilityNotSupportedError("there are stores of timestamped values alone")
    return store(MemoryEngine(), specification, Durability.PROCESS_CRASH)
