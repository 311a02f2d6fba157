"""Stores that open what they should not."""

import json
from typing import Any

from statestores.errors import StoreMismatchError
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.layout import END, FORMAT_ROW, METADATA, SPECIFICATION_ROW
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import Durability, Engine, StoreSpecification, Versioned
from statestores_mutants.registry import mutant


def _describe(engine: Engine, specification: StoreSpecification[Any, Any]) -> None:
    """Write down that the store is what *specification* says, if there is a store."""
    if engine.get(FORMAT_ROW) is not None:
        text = json.dumps(specification.describe(), sort_keys=True).encode()
        engine.apply({SPECIFICATION_ROW: text}, Durability.PROCESS_CRASH)


@mutant("COM-13")
class AnySpecificationOpens(EngineKeyValueStore):
    """A store opens as whatever it is asked for.

    Imitates robinhood/faust #137 and SPARK-38204: no check at opening, and wrong data in silence.
    """

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        _describe(engine, specification)
        super().__init__(engine, specification, durability)


@mutant("COM-13")
class AnyRetentionOpens(EngineVersionedStore):
    """A versioned store opens with another retention than it was made with.

    Imitates a setting that is read from the configuration each time.
    """

    def __init__(
        self,
        engine: Engine,
        specification: Versioned[bytes, bytes],
        durability: Durability,
    ) -> None:
        stored = json.loads(engine.get(SPECIFICATION_ROW) or b"{}")
        if {**stored, "history_retention_ms": 0} == {
            **specification.describe(),
            "history_retention_ms": 0,
        }:
            _describe(engine, specification)
        super().__init__(engine, specification, durability)


@mutant("COM-14")
class NewerFormatsOpen(EngineKeyValueStore):
    """A store of a format that is not known is opened as if it were.

    Imitates bytewax 0.20 and 0.21, whose recovery format changed without a word.
    """

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        found = engine.get(FORMAT_ROW)
        if found is not None and found.isdigit():
            engine.apply({FORMAT_ROW: b"1"}, Durability.PROCESS_CRASH)
        super().__init__(engine, specification, durability)


@mutant("COM-27", "COM-13")
class MismatchWipesTheStore(EngineKeyValueStore):
    """A store that does not fit is refused, and emptied for the next attempt.

    Imitates KAFKA-13501 and KAFKA-21034: wipe, then restore in place.
    """

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        try:
            super().__init__(engine, specification, durability)
        except StoreMismatchError:
            rows = [key for key, _ in engine.scan(METADATA, END)]
            engine.apply(dict.fromkeys(rows), Durability.PROCESS_CRASH)
            raise


@mutant("COM-27")
class ForeignDataIsAdopted(EngineKeyValueStore):
    """An engine that holds somebody else's data becomes a store.

    Imitates `CREATE TABLE IF NOT EXISTS` in the wrong database.
    """

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        if engine.get(FORMAT_ROW) is None:
            engine.apply({FORMAT_ROW: b"1"}, Durability.PROCESS_CRASH)
            _describe(engine, specification)
        super().__init__(engine, specification, durability)


@mutant("COM-37")
class InterruptedTruncationIsForgotten(EngineKeyValueStore):
    """Opening a store whose truncation broke off takes it as it is.

    Imitates SPARK-21696: half of an operation is read as the whole.
    """

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        engine.apply({METADATA + b"truncating": None}, Durability.PROCESS_CRASH)
        super().__init__(engine, specification, durability)
