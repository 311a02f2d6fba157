"""What the demo says about a killed load is true, and it can tell when it is not."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from interrupted_load import check_left, load_until_killed, what_is_left
from source_data import read_weather
from stores import WEATHER, create_root, open_partitions, versions_by_key
from weather_loader import CHUNK_ROWS, SOURCE, load_weather

_BACKEND = "sqlite"
_ROWS = 5 * CHUNK_ROWS + 7


@pytest.fixture(scope="module")
def weather() -> pa.Table:
    return read_weather()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_root(tmp_path)
    return tmp_path


def test_a_killed_load_leaves_what_it_reported(root: Path, weather: pa.Table) -> None:
    """A process that is killed keeps all that it has reported, and nothing half-way."""
    reported = load_until_killed(root, _BACKEND, 2 * CHUNK_ROWS, lambda _: None)

    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        left = what_is_left(partitions)
        problems = check_left(left, weather, reported)

    assert reported >= 2 * CHUNK_ROWS
    assert problems == []
    assert {each.seen % CHUNK_ROWS for each in left} == {0}


def test_partitions_resume_where_each_of_them_stands(root: Path, weather: pa.Table) -> None:
    """A kill between the commits of two partitions neither loses nor doubles a row."""
    part = weather.slice(0, _ROWS)
    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        load_weather({1: partitions[1]}, part.slice(0, 2 * CHUNK_ROWS), lambda _: None)
        load_weather({0: partitions[0]}, part.slice(0, 3 * CHUNK_ROWS), lambda _: None)
    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        seen = [each.seen for each in what_is_left(partitions)]
        load_weather(partitions, part, lambda _: None)
        offsets = [each.offset for each in what_is_left(partitions)]
        held = versions_by_key(partitions)

    assert seen == [3 * CHUNK_ROWS, 2 * CHUNK_ROWS]
    counts = part["origin"].value_counts().to_pylist()
    assert held == {count["values"]: count["counts"] for count in counts}
    # One change for each row: a row that came twice would have taken a second offset.
    assert sum(offset + 1 for offset in offsets if offset is not None) == _ROWS


def test_loading_again_changes_nothing(root: Path, weather: pa.Table) -> None:
    """What has been loaded is not loaded again."""
    part = weather.slice(0, _ROWS)
    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        load_weather(partitions, part, lambda _: None)
        once = what_is_left(partitions)
        load_weather(partitions, part, lambda _: None)

        assert what_is_left(partitions) == once


def test_lost_and_doubled_rows_are_found(root: Path, weather: pa.Table) -> None:
    """Fewer or more versions than the position says, or a position behind the report, are told."""
    part = weather.slice(0, _ROWS)
    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        load_weather(partitions, part, lambda _: None)
        left = what_is_left(partitions)

    assert check_left(left, weather, _ROWS) == []
    for wrong in (-1, 1):
        changed = [replace(left[0], versions=left[0].versions + wrong), left[1]]
        assert len(check_left(changed, weather, _ROWS)) == 1
    assert len(check_left(left, weather, _ROWS + 1)) == len(left)


def test_a_loader_that_ends_by_itself_is_an_error(root: Path, weather: pa.Table) -> None:
    """A demo in which nothing was killed must not say that something was.

    This one has nothing to do: its stores say that they have seen all of the weather.
    """
    with open_partitions(root, WEATHER.name, _BACKEND) as partitions:
        for logged in partitions.values():
            logged.commit({SOURCE: weather.num_rows - 1})
    with pytest.raises(RuntimeError, match="ended by itself with 0"):
        load_until_killed(root, _BACKEND, weather.num_rows + 1, lambda _: None)


def test_weather_arrives_in_the_same_disorder_each_time(weather: pa.Table) -> None:
    """Row numbers are positions, so the loader must read the same rows in the same order."""
    assert weather.equals(read_weather())
    assert weather["row"].to_pylist() == list(range(weather.num_rows))
    assert pc.min(pc.pairwise_diff(weather["time_ms"].combine_chunks())).as_py() < 0
