"""What a newcomer gets wrong is told as it is written down, with what to do instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTopologyError,
    InvalidTypeError,
    ProcessingError,
    StoreClosedError,
)
from statestores.processing import (
    DeadLetter,
    LocalRunner,
    LocalTopics,
    Record,
    Topic,
    Topology,
)


def _topic(name: str = "lines") -> Topic[str, Any]:
    return Topic(name, key=ss.utf8, value=ss.json)


def _two_times(shop: Any) -> None:
    shop.stream(_topic(), time="value.a")
    shop.stream(_topic(), time="value.b")


def _global_and_not(shop: Any) -> None:
    shop.stream(_topic())
    shop.global_table(_topic())


def _other_topology(shop: Any) -> None:
    table = Topology("other").table(_topic("rows"))
    shop.stream(_topic()).join(table, lambda one, _: one)
    shop.build()


def _foreign_internal_topic(shop: Any) -> None:
    stream = shop.stream(_topic())
    shop.stream(_topic("shop-counts-repartition"))
    stream.group_by("value", key=ss.utf8).count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))


_MISUSES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    # The second time= was ignored, without a word.
    "two times of one topic": (_two_times, InvalidTopologyError, "with two times"),
    # The table was no global one, without a word.
    "a global table of a stream's topic": (_global_and_not, InvalidTopologyError, "in two ways"),
    # The user's source read what the topology had written for itself.
    "a topic of the topology's own": (_foreign_internal_topic, InvalidTopologyError, "rename one"),
    "a table of another topology": (_other_topology, InvalidTopologyError, "one topology"),
    "merging a table": (
        lambda shop: shop.stream(_topic()).merge(shop.table(_topic("rows"))),
        InvalidTypeError,
        r"to_stream\(\)",
    ),
    "a number for within": (
        lambda shop: shop.stream(_topic()).join(shop.stream(_topic("b")), max, within=60_000),
        InvalidTypeError,
        r"within\(60_000\)",
    ),
    "as of a stream": (
        lambda shop: shop.stream(_topic()).join_as_of(shop.stream(_topic("b")), max),
        InvalidTypeError,
        "joins a table",
    ),
    "dead letters to a name": (
        lambda shop: Topology("shop", errors=DeadLetter("dead")),  # type: ignore[arg-type]
        InvalidTypeError,
        r"Topic\('dead'\)",
    ),
    "no partitions": (
        lambda shop: (shop.stream(_topic()), shop.test(partitions=0)),
        InvalidArgumentError,
        "from 1",
    ),
    "a number for progress": (
        lambda shop: (shop.stream(_topic()), LocalRunner(shop, "s", "t", progress=3)),  # type: ignore[arg-type]
        InvalidTypeError,
        "a function",
    ),
}


@pytest.mark.parametrize("misuse", _MISUSES)
def test_a_misuse_is_told(misuse: str) -> None:
    """By an error of this library, which says the next step."""
    write_down, error, message = _MISUSES[misuse]

    with pytest.raises(error, match=message):
        write_down(Topology("shop"))


@pytest.mark.parametrize(
    "records",
    [[{"a": 1}], Record("k", 1, 1), "abc", [("k", 1, 1)]],
    ids=["values", "one record", "text", "tuples"],
)
def test_what_is_no_record_is_not_appended(records: Any, tmp_path: Path) -> None:
    """Nothing of it is in the topic."""
    with LocalTopics(tmp_path) as topics:
        lines = topics.topic(_topic())
        with pytest.raises(InvalidTypeError, match="an iterable of Records"):
            lines.append(records)

        assert lines.append([]) == lines.end_offset() == 0


def test_a_runner_runs_once(tmp_path: Path) -> None:
    """The second time, a store was said to be closed."""
    shop: Any = Topology("shop")
    shop.stream(_topic()).to(_topic("out"))
    runner = LocalRunner(shop, tmp_path / "s", tmp_path / "t", until="idle")
    runner.run()

    with pytest.raises(InvalidArgumentError, match="make another"):
        runner.run()


def test_a_driver_says_what_it_cannot_do() -> None:
    """A partition beyond the last ended in an IndexError; a closed driver had "no store" words."""
    shop: Any = Topology("shop")
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    shop.stream(_topic()).group_by_key().count(counts)
    with shop.test(partitions=2) as driver:
        lines = driver.topic("lines")
        for partition in (2, -1, "1"):
            with pytest.raises(InvalidArgumentError, match="0 to 1"):
                lines.pipe(1, "k", partition=partition)

    with pytest.raises(StoreClosedError, match="inside the with block"):
        driver.store("counts")
    with pytest.raises(StoreClosedError, match="inside the with block"):
        lines.pipe(1, "k")


def test_a_topology_that_feeds_itself_ends() -> None:
    """A retry topic is fine as long as it comes to an end; without one, a test hung."""
    shop: Any = Topology("shop")
    topic = Topic("lines", key=ss.utf8, value=ss.int64)
    shop.stream(topic).filter(lambda record: record.value != 0).map_values(lambda n: n - 1).to(
        topic
    )
    with shop.test() as driver:
        driver.topic("lines").pipe(3, "k")
        assert [record.value for record in driver.topic("lines").read_all()] == [2, 1, 0]
        with pytest.raises(ProcessingError, match="feeds itself"):
            driver.topic("lines").pipe(-1, "k")


def test_a_path_takes_the_field_and_not_the_method() -> None:
    """`value.items` was the method of the dictionary, so all orders had one key, without a word."""
    shop: Any = Topology("shop")
    shop.stream(_topic(), time="value.get").rekey("value.items", key=ss.utf8).to(_topic("out"))
    with shop.test() as driver:
        driver.topic("lines").pipe({"items": "three", "get": 7}, "k")
        (record,) = driver.topic("out").read_all()
        assert (record.key, record.time_ms) == ("three", 7)
        with pytest.raises(ProcessingError, match=r"'value.items' finds no 'items' in \{'get': 8"):
            driver.topic("lines").pipe({"get": 8}, "k")
