"""The stores that a processor's class declares, and those of its base classes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidTopologyError,
    InvalidTypeError,
    ProcessingError,
    StoreNotFoundError,
    TopologyMismatchError,
)
from statestores.processing import LocalTopics, Processor, Record, Topic, Topology, run
from statestores.processing.processor import declared_stores
from statestores_conformance.many_cases import for_each

LINES = Topic("lines", key=ss.utf8, value=ss.utf8, partitions=1)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _run(topology: Topology, tmp_path: Path) -> Any:
    return run(
        topology,
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        until="idle",
        backend="memory",
    )


def _append(tmp_path: Path, *keys: str) -> None:
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(LINES).append(Record(key, key, at) for at, key in enumerate(keys))


class _Counted(Processor[str, Any, str, Any]):
    kept = ss.KeyValue("counted", key=ss.utf8, value=ss.int64)
    names = ss.KeyValue("names", key=ss.utf8, value=ss.utf8)

    def process(self, record: Record[str, Any]) -> None:
        self.store(self.kept).put(record.key, 1)


class _Listed(_Counted):
    kept = ss.KeyValue("listed", key=ss.utf8, value=ss.int64)


class _Unnamed(_Listed):
    names = None  # type: ignore[assignment]  # a processor without it


class _ListedAfterBoth(_Listed):
    kept_before = _Counted.kept


def _processed(kind: type[Processor[str, Any, str, Any]]) -> Topology:
    made = Topology("kept")
    made.stream(LINES).process(kind, name="keep")
    return made


@pytest.mark.spec("PRC-107")
def test_an_attribute_of_a_subclass_takes_the_place_of_a_store() -> None:
    """A user's subclass kept its rows in another store, and had that of its base class as well.

    Nothing in the subclass could name it, and it was opened, restored and served, always empty:
    stores were collected by their own names, and not by those of the attributes.
    """
    found = {
        kind: [store.name for store in declared_stores(kind).values()]
        for kind in (_Counted, _Listed, _Unnamed, _ListedAfterBoth)
    }

    assert found == {
        _Counted: ["counted", "names"],
        _Listed: ["listed", "names"],
        _Unnamed: ["listed"],
        _ListedAfterBoth: ["listed", "names", "counted"],
    }


@pytest.mark.spec("PRC-107", "PRC-6")
def test_a_state_with_the_store_of_a_base_class_says_how_to_go_on(tmp_path: Path) -> None:
    """Nothing is lost: the subclass declares the store by another attribute."""
    _append(tmp_path, "a")
    _run(_processed(_ListedAfterBoth), tmp_path)  # what an earlier release made of _Listed
    with pytest.raises(TopologyMismatchError, match=r"store 'counted' is gone.*another attribute"):
        _run(_processed(_Listed), tmp_path)
    _append(tmp_path, "b")
    _run(_processed(_ListedAfterBoth), tmp_path)
    with ss.open_logged_store(ss.StateRoot.open(tmp_path / "state"), "listed", 0) as listed:
        kept = dict(listed.store.range())

    assert kept == {"a": 1, "b": 1}


_COUNTS = ss.KeyValue("kept", key=ss.utf8, value=ss.int64)
_TEXTS = ss.KeyValue("kept", key=ss.utf8, value=ss.utf8)


class _Twice(Processor[str, Any, str, Any]):
    counts = _COUNTS
    texts = _TEXTS

    def process(self, record: Record[str, Any]) -> None:
        self.store(self.counts).put(record.key, 1)


class _OnceByTwoNames(Processor[str, Any, str, Any]):
    counts = _COUNTS
    same = ss.KeyValue("kept", key=ss.utf8, value=ss.int64)

    def process(self, record: Record[str, Any]) -> None:
        self.store(self.counts).put(record.key, 1)
        self.forward(record.with_value(self.store(self.same).get(record.key)))


class _AsksForAnother(Processor[str, Any, str, Any]):
    counts = _COUNTS

    def process(self, record: Record[str, Any]) -> None:
        self.store(_TEXTS).put(record.key, record.value)


@pytest.mark.spec("PRC-3")
def test_one_processor_gives_a_store_one_description() -> None:
    """Two attributes named one store, of numbers and of texts, and the last of them was opened.

    Which one that is nobody said; `self.store(self.counts)` was then a store of texts.
    """
    with pytest.raises(
        InvalidTopologyError, match=r"'_Twice' .*attribute 'counts' as .*attribute 'texts' as"
    ):
        Topology("kept").stream(LINES).process(_Twice)


@pytest.mark.spec("PRC-3")
@for_each("kind", [_AsksForAnother, partial(_AsksForAnother)])
def test_what_is_given_beside_the_class_counts_as_well(kind: Any) -> None:
    """A list of stores replaced what it named twice, and the class's attributes the list."""
    stores: list[Any] = [_TEXTS] if kind is _AsksForAnother else [_TEXTS, _COUNTS]

    with pytest.raises(InvalidTopologyError, match=r"'keep' .*stores\[0\] as .*another name"):
        Topology("kept").stream(LINES).process(kind, name="keep", stores=stores)


@pytest.mark.spec("PRC-3")
def test_a_list_of_names_is_told_what_a_store_is() -> None:
    """It was an AttributeError."""
    with pytest.raises(InvalidTypeError, match=r"stores\[0\] of 'keep' is 'kept'"):
        Topology("kept").stream(LINES).process(
            partial(_AsksForAnother),
            name="keep",
            stores=["kept"],  # type: ignore[list-item]  # what is wrong here
        )


@pytest.mark.spec("PRC-3")
def test_one_description_may_have_two_attributes() -> None:
    """Either asks for the one store."""
    made = Topology("kept")
    made.stream(LINES).process(_OnceByTwoNames).to(Topic("out", key=ss.utf8, value=ss.int64))
    with made.test() as driver:
        driver.topic("lines").pipe("a", key="a", time_ms=1)
        found = driver.topic("out").read().value

    assert found == 1


@pytest.mark.spec("PRC-16")
def test_a_store_is_asked_for_by_what_declares_it() -> None:
    """The store of numbers came for a declaration of texts: only the name was looked at."""
    with (
        _processed(_AsksForAnother).test() as driver,
        pytest.raises(ProcessingError, match="ask for it by what declares it") as failed,
    ):
        driver.topic("lines").pipe("a", key="a", time_ms=1)

    assert isinstance(failed.value.__cause__, StoreNotFoundError)
