"""One run of the demo, step by step."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from rich.columns import Columns
from rich.console import Console

from checks import Checks
from figures import Figures, size_table
from findings import cancelled_by_visibility, delay_by_rain, fingerprint
from interrupted_load import check_left, load_until_killed, what_is_left
from join_check import check_join
from plane_store import (
    count_changes,
    count_written,
    departures,
    last_departure,
    last_departure_in_source,
    planes_in_source,
    planes_known,
    write_planes,
)
from source_data import PLANE, late_share, read_flights, read_weather
from spark_session import spark_session
from stores import (
    PLANES,
    WEATHER,
    Partitions,
    create_root,
    open_partitions,
    size_on_disk,
    versions_by_key,
)
from topology_check import check_days, check_joined
from topology_run import fill_topics, read_delays, read_joined, resume, run_killed
from weather_join import join_weather
from weather_loader import load_weather

_NEW_YORK = ZoneInfo("America/New_York")
_KNOWN_AS_OF = datetime(2013, 7, 1, tzinfo=_NEW_YORK)
_ASKED_AT = datetime(2013, 7, 4, 12, tzinfo=_NEW_YORK)


class DemoRun:
    """One run: where it writes, what it has measured, and what it has compared."""

    def __init__(self, console: Console, directory: Path, backend: str) -> None:
        """Prepare a run in *directory* with engines of *backend*."""
        self._console = console
        self._directory = directory
        self._root = directory / "state"
        self._backend = backend
        self._figures = Figures(console)
        self._checks = Checks(console)

    def run(self, sample: int | None) -> bool:
        """Do all of it with about *sample* flights, or all; return whether every check held."""
        with self._figures.step("read the source files"):
            flights, weather = read_flights(sample), read_weather()
        departed = departures(flights)
        self._say(
            f"{flights.num_rows:,} flights, of which {departed.num_rows:,} departed; "
            f"{late_share(departed['departure_ms']):.1%} arrive after a later one"
        )
        self._say(
            f"{weather.num_rows:,} weather records; "
            f"{late_share(weather['time_ms']):.1%} arrive after a later one"
        )
        create_root(self._root)
        with ExitStack() as session:
            with self._figures.step("start Spark"):
                spark = session.enter_context(spark_session(self._directory))
            with self._figures.step("planes: write with Spark", departed.num_rows):
                write_planes(spark, self._root, departed)
            self._find_plane(departed)
            joined = self._join_weather(flights, weather)
            self._read_back(spark, departed)
        self._run_topology(flights, weather)
        self._summarize(flights, joined)
        return not self._checks.failed

    def _find_plane(self, departed: pa.Table) -> None:
        """Bring the engines of the planes up to the changelogs, and ask where one of them was."""
        asked_ms = _milliseconds(_ASKED_AT)
        with ExitStack() as opened:
            with self._figures.step("planes: replay into engines", departed.num_rows) as advance:
                partitions = opened.enter_context(
                    open_partitions(self._root, PLANES.name, self._backend, advance)
                )
            self._write_snapshots("planes", partitions, departed.num_rows)
            found = last_departure(partitions, PLANE, asked_ms)
        self._say(f"where was {PLANE} on {_ASKED_AT:%d %B %Y at %H:%M} in New York?")
        if found is None:
            self._say("it had not departed yet")
        else:
            flight = found.value
            self._say(
                f"[bold]{flight['origin']} to {flight['dest']}[/], flight {flight['carrier']} "
                f"{flight['flight']}, departed {_local(found.valid_from_ms)}; its next departure "
                f"was {_local(found.valid_to_ms)}"
            )
        self._checks.expect(
            (found and (found.valid_from_ms, found.value["dest"]))
            == (expected := last_departure_in_source(departed, PLANE, asked_ms)),
            "DuckDB finds the same departure",
            [f"it finds {expected}"],
        )

    def _join_weather(self, flights: pa.Table, weather: pa.Table) -> pa.Table:
        """Load the weather through a kill, join every flight with it, and check every row."""
        half = weather.num_rows // 2
        with self._figures.step("weather: load, kill -9", weather.num_rows) as advance:
            reported = load_until_killed(self._root, self._backend, half, advance)
        with open_partitions(self._root, WEATHER.name, self._backend) as partitions:
            self._resume(partitions, weather, reported)
            self._write_snapshots("weather", partitions, weather.num_rows)
            facades = {number: each.store.read_only() for number, each in partitions.items()}
            with self._figures.step("join as of departure", flights.num_rows) as advance:
                joined = join_weather(flights, facades, advance)
        with self._figures.step("the join of DuckDB, compared", flights.num_rows):
            check = check_join(joined, flights, weather)
        self._checks.expect(
            check.complete,
            f"{check.agreeing:,} of {check.flights:,} joined rows agree with DuckDB's ASOF JOIN",
            check.differences,
        )
        return joined

    def _resume(self, partitions: Partitions, weather: pa.Table, reported: int) -> None:
        """Say what the kill has left, finish the load, and compare with the source."""
        left = what_is_left(partitions)
        for each in left:
            self._say(
                f"partition {each.partition} of the weather: committed offset {each.offset}, "
                f"position {each.seen - 1}; {each.replayed} changes were in the changelog only"
            )
        problems = check_left(left, weather, reported)
        self._checks.expect(
            not problems,
            f"killed at {reported:,} rows reported as committed: all are there, no other is",
            problems,
        )
        rest = weather.num_rows - min(each.seen for each in left)
        with self._figures.step("weather: resume and finish", rest) as advance:
            load_weather(partitions, weather, advance)
        held = versions_by_key(partitions)
        counts = weather["origin"].value_counts().to_pylist()
        source = {count["values"]: count["counts"] for count in counts}
        self._checks.expect(
            held == source,
            f"{sum(held.values()):,} versions of {len(held)} airports, as in the source: nothing "
            "lost, nothing doubled",
            [f"the store has {held}, the source {source}"],
        )

    def _write_snapshots(self, name: str, partitions: Partitions, rows: int) -> None:
        """Write a snapshot of each partition, from which readers need the changelog's end only."""
        with self._figures.step(f"{name}: write snapshots", rows) as advance:
            for logged in partitions.values():
                written = logged.snapshot()
                if written is not None:
                    advance(written.rows)

    def _read_back(self, spark: Any, departed: pa.Table) -> None:
        """Read the planes with Spark, as of a date and as changes, and compare."""
        as_of_ms = _milliseconds(_KNOWN_AS_OF)
        with self._figures.step("planes: Spark reads as of a date") as advance:
            known = planes_known(spark, self._root, as_of_ms).sort_by("key")
            advance(known.num_rows)
        self._checks.expect(
            known.to_pylist() == planes_in_source(departed, as_of_ms).to_pylist(),
            f"as of {_KNOWN_AS_OF:%d %B %Y}, {known.num_rows:,} planes are known, with the last "
            "departures that DuckDB finds",
        )
        with self._figures.step("planes: Spark reads the change feed") as advance:
            changes = count_changes(spark, self._root)
            advance(sum(changes.values()))
        written = count_written(departed)
        self._checks.expect(
            changes == written,
            f"{sum(changes.values()):,} changes, {dict(sorted(changes.items()))} by partition, as "
            "written",
            [f"written were {dict(sorted(written.items()))}"],
        )

    def _run_topology(self, flights: pa.Table, weather: pa.Table) -> None:
        """Run the same join as a topology, through a kill, and check all that comes out."""
        self._say("the same as a topology: flights as a stream, weather as a table that remembers")
        directory, rows = self._directory / "topology", flights.num_rows + weather.num_rows
        with self._figures.step("topics: append as reported", rows) as advance:
            fill_topics(directory, flights, weather, advance)
        with self._figures.step("topology: run, kill -9", rows) as advance:
            killed = run_killed(directory, self._backend, rows // 2, advance)
        self._say(
            f"killed at {killed.reported:,} records reported as committed; readers of the topic "
            f"saw {killed.joined:,} joined flights then"
        )
        with self._figures.step("topology: resume and finish") as advance:
            resume(directory, self._backend, advance)
        with self._figures.step("the topics, compared with DuckDB", flights.num_rows):
            joined, is_ordered = read_joined(directory)
            by_day = read_delays(directory)
            join, days = check_joined(joined, flights, weather), check_days(by_day, flights)
        self._checks.expect(
            join.complete and is_ordered,
            f"{join.agreeing:,} of {join.flights:,} flights came out, each once, in order, and "
            "agree with DuckDB's ASOF JOIN",
            [*join.differences, f"in order: {is_ordered}"],
        )
        self._say(
            f"the last {flights.num_rows - join.flights:,} wait: a stream has no end, and weather "
            "may come late"
        )
        self._checks.expect(
            not days.differences,
            f"{days.days:,} mean delays by airport and day, each given out once, when the day was "
            "over, as in DuckDB",
            days.differences,
        )
        worst = by_day.sort_by([("mean", "descending")]).slice(0, 1).to_pylist()[0]
        self._say(
            f"the worst day: {worst['origin']} on {_day(worst['start_ms'])}, "
            f"{worst['mean']:.0f} minutes on average"
        )

    def _summarize(self, flights: pa.Table, joined: pa.Table) -> None:
        """Print what was learned and what it took."""
        self._console.print()
        self._console.print(
            Columns(
                [delay_by_rain(flights, joined), cancelled_by_visibility(flights, joined)],
                padding=(0, 4),
            )
        )
        self._console.print(self._figures.table())
        sizes = [size_on_disk(self._root, store.name) for store in (PLANES, WEATHER)]
        self._console.print(size_table(sizes))
        self._console.print(
            f"backend {self._backend}; fingerprint of the joined rows {fingerprint(joined)}"
        )

    def _say(self, sentence: str) -> None:
        self._console.print(f"  {sentence}")


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _day(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%d %B %Y (UTC)}"


def _local(time_ms: int | None) -> str:
    """Return an instant as the clocks in New York show it; ``None`` is none in the data."""
    if time_ms is None:
        return "none in the data"
    return f"{datetime.fromtimestamp(time_ms / 1000, _NEW_YORK):%Y-%m-%d %H:%M}"
