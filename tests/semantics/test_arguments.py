"""What a store refuses, and that a refusal changes nothing."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("COM-19")
def test_an_unknown_durability_commits_nothing() -> None:
    """The message lists what there is, and the writes are still pending."""
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        store.put(b"k", b"v")

        with pytest.raises(InvalidArgumentError, match="'power-loss', 'process-crash'"):
            store.commit({}, durability="fsync")  # type: ignore[arg-type]  # what is tested

        assert store.read_only().get(b"k") is None
        store.commit({}, durability="process-crash")  # type: ignore[arg-type]  # its name will do
        assert store.read_only().get(b"k") == b"v"


@pytest.mark.spec("COM-19")
@for_each("offsets", [None, [], "offsets", 3])
def test_offsets_are_a_mapping(offsets: object) -> None:
    """``commit(None)`` was undefined in Kafka Streams; here it is refused."""
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        store.put(b"k", b"v")

        with pytest.raises(InvalidTypeError, match="offsets must map"):
            store.commit(offsets)  # type: ignore[arg-type]  # what is tested

        assert store.get(b"k") == b"v"
        assert store.read_only().get(b"k") is None


@pytest.mark.spec("COM-19")
@for_each("name", ["", ".", "..", ".checkpoint", "a/b", "a" * 250, "ö", "a b"])
def test_a_name_that_cannot_be_a_topics_is_refused(name: str) -> None:
    """It becomes part of a directory and of the changelog's name."""
    with pytest.raises(InvalidArgumentError, match="store's name"):
        ss.KeyValue(name)


@pytest.mark.spec("COM-19")
@pytest.mark.parametrize("retention", [-1, 1 << 63])
def test_a_retention_out_of_bounds_is_refused(retention: int) -> None:
    """From zero to the largest int64."""
    with pytest.raises(InvalidArgumentError, match="history_retention_ms"):
        ss.Versioned("s", history_retention_ms=retention)


@pytest.mark.spec("COM-19")
def test_a_mistyped_retention_is_refused() -> None:
    """A float of seconds is the usual mistake."""
    with pytest.raises(InvalidTypeError, match="must be an int"):
        ss.Versioned("s", history_retention_ms=1.5)  # type: ignore[arg-type]  # as said


@pytest.mark.spec("COM-19")
@for_each("start_ms", [-1, 1 << 63, "0", None, 1.0])
def test_a_malformed_start_of_a_window_is_called_by_its_name(start_ms: object) -> None:
    """The error says which argument it is, and what it was."""
    window = ss.Window("w", retention_ms=50, window_size_ms=10)
    with (
        open_on_engine(load_backend("memory").open("unused"), window) as store,
        pytest.raises((InvalidArgumentError, InvalidTypeError), match="window_start_ms must"),
    ):
        store.put(b"k", b"v", start_ms)  # type: ignore[arg-type]  # what is tested


def test_a_cache_of_negative_size_is_refused(tmp_path: Path) -> None:
    """It would hold nothing, and say so to nobody."""
    with pytest.raises(InvalidOptionError, match="'read_cache_bytes' must be at least 0, got -1"):
        ss.open_store(
            tmp_path / "s", ss.KeyValue("s"), backend="memory", options={"read_cache_bytes": -1}
        )


def test_a_cache_of_no_size_is_none(tmp_path: Path) -> None:
    """Whoever wants each read to ask the engine says so."""
    with ss.open_store(
        tmp_path / "s", ss.KeyValue("s"), backend="memory", options={"read_cache_bytes": 0}
    ) as store:
        store.put(b"k", b"v")
        store.commit({})

        assert store.get(b"k") == b"v"


def test_a_store_shows_where_it_is(tmp_path: Path) -> None:
    """In logs of a process with many of them; one over an engine has no place that it knows."""
    with ss.open_store(tmp_path / "s", ss.KeyValue("s"), backend="sqlite") as store:
        assert repr(store) == (
            f"<key-value store 's', sqlite in {str(tmp_path / 's')!r}, 0 bytes pending>"
        )
    assert repr(store).endswith(", closed>")
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        assert repr(store) == "<key-value store 's', memory, 0 bytes pending>"


@for_each(("backend", "expected"), [("memory", False), ("rocksdb", True)])
def test_a_store_says_whether_its_engine_takes_rows_in_bulk(
    tmp_path: Path, backend: str, *, expected: bool
) -> None:
    """A restore goes by it: sorted files are worth making of many rows, batches of few."""
    pytest.importorskip("rocksdict", reason="the driver of the rocksdb backend is not installed")
    store: Any
    with ss.open_store(tmp_path / backend, ss.KeyValue("s"), backend=backend) as store:
        assert store.ingests is expected
