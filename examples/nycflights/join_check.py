"""Checking the join row by row against another engine: the ASOF JOIN of DuckDB.

DuckDB gets the source data only, and computes the instants of departure itself.
"""

from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from source_data import MEASUREMENTS

_SHOWN_DIFFERENCES = 5

_COLUMNS = ("observed_ms", *MEASUREMENTS)

_ASOF_JOIN = f"""
CREATE TEMP TABLE expected AS
SELECT departures.row, weather.time_ms AS observed_ms, {", ".join(MEASUREMENTS)}
FROM (
    SELECT row, origin, hour_ms + (minute + coalesce(dep_delay, 0)) * 60000 AS departure_ms
    FROM flights
) AS departures
ASOF LEFT JOIN weather
ON departures.origin = weather.origin AND departures.departure_ms >= weather.time_ms
"""  # noqa: S608  # names of this module

_AGREES = " AND ".join(
    f"expected.{name} IS NOT DISTINCT FROM joined.{name}" for name in ("row", *_COLUMNS)
)

_COUNTS = f"""
SELECT count(*), count(*) FILTER ({_AGREES})
FROM expected FULL JOIN joined ON expected.row = joined.row
"""  # noqa: S608  # names of this module

_DIFFERENCES = f"""
SELECT expected, joined
FROM expected FULL JOIN joined ON expected.row = joined.row
WHERE NOT ({_AGREES})
ORDER BY coalesce(expected.row, joined.row)
LIMIT {_SHOWN_DIFFERENCES}
"""  # noqa: S608  # names of this module


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCheck:
    """How far a join agrees with DuckDB's."""

    flights: int
    """How many flights there are."""

    compared: int
    """How many rows were compared; more than flights when the join has rows of its own."""

    agreeing: int
    """How many of them are equal in every column."""

    differences: tuple[str, ...]
    """The first rows that are not, for people."""

    @property
    def complete(self) -> bool:
        """Whether every flight has one row, and every row agrees."""
        return self.flights == self.compared == self.agreeing


def check_join(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> JoinCheck:
    """Compare *joined* with the join of *flights* and *weather* that DuckDB makes."""
    hours = flights.select(["row", "origin", "minute", "dep_delay"]).append_column(
        "hour_ms", pc.cast(flights["time_hour"], pa.int64())
    )
    with duckdb.connect() as database:
        database.register("flights", hours)
        database.register("weather", weather.drop_columns("row"))
        database.register("joined", joined)
        database.execute(_ASOF_JOIN)
        compared, agreeing = database.execute(_COUNTS).fetchall()[0]
        differing = database.execute(_DIFFERENCES).fetchall()
    return JoinCheck(
        flights=flights.num_rows,
        compared=compared,
        agreeing=agreeing,
        differences=tuple(_difference(*rows) for rows in differing),
    )


def _difference(expected: dict[str, Any] | None, joined: dict[str, Any] | None) -> str:
    """Return in words how the rows of one flight differ."""
    if expected is None or expected["row"] is None:
        return f"DuckDB has no row like {joined}"
    if joined is None or joined["row"] is None:
        return f"flight {expected['row']} is missing"
    columns = [name for name in _COLUMNS if expected[name] != joined[name]]
    return f"flight {expected['row']}: " + ", ".join(
        f"{name} is {joined[name]!r}, DuckDB says {expected[name]!r}" for name in columns
    )
