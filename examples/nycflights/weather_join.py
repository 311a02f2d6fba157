"""Joining flights with the weather as of their departure, by point reads in the store."""

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

import statestores as ss
from figures import Advance
from source_data import MEASUREMENTS
from statestores.arrow import get_many
from stores import WEATHER, WEATHER_PARTITIONS, partition_of

BATCH_ROWS = 20_000

_VALUES = json.ParseOptions(
    explicit_schema=pa.schema(MEASUREMENTS), unexpected_field_behavior="error"
)


def join_weather(
    flights: pa.Table,
    facades: Mapping[int, ss.ReadOnlyVersionedStore[str, Any]],
    advance: Advance,
) -> pa.Table:
    """Return for each flight the weather at its origin as of its departure.

    The columns are the ``row`` of the flight, ``observed_ms``, the hour of the weather record, and
    its measurements; null where there is no weather. The rows are in the order of *flights*.
    """
    partition = partition_of(WEATHER, flights["origin"], WEATHER_PARTITIONS)
    joined = []
    for number, facade in facades.items():
        own = flights.filter(pc.equal(partition, number))
        for start in range(0, own.num_rows, BATCH_ROWS):
            batch = own.slice(start, BATCH_ROWS)
            found = get_many(facade, batch["origin"], batch["departure_ms"])
            weather = _measurements(found["value"])
            joined.append(
                weather.add_column(0, "observed_ms", found["valid_from"]).add_column(
                    0, "row", batch["row"]
                )
            )
            advance(batch.num_rows)
    return pa.concat_tables(joined).sort_by("row")


def _measurements(values: pa.ChunkedArray) -> pa.Table:
    """Return JSON texts as one column for each measurement; of a null text, all are null."""
    lines = "\n".join(pc.fill_null(values, "{}").to_pylist())
    return json.read_json(io.BytesIO(lines.encode()), parse_options=_VALUES)
