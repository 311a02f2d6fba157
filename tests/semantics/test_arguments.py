"""What a store refuses, and that a refusal changes nothing."""

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError
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
