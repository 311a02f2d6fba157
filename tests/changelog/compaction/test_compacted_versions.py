"""What remains of versions and of timestamped values when their changelog is compacted."""

from pathlib import Path

import pytest

from statestores.changelog import FileChangelog, compact
from statestores.changelog.rows import RECORDS
from statestores.changelog.survivors import survivors_for
from statestores.errors import InvalidArgumentError
from statestores.spi import Changes

Versions = list[tuple[bytes, int, bytes | None]]
Stamped = list[tuple[bytes, int | None, bytes | None]]


def compacted(log: FileChangelog, retention_ms: int | None = None) -> list[int]:
    """Compact all of *log*, and return the offsets that remain."""
    log.seal()
    compact(log, history_retention_ms=retention_ms)
    return [offset for frame in log.read() for offset in frame.offsets]


@pytest.mark.spec("LOG-18")
@pytest.mark.parametrize(
    ("puts", "expected"),
    [
        ([(b"a", 60, b"1"), (b"b", 10, b"at the horizon")], [0, 1]),
        ([(b"a", 60, b"1"), (b"b", 9, b"late")], [0]),
        ([(b"a", 10, b"1"), (b"a", 20, b"2"), (b"b", 70, b"3")], [1, 2]),
        ([(b"a", 10, b"1"), (b"a", 21, b"2"), (b"b", 70, b"3")], [0, 1, 2]),
        ([(b"a", 0, b"1"), (b"a", 0, b"2")], [1]),
        ([(b"a", 10, b"the only one"), (b"b", 100, b"2")], [0, 1]),
        ([(b"b", 100, b"1"), (b"a", 20, b"late"), (b"a", 60, b"2")], [0, 2]),
    ],
    ids=["horizon", "late", "ended", "not yet", "beginning", "only", "late and last"],
)
def test_versions_that_a_read_within_the_retention_may_find_remain(
    directory: Path, puts: Versions, expected: list[int]
) -> None:
    """One at the horizon came in time: without it a read as of then finds the one before."""
    with FileChangelog.create(directory, "versioned") as log:
        for key, time_ms, value in puts:
            log.append(Changes([key], [value], [time_ms]))

        assert compacted(log, 50) == expected


@pytest.mark.spec("LOG-18", "TKV-5")
@pytest.mark.parametrize(
    ("puts", "expected"),
    [
        ([(b"a", 5, b"1"), (b"a", 9, b"highest"), (b"b", 7, b"2"), (b"a", 6, b"3")], [1, 2, 3]),
        ([(b"a", 0, b"highest"), (b"a", None, None)], [0, 1]),
        ([(b"a", None, None), (b"b", 3, b"1")], [0, 1]),
        ([(b"a", 3, b"1"), (b"b", 2, b"2"), (b"b", 1, b"3")], [0, 2]),
        ([(b"a", None, None), (b"b", None, None), (b"a", None, None)], [1, 2]),
    ],
    ids=["overwritten", "deleted", "deletion first", "still last", "deletions alone"],
)
def test_of_timestamped_values_the_one_of_the_stream_time_remains_too(
    directory: Path, puts: Stamped, expected: list[int]
) -> None:
    """Without it a replay sees less time pass, and shows what has expired."""
    with FileChangelog.create(directory, "timestamped-key-value") as log:
        for key, time_ms, value in puts:
            log.append(Changes([key], [value], timestamps_ms=[time_ms]))

        assert compacted(log) == expected


@pytest.mark.spec("LOG-18")
def test_a_window_at_the_beginning_of_time_remains_without_any_retention(directory: Path) -> None:
    """It says what the stream time is."""
    with FileChangelog.create(directory, "window") as log:
        log.append(Changes([b"a"], [b"1"], [0]))
        log.seal()
        compact(log, retention_ms=0)

        assert [offset for frame in log.read() for offset in frame.offsets] == [0]


def test_a_log_of_records_has_no_rule() -> None:
    """Each of them counts, also several of one key."""
    with pytest.raises(InvalidArgumentError, match="a log of records is not compacted"):
        survivors_for(RECORDS, None, None)
