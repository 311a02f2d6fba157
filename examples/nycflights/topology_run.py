"""The topology of `delays` at work: its input, a run that is killed, and what has come out."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import json

import delays
import statestores as ss
from delays import DELAYS, FLIGHTS, JOINED, WEATHER
from figures import Advance
from killed_process import run_to_the_end, run_until_killed
from source_data import MEASUREMENTS, as_reported
from statestores.processing import LocalTopics, Record, Topic

LATEST_FLIGHT_MS = 2 * ss.HOUR
"""How long after its departure a flight is reported at most."""

LATEST_WEATHER_MS = 6 * ss.HOUR
"""How long after its hour an observation is reported at most: less than the join waits."""

_PROGRAM = Path(delays.__file__)
_BATCH_ROWS = 10_000
_FLIGHT = ["row", "carrier", "flight", "dest", "dep_delay"]
_JOINED = json.ParseOptions(
    explicit_schema=pa.schema(
        {
            "row": pa.int64(),
            "weather": pa.struct({"observed_ms": pa.int64(), **MEASUREMENTS}),
        }
    ),
    unexpected_field_behavior="ignore",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What could be seen of a run when it had been killed."""

    reported: int
    """Records of the input that it had reported as committed."""

    joined: int
    """Joined flights that readers of the topic saw then."""


def fill_topics(directory: Path, flights: pa.Table, weather: pa.Table, advance: Advance) -> None:
    """Append flights and weather to the topics in *directory*, in the order of their reports."""
    weather = weather.append_column("observed_ms", weather["time_ms"])
    with LocalTopics(directory / "topics") as topics:
        reported = as_reported(weather, "time_ms", LATEST_WEATHER_MS)
        topics.topic(WEATHER).append(
            _records(reported, "time_ms", ["observed_ms", *MEASUREMENTS], advance)
        )
        reported = as_reported(flights, "departure_ms", LATEST_FLIGHT_MS)
        topics.topic(FLIGHTS).append(_records(reported, "departure_ms", _FLIGHT, advance))


def run_killed(directory: Path, backend: str, kill_at: int, advance: Advance) -> Killed:
    """Run the topology in a process, and kill that soon after it has committed *kill_at*."""
    reported = run_until_killed(_PROGRAM, _arguments(directory, backend), kill_at, advance)
    with LocalTopics(directory / "topics") as topics:
        topic = topics.topic(JOINED)
        joined = sum(map(topic.end_offset, range(topic.partitions)))
    return Killed(reported=reported, joined=joined)


def resume(directory: Path, backend: str, advance: Advance) -> int:
    """Run the topology in a new process until all is done; return how many records it took."""
    return run_to_the_end(_PROGRAM, _arguments(directory, backend), advance)


def read_joined(directory: Path) -> tuple[pa.Table, bool]:
    """Return the joined flights, and whether those of each partition are in the order of times.

    The columns are the ``row`` of the flight, ``observed_ms`` and the measurements.
    """
    values: list[bytes | None] = []
    is_ordered = True
    with LocalTopics(directory / "topics") as topics:
        as_bytes = topics.topic(Topic(JOINED.name, partitions=JOINED.partitions))
        for partition in range(as_bytes.partitions):
            records = [stored.record for stored in as_bytes.read(partition)]
            values += [record.value for record in records]
            times = [record.time_ms for record in records]
            is_ordered = is_ordered and times == sorted(times)
    table = json.read_json(io.BytesIO(b"\n".join(filter(None, values))), parse_options=_JOINED)
    weather = table["weather"].combine_chunks()
    columns = {name: weather.field(name) for name in ("observed_ms", *MEASUREMENTS)}
    return pa.table({"row": table["row"], **columns}), is_ordered


def read_delays(directory: Path) -> pa.Table:
    """Return the mean delays, with ``origin``, ``start_ms``, ``end_ms``, ``mean``, ``last_ms``."""
    with LocalTopics(directory / "topics") as topics:
        rows: list[dict[str, Any]] = [
            {**record.key._asdict(), "mean": record.value, "last_ms": record.time_ms}
            for _, _, record in topics.topic(DELAYS).read()
        ]
    return pa.Table.from_pylist(rows).rename_columns({"key": "origin"})


def _arguments(directory: Path, backend: str) -> list[str]:
    return [str(directory), "--backend", backend]


def _records(
    rows: pa.Table, time: str, columns: list[str], advance: Advance
) -> Iterator[Record[Any, Any]]:
    """Yield *rows* as records of their airports."""
    for batch in rows.to_batches(_BATCH_ROWS):
        values = batch.select(columns).to_pylist()
        yield from map(Record, batch["origin"].to_pylist(), values, batch[time].to_pylist())
        advance(batch.num_rows)
