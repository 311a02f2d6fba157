"""The application: each flight with the weather of its departure, and mean delays by the day.

A topology is a description, and this one is all that a user would write. Flights are a stream, and
weather is a table that remembers. Neither comes in order: so a flight waits half a day for weather
that is late, and gets the row that was valid when it departed. What comes out is in the order of
departure; so a day is over when a flight of the next one comes.

As a program it prints how many records are committed, after each commit. It may be killed whenever
one likes, and started again.
"""

from pathlib import Path
from typing import Annotated, TypedDict

import typer

import statestores as ss
from statestores.processing import Topic, Topology, Windowed, closed, run, tumbling, windowed


class Flight(TypedDict):
    """A flight, of a key which is its airport, at the time of its departure."""

    row: int
    carrier: str
    flight: int
    dest: str
    dep_delay: int | None


class Weather(TypedDict):
    """An observation, of a key which is its airport."""

    observed_ms: int
    temp: float | None
    dewp: float | None
    humid: float | None
    wind_dir: int | None
    wind_speed: float | None
    wind_gust: float | None
    precip: float | None
    pressure: float | None
    visib: float | None


class FlightInWeather(Flight):
    """A flight, and the weather in which it departed."""

    weather: Weather | None


def in_weather(flight: Flight, weather: Weather | None) -> FlightInWeather:
    """Return *flight* with its *weather*."""
    return {**flight, "weather": weather}


FLIGHTS: Topic[str, Flight] = Topic("flights", key=ss.utf8, value=ss.json, partitions=2)
WEATHER: Topic[str, Weather] = Topic("weather", key=ss.utf8, value=ss.json, partitions=2)
JOINED: Topic[str, FlightInWeather] = Topic(
    "flights-in-weather", key=ss.utf8, value=ss.json, partitions=2
)
DELAYS: Topic[Windowed[str], float] = Topic(
    "delays-by-day", key=windowed(ss.utf8), value=ss.float64, partitions=2
)

WAIT_MS = 12 * ss.HOUR
"""How long a flight waits for weather, by the time of the flights."""

delays = Topology("delays")
weather = delays.table(
    WEATHER,
    ss.Versioned("weather", history_retention_ms=7 * ss.DAY, key=ss.utf8, value=ss.json),
)
joined = delays.stream(FLIGHTS).join_as_of(
    weather, in_weather, how="left", wait_ms=WAIT_MS, value=ss.json
)
joined.to(JOINED)
(
    joined.filter(lambda flight: flight.value["dep_delay"] is not None)  # it was not cancelled
    .group_by_key()
    .window(tumbling(ss.DAY))
    .mean(
        "value.dep_delay",
        ss.Window(
            "delays", retention_ms=7 * ss.DAY, window_size_ms=ss.DAY, key=ss.utf8, value=ss.float64
        ),
        emit=closed(),
    )
    .to(DELAYS)
)


def main(
    directory: Annotated[Path, typer.Argument(help="It has the topics, and gets the state.")],
    backend: Annotated[str, typer.Option(help="The engine of the stores.")] = "rocksdb",
) -> None:
    """Run the topology on all that is in the topics, and print how many records are committed."""
    run(
        delays,
        state=directory / "state",
        topics=directory / "topics",
        backend=backend,
        commit_interval_ms=2_000,
        until="idle",
        progress=lambda progress: print(progress.processed, flush=True),
    )


if __name__ == "__main__":
    typer.run(main)
