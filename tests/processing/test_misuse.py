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
    StateStoreError,
    StoreClosedError,
)
from statestores.processing import (
    Context,
    DeadLetter,
    LocalRunner,
    LocalTopics,
    Processor,
    Record,
    Topic,
    Topology,
)
from statestores_conformance.many_cases import for_each


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


def _counts(name: str = "counts") -> Any:
    return ss.KeyValue(name, key=ss.utf8, value=ss.int64)


class _NoProcess(Processor[str, Any, str, Any]):
    """Has forgotten what it is for."""


class _WithArgument(Processor[str, Any, str, Any]):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def process(self, record: Record[str, Any]) -> None:
        pass


def _shared_processor(shop: Any) -> None:
    one = _Forwarding()
    shop.stream(_topic()).process(lambda: one, name="one")
    with shop.test(partitions=2):
        pass


class _Forwarding(Processor[str, Any, str, Any]):
    def process(self, record: Record[str, Any]) -> None:
        self.forward(record)


def _own_letters() -> Topology:
    made = Topology("shop", errors=DeadLetter(Topic("dead")))
    made.stream(Topic("dead"))
    return made


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
    # A letter that fails became a letter again, without end.
    "its own dead letters": (
        lambda _: _own_letters().build(),
        InvalidTopologyError,
        "a topology of its own",
    ),
    "no partitions": (
        lambda shop: (shop.stream(_topic()), shop.test(partitions=0)),
        InvalidArgumentError,
        "from 1",
    ),
    # These failed at the first record, with a TypeError about a lambda.
    "filter by key and value": (
        lambda shop: shop.stream(_topic()).filter(lambda key, value: True),
        InvalidTypeError,
        r"filter needs a function of \(record\).* takes \(key, value\).* a record has key, value",
    ),
    "map of nothing": (
        lambda shop: shop.stream(_topic()).map(lambda: 1),
        InvalidTypeError,
        r"map needs a function of \(record\)",
    ),
    "map_values of key and value": (
        lambda shop: shop.stream(_topic()).map_values(lambda key, value: value),
        InvalidTypeError,
        r"map_values needs a function of \(value\)",
    ),
    "flat_map of key and value": (
        lambda shop: shop.stream(_topic()).flat_map(lambda key, value: [value]),
        InvalidTypeError,
        r"flat_map needs a function of \(record\)",
    ),
    "split by key and value": (
        lambda shop: shop.stream(_topic()).split(lambda key, value: True),
        InvalidTypeError,
        r"split needs a function of \(record\)",
    ),
    "a time of key and value": (
        lambda shop: shop.stream(_topic(), time=lambda key, value: 1),
        InvalidTypeError,
        r"a selector needs a function of \(record\)",
    ),
    "a fold in Kafka's order": (
        lambda shop: (
            shop.stream(_topic()).group_by_key().aggregate(0, lambda key, value, sum_: 1, _counts())
        ),
        InvalidTypeError,
        r"an aggregate needs a function of \(aggregate, value\)",
    ),
    "a beginning that wants a key": (
        lambda shop: shop.stream(_topic()).group_by_key().aggregate(lambda key: 0, max, _counts()),
        InvalidTypeError,
        r"initial needs a function of \(\)",
    ),
    "a reducer of one": (
        lambda shop: shop.stream(_topic()).group_by_key().reduce(lambda value: value, _counts()),
        InvalidTypeError,
        r"reduce needs a function of \(aggregate, value\)",
    ),
    "a joiner of keys": (
        lambda shop: shop.stream(_topic()).join(
            shop.table(_topic("rows")), lambda key, one, other: one
        ),
        InvalidTypeError,
        r"a joiner needs a function of \(value, other\)",
    ),
    "a joiner of tables of one": (
        lambda shop: shop.table(_topic()).join(shop.table(_topic("rows")), lambda one: one),
        InvalidTypeError,
        r"a joiner needs a function of \(value, other\)",
    ),
    "a foreign key of key and value": (
        lambda shop: shop.table(_topic()).join(
            shop.table(_topic("rows")), max, foreign_key=lambda key, value: value
        ),
        InvalidTypeError,
        r"foreign_key needs a function of \(value\)",
    ),
    "a table's filter by key and value": (
        lambda shop: shop.table(_topic()).filter(lambda key, value: True),
        InvalidTypeError,
        r"filter needs a function of \(record\)",
    ),
    # The error was Python's: an abstract class, or a missing argument, when a task was made.
    "a processor without process": (
        lambda shop: shop.stream(_topic()).process(_NoProcess),
        InvalidTypeError,
        r"has no process\(self, record\)",
    ),
    "a processor that needs an argument": (
        lambda shop: shop.stream(_topic()).process(_WithArgument),
        InvalidTypeError,
        r"process needs a function of \(\).* takes \(limit",
    ),
    "a class that is no processor": (
        lambda shop: shop.stream(_topic()).process(dict),
        InvalidTypeError,
        "a processor is a statestores.processing.Processor",
    ),
    "a processor that is made": (
        lambda shop: shop.stream(_topic()).process(_Forwarding()),
        InvalidTypeError,
        "hand over its class",
    ),
    # The tasks had the stores, the context and the partition of the last one, without a word.
    "one processor for all tasks": (_shared_processor, InvalidTypeError, "each task needs its own"),
    # A store of bytes was opened under the name, and the first record was no bytes.
    "a store of the task's own name": (
        lambda shop: (
            shop.stream(_topic()).group_by_key().count(_counts("lines-task")),
            shop.build(),
        ),
        InvalidTopologyError,
        "times and timers; give it another name",
    ),
    "a partitioner that nobody has registered": (
        lambda shop: (shop.stream(_topic()).repartition("a", partitioner="md5"), shop.build()),
        InvalidTopologyError,
        "'shop-a-repartition' cannot be partitioned: .*register_partitioner",
    ),
    # Topics and tasks lay between each other.
    "one directory for state and topics": (
        lambda shop: (shop.stream(_topic()), LocalRunner(shop, "data", "./data")),
        InvalidArgumentError,
        "a directory each",
    ),
    "a number for progress": (
        lambda shop: (shop.stream(_topic()), LocalRunner(shop, "s", "t", progress=3)),  # type: ignore[arg-type]
        InvalidTypeError,
        "a function",
    ),
}


@for_each("misuse", _MISUSES)
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


class _Wrong(Processor[str, Any, str, Any]):
    """Does what its subclass says, in the place that it says."""

    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)

    def process(self, record: Record[str, Any]) -> None:
        """Nothing; a subclass does."""


class _ForwardsInOpen(_Wrong):
    def open(self, context: Context[str, Any]) -> None:
        context.forward(Record("k", 1, 1))


class _AsksTooEarly(_Wrong):
    def __init__(self) -> None:
        self.store(self.counts)


class _AsksByName(_Wrong):
    def process(self, record: Record[str, Any]) -> None:
        self.store("counts")  # type: ignore[call-overload]


class _AsksForAnother(_Wrong):
    def process(self, record: Record[str, Any]) -> None:
        self.store(ss.KeyValue("other"))


class _ForwardsAValue(_Wrong):
    def process(self, record: Record[str, Any]) -> None:
        self.forward(record.value)


class _ForwardsToNobody(_Wrong):
    def process(self, record: Record[str, Any]) -> None:
        self.forward(record, to="nobody")


class _TimesNothing(_Wrong):
    def open(self, context: Context[str, Any]) -> None:
        context.every(10, lambda: None)  # type: ignore[arg-type,misc]


_WRONG: dict[type[_Wrong], str] = {
    # It ended in a KeyError of the driver, or in nothing.
    _ForwardsInOpen: r"can forward in process\(record\) and in a timer",
    _AsksTooEarly: r"no stores yet: they can be had from open\(context\) on",
    _AsksByName: r"self.store\(self.counts\), got 'counts'",
    _AsksForAnother: "has not declared the store 'other'; it has declared: counts",
    # It ended in an error of the sink, about unpacking.
    _ForwardsAValue: r"can forward a Record, such as record.with_value\(...\), got 1",
    _ForwardsToNobody: "has no child 'nobody'; it has: _ForwardsToNobody.to-out",
    _TimesNothing: r"a timer needs a function of \(now_ms\)",
}


@for_each("wrong", _WRONG)
def test_a_processor_is_told_what_it_cannot_do(wrong: type[_Wrong]) -> None:
    """By an error of this library, with the operator's name."""
    shop: Any = Topology("shop")
    shop.stream(_topic()).process(wrong).to(_topic("out"))

    with pytest.raises(StateStoreError, match=_WRONG[wrong]), shop.test() as driver:
        driver.topic("lines").pipe(1, "k")


def test_a_processor_forwards_nothing_once_it_is_closed() -> None:
    """It went to a topic of a driver that was over, without a word."""
    made = []

    def make() -> _Forwarding:
        made.append(_Forwarding())
        return made[-1]

    shop: Any = Topology("shop")
    shop.stream(_topic()).process(make).to(_topic("out"))
    with shop.test() as driver:
        driver.topic("lines").pipe(1, "k")

    with pytest.raises(InvalidArgumentError, match="not in"):
        made[-1].forward(Record("k", 1, 1))


@for_each("given", ["abc", b"abc", {"a": 1}, Record("k", 1, 1), None])
@for_each("step", ["flat_map", "flat_map_values"])
def test_one_thing_is_not_several(step: str, given: Any) -> None:
    """The letters of a text, the keys of a dictionary, a record's fields became values."""
    shop: Any = Topology("shop")
    getattr(shop.stream(_topic()), step)(lambda _: given).to(_topic("out"))
    with shop.test() as driver, pytest.raises(ProcessingError, match=r"for one, and \[\] for none"):
        driver.topic("lines").pipe(1, "k")


@for_each(
    "headers", [{"trace": b"1"}, [("trace", b"1")], (("trace", "1"),), (("trace",),), "trace"]
)
def test_headers_are_pairs_of_a_name_and_bytes(headers: Any) -> None:
    """A dictionary went on its way, and a runner wrote something else, or failed later."""
    shop: Any = Topology("shop")
    shop.stream(_topic()).map(lambda record: record._replace(headers=headers)).to(_topic("out"))
    with shop.test() as driver:
        with pytest.raises(InvalidTypeError, match="a tuple of pairs"):
            driver.topic("lines").pipe(1, "k", headers=headers)
        with pytest.raises(ProcessingError, match=r"\('trace', b'1'\)"):
            driver.topic("lines").pipe(1, "k")
