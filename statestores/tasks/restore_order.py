"""The order in which tasks are restored: what will be ready soonest comes first (decision 0052).

Estimated from the sizes of files, so that nothing is opened for it.
"""

from collections.abc import Iterator
from pathlib import Path

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.changelog.segments.segment_directory import SUFFIX
from statestores.state_root import PartitionDirectory


def bytes_to_restore(source: PartitionDirectory, next_offset: int | None) -> int:
    """Return about how many bytes are between an engine that stands at *next_offset* and its log.

    ``None`` when nobody knows where it stands: then it is all of them, with the newest snapshot.
    """
    segments = sorted(_segments(source.changelog))
    size = 0
    for number, (_, length) in enumerate(segments, 1):
        is_last = number == len(segments)
        if next_offset is None or is_last or segments[number][0] > next_offset:
            size += length
    snapshots = list_snapshots(source.snapshots)
    if next_offset is None and snapshots:
        newest = snapshots[max(snapshots)]
        size += sum(length for length in map(_size, newest.glob("*")))
    return size


def _segments(directory: Path) -> Iterator[tuple[int, int]]:
    """Yield base offset and size of each segment."""
    for path in directory.glob(f"*{SUFFIX}"):
        if path.stem.isdecimal():
            yield int(path.stem), _size(path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # replaced since
