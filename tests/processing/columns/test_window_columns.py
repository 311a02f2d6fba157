"""Windows and sessions of a batch on columns: what their records cannot be told from."""

from typing import Any

import pytest

import statestores as ss
from statestores.processing import (
    DeadLetter,
    Record,
    Topic,
    Topology,
    closed,
    session,
    tumbling,
    updates,
    windowed,
)
from statestores_conformance.many_cases import for_each

IN = Topic("in", key=ss.utf8, value=ss.int64)
WINDOW = ss.Window("w", retention_ms=60, window_size_ms=10, key=ss.utf8, value=ss.json)
SESSION = ss.Session("w", retention_ms=60, key=ss.utf8, value=ss.json)


def _gathered(seen: list[int], value: int) -> list[int]:
    seen.append(value)  # in place, as functions do that were written for records
    return seen


def _both(one: list[int], other: list[int]) -> list[int]:
    other.extend(one)
    return other


def _lists(by: str, emit: Any) -> Topology:
    topology = Topology("lists", errors=DeadLetter(Topic("dead")))
    grouped: Any = topology.stream(IN).group_by_key()
    if by == "windows":
        windows = grouped.window(tumbling(10, grace_ms=5))
        table = windows.aggregate(list, _gathered, WINDOW, emit=emit)
    else:
        windows = grouped.window(session(5, grace_ms=5))
        table = windows.aggregate(list, _gathered, SESSION, merge=_both, emit=emit)

    def checked(record: Record[Any, list[int] | None]) -> list[int] | None:
        if record.value == [1, 2]:
            raise ValueError(record.value)
        return record.value

    out = Topic("out", key=windowed(ss.utf8), value=ss.json)
    table.to_stream().map(checked, value=ss.json).to(out)
    return topology


@pytest.mark.spec("PRC-95", "PRC-97")
@pytest.mark.parametrize("by", ["windows", "sessions"])
@pytest.mark.parametrize("emit", [updates(), closed()], ids=["updates", "closed"])
@pytest.mark.parametrize("least", ["least_run_rows", "least_column_rows"])
def test_what_fails_behind_a_window_is_said_of_the_record_that_gave_it(
    by: str, emit: Any, least: str
) -> None:
    """A step behind a window failed, and the wrong record lay among the dead letters.

    On columns, whatever a batch closed was taken for the work of its last record. The letter bears
    the record that closed the window, or changed it, however many come behind it. The fold is a
    function that changes what it is given; before, one of those sent every batch back to records.
    """
    records = [Record("a", 1, 1), Record("a", 2, 3), Record("b", 3, 21), Record("c", 4, 60)]
    found = []
    for size in (1, 4):
        with _lists(by, emit).test() as driver:
            driver.to_batches(size, **{least: 1})
            driver.topic("in").pipe_all(records)
            letters = [each.key for each in driver.topic("dead").read_all()]
            found.append((driver.topic("out").read_all(), letters))
            declined = {step for step in driver.declined_columns if step == "w"}

            assert declined == set()
    assert found[0] == found[1]
    assert found[0][1] == [b"a" if emit == updates() else b"b"]


@pytest.mark.spec("PRC-22", "PRC-57")
@for_each("by", ["windows", "sessions"])
def test_a_window_that_was_deleted_and_began_anew_comes_out_once(by: str) -> None:
    """A deleted aggregate leaves its place in the queue, and looked new to the next batch.

    A batch that both began it anew and closed it gave it out twice: as waiting, and as new.
    """
    topology = Topology("anew")
    grouped: Any = topology.stream(IN).group_by_key()

    def added(total: int, value: int) -> int | None:
        return total + value if value else None

    if by == "windows":
        window = ss.Window("w", retention_ms=60, window_size_ms=10, key=ss.utf8, value=ss.int64)
        windows = grouped.window(tumbling(10))
        table = windows.aggregate(int, added, window, emit=closed())
    else:
        store = ss.Session("w", retention_ms=60, key=ss.utf8, value=ss.int64)
        windows = grouped.window(session(5))
        table = windows.aggregate(int, added, store, merge=lambda *both: sum(both), emit=closed())
    table.to_stream().to(Topic("out", key=windowed(ss.utf8), value=ss.int64))
    with topology.test() as driver:
        driver.to_batches(2, least_run_rows=1)
        driver.topic("in").pipe_all(
            [Record("a", 1, 1), Record("a", 0, 1), Record("a", 7, 1), Record("a", 8, 50)]
        )

        assert [each.value for each in driver.topic("out").read_all()] == [7]
