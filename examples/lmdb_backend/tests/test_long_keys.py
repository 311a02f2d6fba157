"""Keys longer than LMDB's, beside short ones and beside each other, against a plain ``dict``."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statestores.spi import Durability, Engine

from statestores_lmdb import LMDBEngine
from statestores_lmdb.layers import CHUNK_BYTES

_LONGEST_KEY_BYTES = 64 * 1024

# Lengths around every cut, and few different bytes, so that keys share their chunks.
_LENGTHS = [
    1,
    2,
    *(chunks * CHUNK_BYTES + more for chunks in (1, 2, 3) for more in (-1, 0, 1, 2)),
]
_KEYS = st.builds(
    lambda fill, length, end: (bytes([fill]) * length)[: -len(end) or None] + end,
    st.sampled_from([0x00, 0x61, 0xFF]),
    st.sampled_from(_LENGTHS),
    st.sampled_from([b"", b"\x00", b"\x01", b"\xff", b"\x00\x00", b"b"]),
).filter(bool)
_BATCHES = st.lists(
    st.dictionaries(_KEYS, st.one_of(st.none(), st.binary(max_size=3)), max_size=8), max_size=5
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Open one empty engine."""
    with LMDBEngine.open(tmp_path / "engine") as engine:
        yield engine


def _clear(engine: Engine) -> None:
    engine.apply({key: None for key, _ in engine.scan(b"")}, Durability.PROCESS_CRASH)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batches=_BATCHES, bounds=st.lists(_KEYS, min_size=2, max_size=6))
def test_every_read_agrees_with_a_dict(
    engine: Engine, batches: list[dict[bytes, bytes | None]], bounds: list[bytes]
) -> None:
    """Point reads, seeks and scans in both directions, between bounds of any length."""
    _clear(engine)
    # A bound that is itself a key is where an end that is off by one shows.
    bounds = [*bounds, *(key for batch in batches for key in list(batch)[:2])]
    model: dict[bytes, bytes] = {}
    for batch in batches:
        engine.apply(batch, Durability.PROCESS_CRASH)
        for key, value in batch.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
    stops = [*bounds[1:], None]
    for start, stop in [(b"", None), *zip(bounds, stops, strict=True), *pairwise(sorted(bounds))]:
        inside = sorted(
            pair for pair in model.items() if start <= pair[0] and (stop is None or pair[0] < stop)
        )

        assert list(engine.scan(start, stop)) == inside
        assert list(engine.scan(start, stop, reverse=True)) == inside[::-1]
        assert engine.first(start, stop) == (inside[0] if inside else None)
        assert engine.last(start, stop) == (inside[-1] if inside else None)
    assert engine.get_many(bounds) == [model.get(key) for key in bounds]


def test_the_longest_keys_come_back(engine: Engine) -> None:
    """Keys of 64 KiB that differ in their last byte only are two keys."""
    head = b"k" * (_LONGEST_KEY_BYTES - 1)
    engine.apply({head + b"2": b"2", head + b"1": b"1", head: b"0"}, Durability.PROCESS_CRASH)

    assert [value for _, value in engine.scan(b"")] == [b"0", b"1", b"2"]
    assert engine.get(head + b"2") == b"2"
    assert engine.last(b"", head + b"2") == (head + b"1", b"1")


def test_deleting_long_keys_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    """With the last key of a layer goes the layer, and the link to it."""
    keys = [b"k" * length + bytes([end]) for length in _LENGTHS for end in range(3)]
    engine.apply(dict.fromkeys(keys, b"v"), Durability.PROCESS_CRASH)
    _clear(engine)
    engine.close()
    with lmdb.open(str(tmp_path / "engine"), max_dbs=2) as environment:
        tables = [environment.open_db(name) for name in (b"pairs", b"tails")]
        with environment.begin() as transaction:
            assert [transaction.stat(table)["entries"] for table in tables] == [0, 0]
