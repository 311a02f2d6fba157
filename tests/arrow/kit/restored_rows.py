"""What the engine of a store holds after it was restored, and steps that a store lives through."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from statestores.changelog.rows import change_schema
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA
from statestores.spi import (
    Durability,
    TopicPartition,
)

LOG = TopicPartition("live-changelog", 0)


KEYS = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"b", b"\xff", b"\xff\xff" * 9])


_VALUES = st.none() | st.binary(max_size=3)


_PUT = st.tuples(st.just("put"), KEYS, _VALUES, st.integers(0, 60))


STEPS = st.lists(
    st.one_of(_PUT, _PUT, _PUT, _PUT, st.just(("commit",)), st.just(("clear",))), max_size=50
)


def open_bare(specification: Any, backend: str = "memory", path: str | Path = "unused") -> Any:
    """Open a store without a changelog on a new engine."""
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)


def rows_of(store: Any) -> list[tuple[bytes, bytes]]:
    """Return everything that the engine of *store* holds."""
    return list(store._engine.scan(b"\x00"))


def data_of(store: Any) -> list[tuple[bytes, bytes]]:
    """Return the rows of the engine of *store* that are not about the store itself."""
    return [row for row in rows_of(store) if row[0] >= DATA]


def plain_changes(*rows: tuple[bytes, bytes | None]) -> pa.RecordBatch:
    """Return changes of a key-value store, as a changelog has them."""
    schema = change_schema("key-value")
    return pa.RecordBatch.from_pylist([{"key": k, "value": v} for k, v in rows], schema)
