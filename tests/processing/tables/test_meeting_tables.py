"""Joins of tables of which both sides follow one table: a change reaches them twice."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import statestores as ss
from statestores.processing import Processor, Record, Table, Topic, Topology

ROWS = Topic("rows", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
GROUPS = Topic("groups", key=ss.utf8, value=ss.int64)

Sides = tuple[Table[str, int], Table[str, int]]


def _store(name: str) -> Any:
    return ss.KeyValue(name, key=ss.utf8, value=ss.int64)


def _itself(table: Table[str, int]) -> Sides:
    return table, table


def _halves(table: Table[str, int]) -> Sides:
    return table.filter(lambda row: row.value % 2), table.filter(lambda row: row.value > 3)


def _a_kept_side(table: Table[str, int]) -> Sides:
    return table, table.map_values(lambda value: value * 10, _store("tens"))


def _a_kept_side_first(table: Table[str, int]) -> Sides:
    kept = table.map_values(lambda value: value * 10, _store("tens"))
    return table, kept.filter(lambda row: row.value > 20)


def _a_join_of_it(table: Table[str, int]) -> Sides:
    return table.join(table, lambda one, other: one + other).map_values(
        lambda value: value, value=ss.int64
    ), table


def _what_waits(table: Table[str, int]) -> Sides:
    return table, table.suppress(wait_ms=0)


Naive = Callable[[int], tuple[int | None, int | None]]

MEETING: list[tuple[Callable[[Table[str, int]], Sides], Naive]] = [
    (_itself, lambda value: (value, value)),
    (_halves, lambda value: (value if value % 2 else None, value if value > 3 else None)),
    (_a_kept_side, lambda value: (value, value * 10)),
    (_a_kept_side_first, lambda value: (value, value * 10 if value > 2 else None)),
    (_a_join_of_it, lambda value: (value * 2, value)),
    (_what_waits, lambda value: (value, value)),
]
"""Sides of joins, and what both have of a row with a value."""

CHANGES: list[tuple[str, int | None]] = [
    *(("a", 5), ("b", 4), ("c", 2), ("a", 7), ("b", 3), ("c", None), ("d", 9), ("d", None)),
    *(("e", 1), ("e", 4), ("f", 8), ("f", 2)),
]


def _joined(one: int | None, other: int | None) -> int:
    return (one or 0) + 1000 * (other or 0)


def _topology(
    sides: Callable[[Table[str, int]], Sides], how: Any, store: Any, made: Topology | None = None
) -> Topology:
    made = made or Topology("t")
    left, right = sides(made.table(ROWS, _store("kept")))
    both = left.join(right, _joined, store, how=how, name="both")
    both.to(OUT)
    both.group_by(lambda _: "all", "value", key_serde=ss.utf8, value_serde=ss.int64).aggregate(
        0, lambda total, value: total + value, lambda total, value: total - value, _store("sum")
    ).to(GROUPS)
    return made


def _last(topology: Topology) -> tuple[dict[str, int], int]:
    """Return the rows that the topic ends with, and the last sum of them."""
    with topology.test() as driver:
        for at, (key, value) in enumerate(CHANGES):
            driver.topic("rows").pipe(value, key=key, time_ms=at)
        rows = {row.key: row.value for row in driver.topic("out").read_all()}
        sums = [row.value for row in driver.topic("groups").read_all()]
    return {key: value for key, value in rows.items() if value is not None}, sums[-1]


def _wanted(naive: Naive, how: str) -> tuple[dict[str, int], int]:
    rows = {key: value for key, value in dict(CHANGES).items() if value is not None}
    joined = {}
    for key, (one, other) in ((key, naive(value)) for key, value in rows.items()):
        has_left, has_right = one is not None, other is not None
        if {"inner": has_left and has_right, "left": has_left}.get(how, has_left or has_right):
            joined[key] = _joined(one, other)
    return joined, sum(joined.values())


@pytest.mark.spec("PRC-44", "PRC-83")
@pytest.mark.parametrize(("sides", "naive"), MEETING)
def test_a_join_of_what_follows_one_table_ends_with_its_rows(
    sides: Callable[[Table[str, int]], Sides], naive: Naive, subtests: pytest.Subtests
) -> None:
    """`table.join(table, ...)` never deleted a row, and sums of such joins were wrong for ever.

    The left side looked the right row up, which was that of the same change already: of a row that
    goes nothing came out, since there was no other; and what the row had been was made of the new
    one, so an aggregate took out what it had never added.
    """
    hows: Any = ("inner", "left", "outer")
    for how, store in product(hows, (None, _store("own"))):
        with subtests.test(how=how, store=store):
            found = _last(_topology(sides, how, store))

            assert found == _wanted(naive, how)


class _Asking(Processor[str, int, str, int]):
    """Has the table's store."""

    rows = ss.TimestampedKeyValue("kept", key=ss.utf8, value=ss.int64)

    def process(self, record: Record[str, int]) -> None:
        self.forward(record)


@pytest.mark.spec("PRC-44", "PRC-83")
def test_a_processor_that_was_there_before_the_table_changes_nothing() -> None:
    """The first step with the table's store was taken for the table, and that was the processor.

    Nobody knew of the table then that its changes reach both sides, and no row was ever deleted.
    """
    made = Topology("t")
    made.stream(Topic("questions", key=ss.utf8, value=ss.int64)).process(_Asking)

    found = _last(_topology(_itself, "inner", None, made))

    assert found == _wanted(lambda value: (value, value), "inner")


@pytest.mark.spec("PRC-44")
def test_a_row_that_never_was_is_not_deleted() -> None:
    """A join that keeps its rows knows what has come out."""
    with _topology(_halves, "inner", None).test() as driver:
        for at, (key, value) in enumerate([("a", 2), ("a", None), ("b", None)]):
            driver.topic("rows").pipe(value, key=key, time_ms=at)

        assert driver.topic("out").read_all() == []


@pytest.mark.spec("PRC-5", "PRC-44")
def test_joins_of_other_tables_keep_no_rows() -> None:
    """A store is there where a change comes twice, and nowhere else: states stay as they are."""
    made = Topology("t")
    left = made.table(ROWS, _store("kept"))
    right = made.table(Topic("more", key=ss.utf8, value=ss.int64), _store("others"))
    left.filter(lambda row: row.value > 1).join(right, _joined, name="apart")
    left.join(right, _joined, foreign_key=str, name="named").to(OUT)
    again = left.to_stream().repartition("again", key=ss.utf8, value=ss.int64)
    again.to_table(_store("copied")).join(left, _joined, name="later").to(GROUPS)

    assert [name for name in made.build().stores if name.endswith("-rows")] == []
