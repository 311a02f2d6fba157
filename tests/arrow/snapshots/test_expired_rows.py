"""Rows that have expired are told from those that have not, by either clock."""

import pyarrow as pa
import pytest

from statestores.arrow.schemas import TIMESTAMPED_ROWS
from statestores.arrow.snapshots import expired_rows
from statestores.arrow.snapshots.expired_rows import expired_up_to_ms, living
from statestores.spi import KeyValue, TimestampedKeyValue, TtlClock

BY_STREAM = TimestampedKeyValue("counts", ttl_ms=10).describe()
BY_WALL = TimestampedKeyValue("counts", ttl_ms=10, ttl_clock=TtlClock.WALL).describe()
NOW_MS = 1_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be `NOW_MS`."""
    monkeypatch.setattr(expired_rows, "wall_clock_ms", lambda: NOW_MS)


@pytest.mark.spec("TTL-10")
def test_the_clock_of_the_store_says_what_has_expired() -> None:
    """Stream time, or the machine's: never what was expired before by the time in a snapshot."""
    assert expired_up_to_ms(BY_STREAM, 70, least_now_ms=5_000) == 60
    assert expired_up_to_ms(BY_WALL, 70) == 990
    assert expired_up_to_ms(BY_WALL, 70, least_now_ms=999) == 990
    assert expired_up_to_ms(BY_WALL, None, least_now_ms=5_000) == 4_990


@pytest.mark.spec("TTL-10")
def test_nothing_has_expired_without_a_time_to_live_or_a_time() -> None:
    """Nor in stores of other kinds."""
    assert expired_up_to_ms(BY_STREAM, None) is None
    assert expired_up_to_ms(TimestampedKeyValue("counts").describe(), 70) is None
    assert expired_up_to_ms(KeyValue("counts").describe(), None) is None


@pytest.mark.spec("TTL-10")
def test_rows_above_the_horizon_live_and_so_do_those_without_a_time() -> None:
    """A row at the horizon has expired."""
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": b"a", "value": b"1", "timestamp": 59},
            {"key": b"b", "value": b"2", "timestamp": 60},
            {"key": b"c", "value": b"3", "timestamp": 61},
            {"key": b"d", "value": b"4", "timestamp": None},
        ],
        TIMESTAMPED_ROWS,
    )

    assert [each["key"].to_pylist() for each in living([batch, batch], 60)] == [[b"c", b"d"]] * 2
    assert list(living([batch], None)) == [batch]
