"""What a newcomer gets wrong is told as it is written down, with what to do instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
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
