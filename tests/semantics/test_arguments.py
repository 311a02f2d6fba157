"""What a store refuses, and that a refusal changes nothing."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import check_sessions, highest_time, store_names
from statestores.semantics.every_kind.store_options import StoreOptions, split_options
from statestores.semantics.rows.progress import NO_STREAM_TIME
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
@for_each("retention", [-1, 1 << 63])
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


@pytest.mark.spec("COM-19")
@for_each("values", [[b"v", None, 3], [b"v", "v"], [None, bytearray(b"v")]])
def test_a_value_of_another_type_among_many_is_refused(values: list[Any]) -> None:
    """Also beside values and deletions, and nothing of the call is put."""
    keys = [b"%d" % number for number in range(len(values))]
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        with pytest.raises(InvalidTypeError, match="a value is bytes or None, got"):
            store.put_many(keys, values)

        assert list(store.range()) == []


@pytest.mark.spec("COM-34")
@for_each("changes", [None, "changes", ([b"k"], [b"v"])])
def test_only_changes_are_replayed(changes: object) -> None:
    """Two columns are none: they say nothing of times."""
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        with pytest.raises(InvalidTypeError, match=r"changes must be statestores\.Changes, got"):
            store.replay(changes)  # type: ignore[arg-type]  # what is tested

        assert list(store.range()) == []


@pytest.mark.spec("KVS-14")
def test_what_is_put_if_absent_is_called_by_its_type() -> None:
    """Of an ``int`` it was said that ``None`` deletes."""
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        with pytest.raises(InvalidTypeError, match="a value is bytes or None, got"):
            store.put_if_absent(b"k", 3)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(InvalidTypeError, match="put_if_absent needs a value"):
            store.put_if_absent(b"k", None)  # type: ignore[arg-type]  # what is tested


@pytest.mark.spec("COM-19")
@for_each("specification", ["counts", None, ss.KeyValue])
def test_a_store_is_described_by_a_specification(tmp_path: Path, specification: Any) -> None:
    """A name alone does not say of which kind it is."""
    with pytest.raises(InvalidTypeError, match="a store is described by a KeyValue"):
        ss.open_store(tmp_path / "s", specification, backend="memory")

    assert list(tmp_path.iterdir()) == []


@for_each("names", ["counts", None, 3, [b"counts"], ["counts", None]])
def test_names_of_stores_are_a_list_of_texts(names: Any) -> None:
    """One text would be a name for each of its letters."""
    with pytest.raises(InvalidTypeError, match=r"a list of names|named by a str"):
        store_names(names)


def test_names_of_stores_may_come_from_anywhere() -> None:
    """They are looked at once."""
    assert store_names(name for name in ("counts", "sums")) == ["counts", "sums"]


def test_the_highest_of_no_times_is_before_every_other() -> None:
    """It is compared with stream time, which is -1 where there is none."""
    assert highest_time("times_ms", []) == NO_STREAM_TIME


@for_each(
    ("starts_ms", "ends_ms", "bounds"),
    [
        ([], [], None),
        ([0], [0], (0, 0)),
        ([5, 0, 7], [9, 3, 7], (3, 9)),
        ([0, 1], [(1 << 63) - 1, 1], (1, (1 << 63) - 1)),
    ],
)
def test_sessions_that_are_in_order_have_bounds(
    starts_ms: list[int], ends_ms: list[int], bounds: tuple[int, int] | None
) -> None:
    """Without them a put of many is made one by one."""
    assert check_sessions(starts_ms, ends_ms) == bounds


@for_each("options", [["read_cache_bytes"], "rocksdb", 3, {3: "4"}, {"read_cache_bytes": 0, 3: 4}])
def test_options_are_a_mapping_of_names(tmp_path: Path, options: Any) -> None:
    """An error of Python's would say nothing of what they are for."""
    with pytest.raises(InvalidTypeError, match="options must be a mapping with str for names"):
        ss.open_store(tmp_path / "s", ss.KeyValue("s"), backend="memory", options=options)


def test_a_memory_budget_is_the_stores_and_the_engines() -> None:
    """Both take their part of it; all else is given to one of them."""
    budget = ss.MemoryBudget(1 << 20, stores=1)
    chosen, of_engine = split_options(
        {"Memory_Budget": budget, "READ_CACHE_BYTES": "7", "sync": "yes"}
    )

    assert chosen == StoreOptions(read_cache_bytes=7, memory_budget=budget)
    assert of_engine == {"memory_budget": budget, "sync": "yes"}
    assert split_options(None) == (StoreOptions(), {})
    assert split_options({"sync": "yes"}) == (StoreOptions(), {"sync": "yes"})


@pytest.mark.spec("COM-19")
def test_of_two_malformed_ends_the_first_is_named() -> None:
    """As they are checked, from the left."""
    with (
        open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store,
        pytest.raises(InvalidTypeError, match="got 'first'"),
    ):
        store.range("first", "last")  # type: ignore[arg-type]  # what is tested
