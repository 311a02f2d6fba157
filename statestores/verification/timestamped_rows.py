"""The rows of a timestamped key-value store, and the times that its sweep trusts (TTL-12)."""

from collections.abc import Iterator
from typing import Any

from statestores.errors import StateStoreError
from statestores.semantics.timestamped.opening import UNSTAMPED_ROW, read_sweep_progress
from statestores.semantics.timestamped.rows import HEADER_BYTES, NO_TIMESTAMP, unpack_timestamp
from statestores.spi.engine import EngineReader
from statestores.spi.specification import TimestampedKeyValue
from statestores.verification.row_walk import Problems


def check_timestamps(
    reader: EngineReader,
    specification: TimestampedKeyValue[Any, Any],
    rows: Iterator[tuple[bytes, bytes]],
    problems: Problems,
) -> None:
    """Check all data *rows*, unless an opening that gives them timestamps was interrupted."""
    if reader.get(UNSTAMPED_ROW) is not None:
        return  # some have none yet, and the next opening goes on (TTL-13)
    try:
        progress = read_sweep_progress(reader)
    except StateStoreError as error:
        problems.add(f"{error} (TTL-12)")
        return
    stream_time = progress.stream_time_ms
    floor = progress.floor_ms if specification.ttl_ms is not None else 0
    for key, row in rows:
        if len(row) < HEADER_BYTES:
            problems.add(f"the row {key!r} is too short for a timestamp (TKV-7)")
            continue
        timestamp: int = unpack_timestamp(row)[0]
        if timestamp == NO_TIMESTAMP:
            continue
        if not 0 <= timestamp <= stream_time:
            problems.add(
                f"the row {key!r} has the timestamp {timestamp}, and the stream time is "
                f"{stream_time} (TKV-5)"
            )
        elif timestamp < floor:
            problems.add(
                f"the row {key!r} has the timestamp {timestamp}, before the floor {floor} that "
                "the sweep trusts (TTL-12)"
            )
