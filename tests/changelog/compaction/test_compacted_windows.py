"""What remains of windows and sessions when their changelog is compacted."""

from pathlib import Path

import pytest

from statestores.changelog import FileChangelog, compact
from statestores.errors import InvalidArgumentError
from statestores.spi import Changes

Put = tuple[bytes, int, bytes | None]


def remaining(directory: Path, puts: list[Put], retention_ms: int, *, length_ms: int) -> list[int]:
    """Return the offsets that a compaction leaves of *puts*; sessions have a length."""
    kind = "session" if length_ms else "window"
    with FileChangelog.create(directory, kind) as log:
        for key, time_ms, value in puts:
            if length_ms:
                log.append(Changes([key], [value], [time_ms - length_ms], end_times_ms=[time_ms]))
            else:
                log.append(Changes([key], [value], [time_ms]))
        log.seal()
        compact(log, retention_ms=retention_ms)
        return [offset for frame in log.read() for offset in frame.offsets]


@pytest.mark.spec("LOG-18")
@pytest.mark.parametrize("length_ms", [0, 5], ids=["windows", "sessions"])
@pytest.mark.parametrize(
    ("puts", "retention_ms", "expected"),
    [
        ([(b"a", 10, b"1"), (b"a", 10, b"2"), (b"b", 10, b"3"), (b"a", 11, b"4")], 50, [1, 2, 3]),
        ([(b"a", 10, b"1"), (b"a", 10, None)], 50, [1]),
        ([(b"a", 10, b"1"), (b"a", 59, b"2"), (b"b", 60, b"3")], 50, [1, 2]),
        ([(b"a", 11, b"1"), (b"b", 60, b"2")], 50, [0, 1]),
        ([(b"b", 60, b"1"), (b"a", 10, b"late")], 50, [0]),
        ([(b"b", 60, b"1"), (b"a", 11, b"in time")], 50, [0, 1]),
        ([(b"a", 20, b"1"), (b"b", 100, b"2"), (b"a", 20, b"late"), (b"a", 60, b"3")], 50, [1, 3]),
        ([(b"a", 10, b"1"), (b"b", 10, b"2"), (b"b", 9, b"late")], 0, [0]),
    ],
    ids=["last", "deletion", "expired", "not yet", "late", "in time", "late and last", "at once"],
)
def test_the_last_change_in_time_of_each_that_is_retained_remains(
    directory: Path, puts: list[Put], retention_ms: int, expected: list[int], length_ms: int
) -> None:
    """A window or session that is a retention behind stream time has expired, and not before."""
    assert remaining(directory, puts, retention_ms, length_ms=length_ms) == expected


@pytest.mark.spec("LOG-18")
def test_two_sessions_that_end_at_the_same_time_are_two(directory: Path) -> None:
    """Neither takes the place of the other; a second change of one does."""
    sessions = [(1, 9), (3, 9), (1, 9)]
    with FileChangelog.create(directory, "session") as log:
        for start, end in sessions:
            log.append(Changes([b"k"], [b"v"], [start], end_times_ms=[end]))
        log.seal()
        compact(log, retention_ms=50)

        assert [offset for frame in log.read() for offset in frame.offsets] == [1, 2]


@pytest.mark.parametrize("kind", ["window", "session"])
@pytest.mark.parametrize("retention_ms", [None, -1])
def test_windows_are_not_compacted_without_their_retention(
    directory: Path, kind: str, retention_ms: int | None
) -> None:
    """Without it what came too late cannot be told from the rest."""
    with (
        FileChangelog.create(directory, kind) as log,
        pytest.raises(InvalidArgumentError, match="retention_ms"),
    ):
        compact(log, retention_ms=retention_ms)
