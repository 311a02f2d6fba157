"""Functions of tables that fail for a row, where the policy is to go on (PRC-100, PRC-101)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statestores as ss
from statestores.errors import ProcessingError
from statestores.processing import DeadLetter, Record, Topic, Topology

ROWS = Topic("rows", key=ss.utf8, value=ss.json)
OTHERS = Topic("others", key=ss.utf8, value=ss.json)
OUT = Topic("out", key=ss.utf8, value=ss.json)
BAD = 9


def _good(value: int) -> int:
    if value == BAD:
        raise ValueError("a bad row")
    return value


def _store(name: str) -> ss.KeyValue[str, Any]:
    return ss.KeyValue(name, key=ss.utf8, value=ss.json)


def _summed(table: Any) -> Any:
    return table.group_by(lambda record: "all", key_serde=ss.utf8).sum("value", _store("sums"))


def _joined(table: Any, topology: Topology, **more: Any) -> Any:
    others = topology.table(OTHERS, _store("others"))
    return table.join(others, lambda row, other: _good(row) + (other or 0), how="left", **more)


WAYS: dict[str, Any] = {
    "map": lambda table, topology: _summed(table.map_values(_good)),
    "map, kept": lambda table, topology: _summed(table.map_values(_good, _store("kept"))),
    "filter": lambda table, topology: _summed(
        table.filter(lambda record: _good(record.value) >= 0)
    ),
    "group": lambda table, topology: table.group_by(
        lambda record: (_good(record.value) and "all") or "all", key_serde=ss.utf8
    ).sum("value", _store("sums")),
    "select": lambda table, topology: table.group_by(lambda record: "all", key_serde=ss.utf8).sum(
        lambda record: _good(record.value), _store("sums")
    ),
    "add": lambda table, topology: table.group_by(
        lambda record: "all", key_serde=ss.utf8
    ).aggregate(
        int,
        lambda total, value: total + _good(value),
        lambda total, value: total - _good(value),
        _store("sums"),
    ),
    "join": lambda table, topology: _summed(_joined(table, topology)),
    "join, twice": lambda table, topology: _summed(
        _joined(table, topology).join(
            topology.table(Topic("none", key=ss.utf8, value=ss.json), _store("none")),
            lambda row, other: row,
            how="left",
        )
    ),
    "foreign key": lambda table, topology: _summed(
        _joined(table, topology, foreign_key=lambda value: "a")
    ),
    "names no other": lambda table, topology: _summed(
        table.join(
            topology.table(OTHERS, _store("others")),
            lambda row, other: row,
            foreign_key=lambda value: (_good(value) and "a") or "a",
        )
    ),
}

_rows = st.lists(
    st.tuples(
        st.sampled_from(["rows", "rows", "others"]),
        st.sampled_from("ab"),
        st.sampled_from([1, 2, BAD, BAD, None]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.spec("PRC-9", "PRC-100")
@settings(max_examples=max(1, settings().max_examples // 2))
@given(way=st.sampled_from(sorted(WAYS)), rows=_rows, size=st.sampled_from([1, 2, 5]))
def test_a_row_at_which_a_function_fails_is_none(way: str, rows: Any, size: int) -> None:
    """A sum once took out what it had never added, or kept what nobody took out any more.

    When a row failed, what it had been stayed in the sum; when the next one came, the function
    failed for what it was, and the sum never changed with that row again.
    """
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    for topic, key, value in rows:
        if topic == "rows":
            left[key] = value
        else:
            right[key] = None if value == BAD else value
    good = {key: value for key, value in left.items() if value not in (None, BAD)}
    expected = sum(good.values())
    if way.startswith("join"):
        expected += sum(right.get(key) or 0 for key in good)
    elif way == "foreign key":
        expected += len(good) * (right.get("a") or 0)
    elif way == "names no other" and right.get("a") is None:
        expected = 0
    has_others = way.startswith(("join", "foreign", "names"))
    found = {}
    for how in ("least_column_rows", "least_run_rows"):
        topology = Topology("failing", errors="skip")
        WAYS[way](topology.table(ROWS, _store("table")), topology).to(OUT)
        with topology.test() as driver:
            driver.to_batches(size, **{how: 1})
            for time_ms, (topic, key, value) in enumerate(rows):
                if topic == "rows" or has_others:
                    given = None if topic == "others" and value == BAD else value
                    driver.topic(topic).pipe(given, key=key, time_ms=time_ms)
            driver.settle()
            found[how] = driver.store("sums").get("all") or 0

    assert found == dict.fromkeys(found, expected)


def _limited(total: int, value: int) -> int:
    if total + value > BAD:
        raise ValueError("beyond the limit")
    return total + value


FOLDS: dict[str, tuple[Any, Any, Any]] = {
    "added": (_limited, lambda total, value: total - value, ss.json),
    "taken out": (
        lambda total, value: total + value,
        lambda total, value: _limited(total, BAD + 1),
        ss.json,
    ),
    "stored": (
        lambda total, value: total + value * (1 << 60),
        lambda total, value: total - value * (1 << 60),
        ss.int64,
    ),
}


@pytest.mark.spec("PRC-101")
@pytest.mark.parametrize("what", sorted(FOLDS))
def test_an_aggregate_that_would_go_wrong_stops_the_task(what: str) -> None:
    """What can be taken out and not be added was taken out later: no policy goes on with that."""
    add, subtract, serde = FOLDS[what]
    topology = Topology("failing", errors="skip")
    groups: Any = topology.table(ROWS, _store("table")).group_by(
        lambda record: "all", key_serde=ss.utf8
    )
    groups.aggregate(int, add, subtract, ss.KeyValue("sums", key=ss.utf8, value=serde))
    with topology.test() as driver:
        driver.topic("rows").pipe(7, key="a", time_ms=1)
        with pytest.raises(ProcessingError, match="so no error policy goes on"):
            driver.topic("rows").pipe_all([Record("b", 5, 2), Record("a", 1, 3)])


@pytest.mark.spec("PRC-94", "PRC-100")
def test_a_value_without_a_place_is_in_no_extreme() -> None:
    """What it takes the place of goes, and it is nothing that would have to go later."""
    topology = Topology("failing", errors="skip")
    groups: Any = topology.table(ROWS, _store("table")).group_by(
        lambda record: "all", key_serde=ss.utf8
    )
    groups.min("value", _store("lowest")).to(OUT)
    with topology.test() as driver:
        for time_ms, (key, value) in enumerate([("a", 1), ("b", 2), ("a", [1]), ("a", 3)]):
            driver.topic("rows").pipe(value, key=key, time_ms=time_ms)

        assert [each.value for each in driver.topic("out").read_all()] == [1, 1, 2, 2]
        assert driver.dropped_total == 1


_INTS = Topic("out", key=ss.utf8, value=ss.int64)
DROPPING: dict[str, Any] = {
    "function of a stream": lambda table: (
        table.to_stream().map_values(_good, value=ss.json).to(OUT)
    ),
    "function of a table": lambda table: table.map_values(_good).to(OUT),
    "store of a table": lambda table: table.map_values(
        lambda value: value, ss.KeyValue("numbers", key=ss.utf8, value=ss.int64)
    ).to(OUT),
    "topic of other values": lambda table: table.to_stream().to(_INTS),
    "topic": lambda table: table.to(OUT),
    "topic of other keys": lambda table: table.to_stream().to(
        Topic("out", key=ss.int64, value=ss.json)
    ),
}
"""What may drop an update: its function, its store, or its topic."""

_DEAD = Topic("dead")


def _through(way: str, values: list[Any], size: int, cache_max_bytes: int) -> Any:
    """Return what comes out, which letters are written, and what was dropped."""
    topology = Topology("failing", errors=DeadLetter(_DEAD))
    DROPPING[way](topology.table(ROWS, _store("table")))
    with topology.test(cache_max_bytes=cache_max_bytes) as driver:
        driver.to_batches(size, least_column_rows=1)
        driver.topic("rows").pipe_all([Record("a", value, 1) for value in values])
        driver.settle()
        out = [(each.value, each.time_ms) for each in driver.topic("out").read_all()]
        letters = [dict(each.headers) for each in driver.topic("dead").read_bytes()]
        offsets = [each["__streams.errors.offset"] for each in letters]
        return out, offsets, [each.dropped for each in driver.counts]


@pytest.mark.spec("PRC-9", "PRC-55", "PRC-56", "PRC-82", "PRC-103")
def test_an_update_that_is_dropped_does_not_stand_for_the_others(
    subtests: pytest.Subtests,
) -> None:
    """The last update of a batch was dropped behind it, and the one before had been left out.

    First that was mended for functions of streams. A topic or a store that could not encode the
    last update lost the one before as well; and a record whose update failed, and was not the last
    of its batch, was in no letter.
    """
    for way in DROPPING.keys() - {"topic"}:
        for values in ([1, BAD], [BAD, 1], [1, "text"], ["text", 1]):
            one_by_one = _through(way, values, 1, 0)
            for cache_max_bytes in (0, 1 << 20):
                with subtests.test(way, values=values, cache_max_bytes=cache_max_bytes):
                    assert _through(way, values, 2, cache_max_bytes) == one_by_one
    with subtests.test("a topic of the store's own serdes, which drops none"):
        assert _through("topic", [1, 2], 2, 0) == ([(2, 1)], [], [{}])
