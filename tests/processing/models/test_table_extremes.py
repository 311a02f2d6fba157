"""The lowest and highest of tables whose rows change and go."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statestores as ss
from statestores.errors import InvalidTypeError, ProcessingError, SerializationError
from statestores.processing import Record, Topic, Topology
from statestores.processing.operators.table_extremes import order_bytes

ROWS = Topic("rows", key=ss.utf8, value=ss.json)

_numbers = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.integers(-3, 3),
    st.integers((1 << 53) - 2, (1 << 53) + 2),
)
_changes = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.none() | st.tuples(st.sampled_from("xy"), st.none() | st.integers(-3, 3)),
    ),
    max_size=30,
)


def _topology(serde: Any = ss.int64) -> Topology:
    made = Topology("extremes")
    rows = made.table(ROWS, ss.KeyValue("rows", key=ss.utf8, value=ss.json))
    by_group: Any = rows.group_by("value.group", key_serde=ss.utf8)
    for name, end in (("lowest", by_group.min), ("highest", by_group.max)):
        kept: Any = end("value.number", ss.KeyValue(name, key=ss.utf8, value=serde))
        kept.to(Topic(f"{name}-changes", key=ss.utf8, value=serde))
    return made


@pytest.mark.spec("PRC-94", "PRC-43")
@given(_changes)
def test_they_are_of_the_rows_that_there_are(
    changes: list[tuple[str, tuple[str, int | None] | None]],
) -> None:
    """After every change, whichever row moves, changes or goes: against a dictionary and `min`."""
    rows: dict[str, tuple[str, int | None]] = {}
    with _topology().test() as driver:
        for at, (key, row) in enumerate(changes):
            value = None if row is None else {"group": row[0], "number": row[1]}
            driver.topic("rows").pipe(value, key=key, time_ms=at)
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
            for name, choose in (("lowest", min), ("highest", max)):
                for group in "xy":
                    numbers = [
                        number
                        for each, number in rows.values()
                        if each == group and number is not None
                    ]
                    expected = choose(numbers) if numbers else None
                    assert driver.store(name).get(group) == expected


@pytest.mark.spec("PRC-94")
@given(_numbers, _numbers)
def test_numbers_sort_as_their_bytes(one: float, other: float) -> None:
    """Integers that have no float of their own, infinities, and both zeros."""
    assert (order_bytes(one) < order_bytes(other)) == (one < other)
    assert (order_bytes(one) == order_bytes(other)) == (one == other)


@pytest.mark.spec("PRC-94")
def test_what_has_no_place_is_refused() -> None:
    """By what it is, and where it came from."""
    for value, error in (
        (math.nan, SerializationError),
        (1 << 63, SerializationError),
        ([1], InvalidTypeError),
    ):
        with pytest.raises(error):
            order_bytes(value)
    assert order_bytes("a") < order_bytes("b")
    assert order_bytes(b"a") < order_bytes(b"b")
    with (
        _topology(ss.json).test() as driver,
        pytest.raises(ProcessingError, match="numbers, texts"),
    ):
        driver.topic("rows").pipe({"group": "x", "number": [1]}, key="a", time_ms=1)


@pytest.mark.spec("PRC-94")
def test_each_change_comes_out_with_the_later_time() -> None:
    """Of a row that goes the next one is found, with its own type."""
    with _topology(ss.json).test() as driver:
        for key, number, time_ms in (("a", 2, 5), ("b", 1.5, 3), ("b", None, 9)):
            value = None if number is None else {"group": "x", "number": number}
            driver.topic("rows").pipe(value, key=key, time_ms=time_ms)
        found = driver.topic("lowest-changes").read_all()

    assert found == [Record("x", 2, 5), Record("x", 1.5, 5), Record("x", 2, 9)]
