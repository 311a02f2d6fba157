"""How much memory each kind of store takes of what it is given, and how many engines it closes."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError, StoreMismatchError
from statestores.semantics import open_on_engine, opening
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES, RowCache
from statestores.spi import Durability
from statestores.spi.memory_budget import MemoryBudget
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

BUDGET = MemoryBudget(3 * 4 * 400_000, stores=3)
"""400,000 bytes for the caches of each store."""

SPECIFICATIONS: dict[str, Any] = {
    "key-value": ss.KeyValue("s"),
    "timestamped": ss.TimestampedKeyValue("s", ttl_ms=1),
    "versioned": ss.Versioned("s", history_retention_ms=1),
}
PLACES = {
    "key-value": ["_cache"],
    "timestamped": ["_sweep._due"],
    "versioned": ["_cache", "_vacuum._due"],
}
"""Where memory is bounded."""


def capacities(kind: str, **memory: Any) -> list[int]:
    """Return how much memory each place of a store of *kind* may take, which is given *memory*."""
    found = []
    with open_on_engine(MemoryEngine.open(""), SPECIFICATIONS[kind], **memory) as store:
        for path in PLACES[kind]:
            place: Any = store
            for name in path.split("."):
                place = getattr(place, name)
            found.append(place._capacity_bytes)
    return found


@for_each(
    ("kind", "own", "lowered"),
    [
        ("key-value", [1_000], [400_000]),
        ("timestamped", [1_000], [400_000]),
        ("versioned", [1_000, 500], [266_667, 133_333]),
    ],
)
def test_a_store_takes_the_memory_that_it_is_given_unless_its_budget_has_less(
    kind: str, own: list[int], lowered: list[int]
) -> None:
    """Versioned ones take half as much in addition, in which they remember when rows expire."""
    assert capacities(kind, read_cache_bytes=1_000) == own
    assert capacities(kind, read_cache_bytes=1_000, memory_budget=BUDGET) == own
    assert capacities(kind, read_cache_bytes=10_000_000, memory_budget=BUDGET) == lowered


@pytest.mark.parametrize(
    ("name", "specification"),
    [
        ("EngineWindowStore", ss.Window("s", retention_ms=1, window_size_ms=1)),
        ("EngineSessionStore", ss.Session("s", retention_ms=1)),
    ],
)
def test_windows_and_sessions_have_as_much_again_for_the_names_of_rows(
    name: str, specification: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a budget each of the two has a half, and of an odd one the first a byte more."""
    given: list[tuple[int, ...]] = []

    def noted(engine: object, specification: object, durability: object, *shares: int) -> None:
        given.append(shares)

    monkeypatch.setattr(opening, name, noted)
    for memory in (
        {"read_cache_bytes": 1_000},
        {"read_cache_bytes": 10_000_000, "memory_budget": BUDGET},
        {"read_cache_bytes": 10_000_000, "memory_budget": MemoryBudget(4 * 300_001, stores=1)},
    ):
        open_on_engine(MemoryEngine.open(""), specification, **memory)

    assert given == [(1_000, 1_000), (200_000, 200_000), (150_001, 150_000)]


def test_a_plain_store_has_a_cache_by_itself_and_uses_the_one_that_it_is_given() -> None:
    """Whoever opens one past `open_on_engine` names none."""
    given = RowCache(7)
    crash = Durability.PROCESS_CRASH
    plain = EngineKeyValueStore(MemoryEngine.open(""), ss.KeyValue("s"), crash)
    told = EngineKeyValueStore(MemoryEngine.open(""), ss.KeyValue("s"), crash, given)

    assert plain._cache._capacity_bytes == DEFAULT_READ_CACHE_BYTES
    assert told._cache is given
    plain.close()
    told.close()


def test_an_engine_is_closed_with_an_opening_that_fails() -> None:
    """It was given to the store; nobody else has it."""
    other: Any = ss.KeyValue("another")
    engine = MemoryEngine.open("")
    open_on_engine(engine, ss.KeyValue("s"))
    with pytest.raises(StoreMismatchError):
        open_on_engine(engine, other)
    assert not engine.is_open
    nothing: Any = "s"
    engine = MemoryEngine.open("")
    with pytest.raises(InvalidTypeError, match="a specification is a KeyValue"):
        open_on_engine(engine, nothing)
    assert not engine.is_open
