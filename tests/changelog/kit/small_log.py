"""A small changelog of three frames, for the tests that damage it."""

from pathlib import Path

from statestores.changelog import ChangelogOptions, Compression, FileChangelog, ReadOnlyChangelog
from statestores.spi import Changes, Durability, Position, TopicPartition

FIRST = "00000000000000000000.log"
NOSYNC = Durability.PROCESS_CRASH
CLICKS = TopicPartition("clicks", 0)

Row = tuple[int, bytes, bytes | None]

ROWS: list[list[Row]] = [
    [(0, b"a", b"1"), (1, b"b", None)],
    [(2, b"c", b"3" * 40)],
    [(3, b"a", b"4"), (4, b"b", b""), (5, b"", b"6")],
]
"""The rows of each frame of the small log."""

BEGINNINGS = range(len(ROWS) + 1)


def write(directory: Path, segment_bytes: int = 1 << 20) -> list[int]:
    """Write the small log; return where each frame of its last segment ends, head included."""
    options = ChangelogOptions(segment_bytes=segment_bytes, compression=Compression.NONE)
    with FileChangelog.create(directory, "key-value", options) as log:
        ends = [log._end.active.end]
        for rows in ROWS:
            columns = Changes([key for _, key, _ in rows], [value for *_, value in rows])
            position = Position({CLICKS: rows[-1][0]})
            log.append(columns, position=position, durability=NOSYNC)
            ends.append(log._end.active.end)
    return ends


def frames_in(log: ReadOnlyChangelog) -> list[list[Row]]:
    """Return the rows of each frame."""
    return [
        list(zip(frame.offsets, frame.changes.keys, frame.changes.values, strict=True))
        for frame in log.read()
    ]
