"""Loading the weather into its store, commit by commit, so that it can be killed at any moment.

Each commit carries the number of the last source row that it reflects. Whoever opens the store
again reads there where to go on, for each partition by itself, since a kill may fall between the
commits of two partitions.

As a program it prints how many rows it has committed, after each chunk; the demo starts it so, and
kills it.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

import statestores as ss
from figures import Advance
from source_data import MEASUREMENTS, read_weather
from statestores.arrow import put_many
from stores import WEATHER, WEATHER_PARTITIONS, Partitions, open_partitions, partition_of

SOURCE = ss.TopicPartition("weather.csv", 0)
"""The input, whose row numbers are the offsets in the stores' positions."""

CHUNK_ROWS = 300


def load_weather(partitions: Partitions, weather: pa.Table, advance: Advance) -> None:
    """Load what the stores have not seen of *weather*, and commit after every `CHUNK_ROWS` rows.

    *advance* is told of each chunk when all partitions have committed it.
    """
    airports = partition_of(WEATHER, weather["origin"], WEATHER_PARTITIONS).to_numpy()
    first = min(rows_seen(logged) for logged in partitions.values())
    for start in range(first, weather.num_rows, CHUNK_ROWS):
        chunk = weather.slice(start, CHUNK_ROWS)
        stop = start + chunk.num_rows
        for number, logged in partitions.items():
            seen = rows_seen(logged)
            if seen < stop:
                own = np.flatnonzero(airports[start:stop] == number)
                put_many(logged.store, as_versions(chunk.take(own[own >= seen - start])))
                logged.commit({SOURCE: stop - 1})
        advance(chunk.num_rows)


def rows_seen(logged: ss.LoggedStore[ss.VersionedStore[str, object]]) -> int:
    """Return how many rows of the source the store reflects."""
    return logged.next_offset(SOURCE)


def as_versions(weather: pa.Table) -> pa.Table:
    """Return weather records as the versions of their airports."""
    measurements = weather.select(list(MEASUREMENTS)).to_struct_array()
    return pa.table(
        {"key": weather["origin"], "value": measurements, "valid_from": weather["time_ms"]}
    )


def main(
    path: Annotated[Path, typer.Argument(help="The state root.")],
    backend: Annotated[str, typer.Option(help="The engine of the store.")],
) -> None:
    """Load the weather into the state root at PATH, and print how many rows are committed."""
    committed = 0

    def report(rows: int) -> None:
        nonlocal committed
        committed += rows
        print(committed, flush=True)

    with open_partitions(path, WEATHER.name, backend) as partitions:
        load_weather(partitions, read_weather(), report)


if __name__ == "__main__":
    typer.run(main)
