"""What a snapshot has left out because it had expired, or has and that has expired since (TTL-10).

The wall clock goes on, and a time to live may be changed (TTL-9). So two contents of one commit may
differ in what has expired for one of them, and are held against each other in what is above.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi.specification import TtlClock


def expired_up_to_ms(
    description: Mapping[str, str | int],
    stream_time_ms: int | None,
    *,
    least_now_ms: int = 0,
) -> int | None:
    """Return up to which timestamp rows of a store have expired by now, which is never before.

    *description* is the specification in stored form. ``None`` says that no row has expired.
    """
    ttl_ms = description.get("ttl_ms")
    if not isinstance(ttl_ms, int) or ttl_ms == 0:  # which stands for none
        return None
    is_wall = description["ttl_clock"] == TtlClock.WALL.value
    now_ms = max(wall_clock_ms(), least_now_ms) if is_wall else stream_time_ms
    return None if now_ms is None else now_ms - ttl_ms


def living(batches: Iterable[pa.RecordBatch], horizon_ms: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose timestamp is above *horizon_ms*, and those without one."""
    if horizon_ms is None:
        yield from batches
        return
    horizon = pa.scalar(horizon_ms, pa.int64())
    for batch in batches:
        times = batch.column("timestamp")
        yield batch.filter(pc.or_kleene(pc.is_null(times), pc.greater(times, horizon)))
