"""`scan_ahead`: what `scan` gives, of which the first rows are read at the call."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from statestores.errors import StoreClosedError
from statestores.registry import load_backend
from statestores.semantics.every_kind.frozen_engine import FrozenEngine
from statestores.spi import Durability, Engine, EngineReader
from statestores_conformance.many_cases import for_each

ROWS = 100
LIMITS = (1, 7, 32, ROWS, ROWS + 1)
Pair = tuple[bytes, bytes]


@pytest.fixture(params=["memory", "rocksdb", "leveldb", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with load_backend(request.param).open(tmp_path / "engine") as engine:
        engine.apply({b"%03d" % number: b"v" for number in range(ROWS)}, Durability.PROCESS_CRASH)
        yield engine


def both(reader: EngineReader, limit: int, stop: bytes | None, *, reverse: bool) -> list[Pair]:
    """Return both parts as one; the second is not there where the first was all."""
    ahead, others = reader.scan_ahead(b"003", stop, limit, reverse=reverse)
    assert len(ahead) == limit if others is not None else len(ahead) < limit
    return list(chain(ahead, others or ()))


@pytest.mark.spec("ENG-6")
@for_each("reverse", [False, True])
@for_each("limit", LIMITS)
def test_the_parts_are_what_a_scan_gives(engine: Engine, limit: int, *, reverse: bool) -> None:
    """Of the engine, of its snapshots, and of a facade's view of one; also of an empty range."""
    with engine.snapshot() as snapshot:
        for reader in (engine, snapshot, FrozenEngine(engine, snapshot)):
            for stop in (None, b"050", b"003"):
                expected = list(reader.scan(b"003", stop, reverse=reverse))

                assert both(reader, limit, stop, reverse=reverse) == expected


@pytest.mark.spec("ENG-6")
@pytest.mark.parametrize("reverse", [False, True])
def test_both_parts_are_frozen_at_the_call(engine: Engine, *, reverse: bool) -> None:
    """A batch that is applied in between shows up in neither."""
    expected = list(engine.scan(b"", None, reverse=reverse))
    ahead, others = engine.scan_ahead(b"", None, 32, reverse=reverse)
    engine.apply({b"040": None, b"060x": b"new", b"099": b"new"}, Durability.PROCESS_CRASH)

    assert [*ahead, *(others or ())] == expected


@pytest.mark.spec("ENG-10")
def test_the_second_part_ends_with_the_engine(engine: Engine) -> None:
    """Its next step raises, and does not look like an end."""
    _, others = engine.scan_ahead(b"", None, 32)
    assert others is not None
    engine.close()

    with pytest.raises(StoreClosedError):
        next(others)
    with pytest.raises(StoreClosedError):
        engine.scan_ahead(b"", None, 32)
