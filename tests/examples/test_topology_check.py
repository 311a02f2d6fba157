"""The check of the topology passes what is right, and nothing else; the topology is right."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import statestores as ss
from delays import Flight, Weather, delays
from source_data import MEASUREMENTS
from statestores.processing import Record, Windowed
from topology_check import check_days, check_joined, without_waiting

_DAY_1 = 15_706 * ss.DAY
"""The first of January 2013, UTC."""

_DEPARTURES: dict[str, list[tuple[int, int | None]]] = {
    "EWR": [(9, 4), (10, None), (21, -2), (24 + 11, 7), (48 + 1, 0), (96, 1)],
    "JFK": [(7, 60)],
}
"""By airport: hours after the beginning of the year, and delays in minutes."""


@pytest.fixture
def flights() -> pa.Table:
    """All of one partition; the last one waits."""
    rows = [(origin, *each) for origin, those in _DEPARTURES.items() for each in those]
    return pa.table(
        {
            "row": pa.array(range(len(rows))),
            "origin": [row[0] for row in rows],
            "departure_ms": [_DAY_1 + row[1] * ss.HOUR for row in rows],
            "dep_delay": pa.array([row[2] for row in rows], pa.int64()),
        }
    )


@pytest.fixture
def by_day(flights: pa.Table) -> pa.Table:
    """The days that the topology gives out."""
    with delays.test(partitions=2) as driver:
        for row in sorted(flights.to_pylist(), key=lambda row: row["departure_ms"]):
            driver.topic("flights").pipe(_flight(row), row["origin"], time_ms=row["departure_ms"])
        days = driver.topic("delays-by-day").read_all()
    return _table(days)


def test_a_flight_waits_for_its_weather() -> None:
    """Weather that is reported hours late is found; weather that is of later is not taken."""
    with delays.test() as driver:
        weather, flights = driver.topic("weather"), driver.topic("flights")
        weather.pipe(_weather(0), "LGA", time_ms=_DAY_1)
        flights.pipe(_flight({"row": 1, "dep_delay": 5}), "LGA", time_ms=_DAY_1 + 90 * ss.MINUTE)
        weather.pipe(_weather(2), "LGA", time_ms=_DAY_1 + 2 * ss.HOUR)
        weather.pipe(_weather(1), "LGA", time_ms=_DAY_1 + ss.HOUR)
        before = driver.topic("flights-in-weather").is_empty
        flights.pipe(_flight({"row": 2, "dep_delay": 0}), "LGA", time_ms=_DAY_1 + ss.DAY)
        joined = driver.topic("flights-in-weather").read()

    assert before
    assert (joined.key, joined.value["row"]) == ("LGA", 1)
    assert joined.value["weather"]["observed_ms"] == _DAY_1 + ss.HOUR


def test_days_that_are_over_come_out(by_day: pa.Table, flights: pa.Table) -> None:
    """Cancelled flights do not count; what waits closes nothing."""
    rows = [(row["origin"], row["mean"]) for row in by_day.to_pylist()]

    assert sorted(rows) == [("EWR", 1.0), ("EWR", 7.0), ("JFK", 60.0)]
    assert check_days(by_day, flights).differences == ()
    assert check_days(by_day, flights).days == 3


def test_wrong_days_are_found(by_day: pa.Table, flights: pa.Table) -> None:
    """One that is missing, one that came twice, one with another mean."""
    wrong = by_day.set_column(3, "mean", pc.add(by_day["mean"], 0.5))

    assert len(check_days(by_day.slice(1), flights).differences) == 1
    assert len(check_days(pa.concat_tables([by_day, by_day.slice(0, 1)]), flights).differences) == 1
    assert len(check_days(wrong, flights).differences) == 5


def test_what_waits_is_known(flights: pa.Table) -> None:
    """Half a day before the last departure of the partition, inclusive."""
    assert without_waiting(flights)["row"].to_pylist() == [0, 1, 2, 3, 4, 6]


def test_a_flight_that_should_still_wait_is_found(flights: pa.Table) -> None:
    """A row too many is as wrong as one too few."""
    hours = pa.array([_DAY_1] * flights.num_rows, pa.timestamp("ms", "UTC"))
    flights = flights.append_column("time_hour", hours).append_column(
        "minute", pa.array([0] * flights.num_rows)
    )
    columns: dict[str, Any] = {
        name: pa.nulls(flights.num_rows, kind)
        for name, kind in {"observed_ms": pa.int64(), **MEASUREMENTS}.items()
    }
    joined = pa.table({"row": flights["row"], **columns})
    weather = pa.table(
        {
            "row": pa.array([], pa.int64()),
            "origin": pa.array([], pa.string()),
            "time_ms": pa.array([], pa.int64()),
            **{name: pa.array([], kind) for name, kind in MEASUREMENTS.items()},
        }
    )

    right = joined.take([0, 1, 2, 3, 4, 6])
    assert check_joined(right, flights, weather).complete
    assert not check_joined(joined, flights, weather).complete
    assert not check_joined(right.slice(1), flights, weather).complete


def _flight(row: dict[str, Any]) -> Flight:
    return {
        "row": row["row"],
        "carrier": "B6",
        "flight": 1,
        "dest": "BOS",
        "dep_delay": row["dep_delay"],
    }


def _weather(hour: int) -> Weather:
    weather: Any = {"observed_ms": _DAY_1 + hour * ss.HOUR, **dict.fromkeys(MEASUREMENTS)}
    made: Weather = weather
    return made


def _table(days: list[Record[Windowed[str], float]]) -> pa.Table:
    rows = [
        {
            "origin": day.key.key,
            "start_ms": day.key.start_ms,
            "end_ms": day.key.end_ms,
            "mean": day.value,
            "last_ms": day.time_ms,
        }
        for day in days
    ]
    return pa.Table.from_pylist(rows)
