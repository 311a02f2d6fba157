"""What fails for one record takes no other with it, where the policy is to go on (PRC-98)."""

from typing import Any

import pytest

import statestores as ss
from statestores.processing import (
    Record,
    Topic,
    Topology,
    closed,
    session,
    updates,
    windowed,
    within,
)

LEFT = Topic("left", key=ss.utf8, value=ss.int64)
RIGHT = Topic("right", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.json)
BAD = 13


def _out(topology: Topology, size: int, records: list[tuple[str, Record[str, int]]]) -> Any:
    """Return what comes out, and how many records were dropped."""
    with topology.test() as driver:
        driver.to_batches(size, least_run_rows=1, least_column_rows=1)
        for topic, record in records:
            driver.topic(topic).pipe_all([record])
        found = [(each.key, each.value, each.time_ms) for each in driver.topic("out").read_all()]
        return found, driver.dropped_total


@pytest.mark.spec("PRC-18", "PRC-25", "PRC-98")
@pytest.mark.parametrize("emit", [updates(), closed()], ids=["updates", "closed"])
def test_a_record_that_cannot_be_added_leaves_its_session(
    subtests: pytest.Subtests, emit: Any
) -> None:
    """One bad record deleted every session in its reach: they were gone before it was added."""

    def added(total: int, value: int) -> int:
        if value == BAD:
            raise ValueError(value)
        return total + value

    store = ss.Session("s", retention_ms=60, key=ss.utf8, value=ss.int64)
    values = [(1, 1), (2, 3), (BAD, 4), (4, 6), (0, 50)]
    records = [("left", Record("a", value, time_ms)) for value, time_ms in values]
    for size in (1, 9):
        topology = Topology("sessions", errors="skip")
        grouped: Any = topology.stream(LEFT).group_by_key().window(session(5))
        table = grouped.aggregate(
            int, added, store, merge=lambda one, other: one + other, emit=emit
        )
        table.to_stream().to(Topic("out", key=windowed(ss.utf8), value=ss.int64))
        with subtests.test(size=size):
            found, dropped = _out(topology, size, records)

            assert [each[1:] for each in found if each[1]][-1] == (7, 6)
            assert dropped == 1


@pytest.mark.spec("PRC-18", "PRC-36", "PRC-98")
def test_records_that_waited_with_one_that_fails_are_joined(subtests: pytest.Subtests) -> None:
    """The wait of three was over at once; the first failed, and the others never came out."""

    def joined(value: int, row: int | None) -> list[int | None]:
        if value == BAD:
            raise ValueError(value)
        return [value, row]

    values = [(BAD, 1), (1, 2), (2, 3), (3, 40), (4, 80)]
    records = [("left", Record("a", value, time_ms)) for value, time_ms in values]
    rows = ss.Versioned("rows", history_retention_ms=1_000, key=ss.utf8, value=ss.int64)
    for size in (1, 9):
        topology = Topology("as-of", errors="skip")
        table = topology.table(RIGHT, rows)
        left = topology.stream(LEFT)
        left.join_as_of(table, joined, how="left", wait_ms=9, value=ss.json).to(OUT)
        with subtests.test(size=size):
            found, dropped = _out(topology, size, [("right", Record("a", 7, 0)), *records])

            assert found == [("a", [1, 7], 2), ("a", [2, 7], 3), ("a", [3, 7], 40)]
            assert dropped == 1


@pytest.mark.spec("PRC-18", "PRC-34", "PRC-98")
def test_records_that_come_out_alone_with_one_that_fails_come_out() -> None:
    """Those behind it lay before the queue's head from then on, until the task was opened anew.

    The record that was at hand was not joined either.
    """
    topology = Topology("alone", errors="skip")

    def joined(left: int | None, right: int | None) -> list[int | None]:
        if left == BAD:
            raise ValueError(left)
        return [left, right]

    window = within(5)
    left, right = topology.stream(LEFT), topology.stream(RIGHT)
    left.join(right, joined, within=window, how="left", value=ss.json).to(OUT)
    values = [(BAD, 1), (1, 2), (2, 3), (3, 40)]
    records = [("left", Record("a", value, time_ms)) for value, time_ms in values]
    found, dropped = _out(topology, 1, [*records, ("right", Record("a", 9, 41))])

    assert found == [("a", [1, None], 2), ("a", [2, None], 3), ("a", [3, 9], 41)]
    assert dropped == 1


@pytest.mark.spec("PRC-18", "PRC-34", "PRC-98")
def test_a_record_whose_only_match_fails_comes_out_alone() -> None:
    """It counted as matched, though the pair never came out: nothing of it was ever seen."""
    topology = Topology("matched", errors="skip")

    def joined(left: int | None, right: int | None) -> list[int | None]:
        if right == BAD:
            raise ValueError(right)
        return [left, right]

    left, right = topology.stream(LEFT), topology.stream(RIGHT)
    left.join(right, joined, within=within(5), how="left", value=ss.json).to(OUT)
    records = [("left", Record("a", 1, 1)), ("right", Record("a", BAD, 2))]
    found, dropped = _out(topology, 1, [*records, ("left", Record("a", 2, 40))])

    assert found == [("a", [1, None], 1)]
    assert dropped == 1


@pytest.mark.spec("PRC-18", "PRC-26", "PRC-98")
def test_a_row_that_cannot_wait_takes_no_place() -> None:
    """Rows that could not be encoded were counted as waiting.

    With more of them than may wait, the next good one looked for a row to send out, for ever.
    """
    topology = Topology("held", errors="skip")
    table = topology.table(LEFT, ss.KeyValue("rows", key=ss.utf8, value=ss.int64))
    texts: Any = table.map_values(lambda value: "bad" if value == BAD else value, value=ss.int64)
    texts.suppress(max_rows=1).to_stream().to(Topic("out", key=ss.utf8, value=ss.int64))
    values = [("a", BAD), ("b", BAD), ("c", 1), ("d", 2), ("e", 3)]
    records = [("left", Record(key, value, time_ms)) for time_ms, (key, value) in enumerate(values)]
    found, dropped = _out(topology, 1, records)

    assert found == [("c", 1, 2), ("d", 2, 3)]
    assert dropped == 2
