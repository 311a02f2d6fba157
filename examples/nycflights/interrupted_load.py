"""Killing the process that loads the weather, half-way, and finding out what it has left."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from figures import Advance
from killed_process import run_until_killed
from statestores.changelog import changelog_partition
from stores import WEATHER, WEATHER_PARTITIONS, Partitions, partition_of, versions_by_key
from weather_loader import rows_seen

_LOADER = Path(__file__).with_name("weather_loader.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeft:
    """What a kill has left of one partition."""

    partition: int
    """Its number."""

    offset: int | None
    """The committed offset of its changelog."""

    replayed: int
    """Changes that were in the changelog and not yet in the engine."""

    seen: int
    """Rows of the source up to its position."""

    versions: int
    """Versions that it holds, all airports together."""


def load_until_killed(root: Path, backend: str, kill_at: int, advance: Advance) -> int:
    """Start the loader, kill it soon after it has reported *kill_at* rows; return these.

    Raises:
        RuntimeError: It ended by itself before that.
    """
    return run_until_killed(_LOADER, [str(root), "--backend", backend], kill_at, advance)


def what_is_left(partitions: Partitions) -> list[PartitionLeft]:
    """Return what the reopened *partitions* say of themselves."""
    return [
        PartitionLeft(
            partition=number,
            offset=logged.store.committed_offset(changelog_partition(WEATHER.name, number)),
            replayed=logged.restored.changelog_rows,
            seen=rows_seen(logged),
            versions=sum(versions_by_key({number: logged}).values()),
        )
        for number, logged in partitions.items()
    ]


def check_left(left: list[PartitionLeft], weather: pa.Table, reported: int) -> list[str]:
    """Return what is wrong with *left*, in sentences; nothing when it is as it must be.

    Each partition must hold exactly the source rows up to its position that belong to it, and the
    position must reach at least to what the loader had *reported* as committed.
    """
    numbers = partition_of(WEATHER, weather["origin"], WEATHER_PARTITIONS)
    problems = []
    for each in left:
        expected = pc.sum(pc.equal(numbers[: each.seen], each.partition)).as_py() or 0
        if each.versions != expected:
            problems.append(
                f"partition {each.partition} holds {each.versions} versions, and has "
                f"{expected} of the first {each.seen} rows of the source"
            )
        if each.seen < reported:
            problems.append(
                f"partition {each.partition} has seen {each.seen} rows, and {reported} were "
                "reported as committed"
            )
    return problems
