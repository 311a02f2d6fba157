"""What the topology of `delays` must have given out, worked out from the source data by DuckDB.

A stream has no end: the last flights of the year still wait for their weather, and the last days
are not over. So the first question is which flights and days have come out.
"""

from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import statestores as ss
from delays import FLIGHTS, WAIT_MS
from join_check import JoinCheck, check_join
from statestores.partitioning import partitioner_by_name

_SHOWN_DIFFERENCES = 5

_NOT_WAITING = """
SELECT row
FROM flights JOIN (
    SELECT partition, max(departure_ms) AS last_ms FROM flights GROUP BY partition
) AS seen USING (partition)
WHERE departure_ms <= last_ms - ?
"""

_DAYS = f"""
CREATE TEMP TABLE expected AS
SELECT origin, start_ms, start_ms + {ss.DAY} AS end_ms, avg(dep_delay) AS mean,
    max(departure_ms) AS last_ms
FROM (
    SELECT *, departure_ms // {ss.DAY} * {ss.DAY} AS start_ms,
        max(departure_ms) OVER (PARTITION BY partition) AS seen_ms
    FROM joined
    WHERE dep_delay IS NOT NULL
)
GROUP BY ALL
HAVING end_ms <= max(seen_ms)
"""  # noqa: S608  # names of this module

_DIFFERENCES = """
(SELECT 'only DuckDB', * FROM (FROM expected EXCEPT ALL FROM delays))
UNION ALL
(SELECT 'only the topology', * FROM (FROM delays EXCEPT ALL FROM expected))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysCheck:
    """How far the mean delays agree with DuckDB's."""

    days: int
    """How many there must be, of all airports together."""

    differences: tuple[str, ...]
    """The first that are missing or too many, for people."""


def check_joined(joined: pa.Table, flights: pa.Table, weather: pa.Table) -> JoinCheck:
    """Compare *joined* with the join of DuckDB, of the flights that need not wait any more."""
    return check_join(joined, without_waiting(flights), weather)


def check_days(delays: pa.Table, flights: pa.Table) -> DaysCheck:
    """Compare *delays* with the means of the days that are over."""
    with duckdb.connect() as database:
        database.register("joined", _with_partition(without_waiting(flights)))
        database.register(
            "delays", delays.select(["origin", "start_ms", "end_ms", "mean", "last_ms"])
        )
        database.execute(_DAYS)
        days = database.execute("SELECT count(*) FROM expected").fetchall()[0][0]
        differing = database.execute(_DIFFERENCES).fetchmany(_SHOWN_DIFFERENCES)
    return DaysCheck(days=days, differences=tuple(map(str, differing)))


def without_waiting(flights: pa.Table) -> pa.Table:
    """Return the *flights* that departed so long before the last of their partition."""
    with duckdb.connect() as database:
        database.register("flights", _with_partition(flights))
        rows = database.execute(_NOT_WAITING, [WAIT_MS]).fetchnumpy()["row"]
    return flights.filter(pc.is_in(flights["row"], pa.array(rows)))


def _with_partition(flights: pa.Table) -> pa.Table:
    """Return *flights* with the partition of their topic that each is in."""
    numbers = partitioner_by_name(FLIGHTS.partitioner).partition_array(
        ss.utf8.encode_array(flights["origin"]), FLIGHTS.partitions or 1
    )
    return flights.select(["row", "origin", "departure_ms", "dep_delay"]).append_column(
        "partition", numbers
    )
