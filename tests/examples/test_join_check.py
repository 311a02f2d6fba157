"""The check of the join passes the right join, and no other."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from join_check import check_join
from source_data import MEASUREMENTS
from statestores_conformance.many_cases import for_each

_HOUR_MS = 3_600_000
_HOUR = datetime(2013, 1, 1, 6, tzinfo=UTC)
_START_MS = round(_HOUR.timestamp() * 1000)

_WIND_DIRECTIONS = (100, 110, 120)
"""Of the hours 0, 1 and 3 after `_HOUR`; nothing is known of hour 2."""


@pytest.fixture
def weather() -> pa.Table:
    return _weather(pa.array([0, 1, 3]))


@pytest.fixture
def flights() -> pa.Table:
    """On time; late; late to the full hour; cancelled; before all weather; without any."""
    return pa.table(
        {
            "row": pa.array([0, 1, 2, 3, 4, 5]),
            "origin": ["EWR", "EWR", "EWR", "EWR", "EWR", "JFK"],
            "minute": pa.array([30, 50, 59, 10, 0, 0]),
            "dep_delay": pa.array([0, 90, 121, None, -1, 0], pa.int64()),
            "time_hour": pa.array([_HOUR] * 6, pa.timestamp("ms", "UTC")),
        }
    )


@pytest.fixture
def joined() -> pa.Table:
    """What is right, worked out by hand: the weather of hour 0, 1, 3 and 0, and twice none."""
    observed = [0, 1, 3, 0, None, None]
    directions = {0: 100, 1: 110, 3: 120, None: None}
    columns: dict[str, Any] = {
        name: pa.array([None if hour is None else 1 for hour in observed], kind)
        for name, kind in MEASUREMENTS.items()
    }
    columns["wind_dir"] = pa.array([directions[hour] for hour in observed], pa.int64())
    observed_ms = [None if hour is None else _START_MS + hour * _HOUR_MS for hour in observed]
    return pa.table({"row": pa.array(range(6)), "observed_ms": pa.array(observed_ms), **columns})


def test_the_right_join_agrees_in_every_row(
    joined: pa.Table, flights: pa.Table, weather: pa.Table
) -> None:
    """Late, cancelled, too early and unmatched flights included."""
    check = check_join(joined, flights, weather)

    assert (check.complete, check.agreeing, check.differences) == (True, 6, ())


def test_the_order_of_rows_does_not_matter(
    joined: pa.Table, flights: pa.Table, weather: pa.Table
) -> None:
    """Rows are told apart by their number."""
    check = check_join(joined.take([5, 3, 1, 0, 2, 4]), flights, weather)

    assert check.complete


@for_each("column", ["observed_ms", *MEASUREMENTS])
def test_a_wrong_value_is_found(
    column: str, joined: pa.Table, flights: pa.Table, weather: pa.Table
) -> None:
    """One value of one row, in any column, makes the join wrong, and is named."""
    values = joined[column].to_pylist()
    values[1] += 7
    check = check_join(_replaced(joined, column, values), flights, weather)

    assert (check.complete, check.agreeing) == (False, 5)
    assert check.differences[0].startswith(f"flight 1: {column} is {values[1]}")


def test_a_lost_value_is_found(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> None:
    """Null is not equal to a value."""
    values = joined["temp"].to_pylist()
    values[0] = None
    check = check_join(_replaced(joined, "temp", values), flights, weather)

    assert (check.complete, check.agreeing) == (False, 5)
    assert check.differences == ("flight 0: temp is None, DuckDB says 1.0",)


def test_an_invented_value_is_found(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> None:
    """A value where there is no weather is wrong."""
    values = joined["visib"].to_pylist()
    values[5] = 10.0
    check = check_join(_replaced(joined, "visib", values), flights, weather)

    assert check.differences == ("flight 5: visib is 10.0, DuckDB says None",)


def test_a_missing_row_is_found(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> None:
    """Five right rows of six are not the join."""
    check = check_join(joined.slice(0, 5), flights, weather)

    assert (check.complete, check.agreeing) == (False, 5)
    assert check.differences == ("flight 5 is missing",)


def test_a_doubled_row_is_found(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> None:
    """Each row agrees, and one of them is there twice."""
    check = check_join(pa.concat_tables([joined, joined.slice(2, 1)]), flights, weather)

    assert (check.complete, check.compared) == (False, 7)


def test_a_row_of_no_flight_is_found(
    joined: pa.Table, flights: pa.Table, weather: pa.Table
) -> None:
    """A row that belongs to no flight is one too many."""
    stranger = _replaced(joined.slice(0, 1), "row", [99])
    check = check_join(pa.concat_tables([joined, stranger]), flights, weather)

    assert not check.complete
    assert check.differences[0].startswith("DuckDB has no row like")


def test_weather_of_the_hour_before_is_found(
    joined: pa.Table, flights: pa.Table, weather: pa.Table
) -> None:
    """A join that took ``<`` for ``<=`` is wrong at the full hour."""
    earlier = _replaced(
        joined,
        "observed_ms",
        [
            _START_MS + _HOUR_MS if row == 2 else observed
            for row, observed in enumerate(joined["observed_ms"].to_pylist())
        ],
    )
    check = check_join(earlier, flights, weather)

    assert not check.complete
    assert check.differences[0].startswith("flight 2: observed_ms")


def _weather(hours: pa.Array) -> pa.Table:
    columns: dict[str, Any] = {
        name: pa.array([1] * len(hours), kind) for name, kind in MEASUREMENTS.items()
    }
    columns["wind_dir"] = pa.array(_WIND_DIRECTIONS)
    return pa.table(
        {
            "row": pa.array(range(len(hours))),
            "origin": ["EWR"] * len(hours),
            "time_ms": pc.add(pc.multiply(hours, _HOUR_MS), _START_MS),
            **columns,
        }
    )


def _replaced(table: pa.Table, column: str, values: list[Any]) -> pa.Table:
    """Return *table* with other *values* in one column."""
    place = table.schema.get_field_index(column)
    field = table.schema.field(place)
    return table.set_column(place, field, pa.array(values, field.type))
