"""The directory of a changelog: which segments there are, and which of them count (LOG-20).

A segment is named for its base offset, in twenty digits. A compacted segment replaces the first one
under the same name, and what it covers beyond that no longer counts, whether it is there or not.
"""

import os
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.errors import ChangelogCorruptedError, StorageError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable
from statestores.files.failures import storage_error
from statestores.spi.offsets import TopicPartition

SUFFIX = ".log"
TEMPORARY_SUFFIX = ".log.tmp"
_DIGITS = 20
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment that counts."""

    path: Path
    """The file."""

    first_offset: int
    """The first offset that it stands for."""

    end_offset: int | None
    """The offset after the last; ``None`` for the last segment, which still grows."""

    compacted: bool
    """Whether later changes have made some of its changes void, and they are gone."""


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """What the directory of a changelog holds. Paths are made for what is asked for."""

    directory: Path
    """The directory."""

    bases: list[int]
    """The base offsets of the segments that count, in order."""

    compacted: bool = False
    """Whether the first one is compacted."""

    covered_bases: tuple[int, ...] = ()
    """Those of segments that a compacted one has replaced."""

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """The segments that count, in the order of their offsets."""
        return tuple(self._info(at) for at in range(len(self.bases)))

    @property
    def last(self) -> Path | None:
        """The file of the last segment that counts; ``None`` when there is none."""
        return self.directory / segment_name(self.bases[-1]) if self.bases else None

    @property
    def covered(self) -> tuple[Path, ...]:
        """Segments that a compacted one has replaced, left by a crash or removed just now."""
        return tuple(self.directory / segment_name(base) for base in self.covered_bases)

    def holding(self, offset: int) -> SegmentInfo | None:
        """Return the segment that stands for *offset*; ``None`` when it begins after it."""
        at = bisect_right(self.bases, offset) - 1
        return None if at < 0 else self._info(at)

    def _info(self, at: int) -> SegmentInfo:
        base = self.bases[at]
        end = self.bases[at + 1] if at + 1 < len(self.bases) else None
        compacted = self.compacted and at == 0
        return SegmentInfo(self.directory / segment_name(base), base, end, compacted)


def segment_name(base_offset: int) -> str:
    """Return the name of the segment that begins at *base_offset*."""
    return f"{base_offset:0{_DIGITS}d}{SUFFIX}"


def has_segments(directory: Path) -> bool:
    """Return whether *directory* has segments, whatever their state.

    Raises:
        ChangelogCorruptedError: A file is named like a segment and is not one.
        StorageError: The directory cannot be read.
    """
    return bool(_bases(directory))


def list_segments(directory: Path) -> SegmentListing:
    """Return the segments of *directory*; empty when it has none, or is not there.

    Takes no lock: what a writer changes meanwhile may show up, or not yet.

    Raises:
        ChangelogCorruptedError: A file is named like a segment and is not one, or the end of a
            compacted segment is not where another one begins.
        UnsupportedFormatError: The first one is of a version that is not known here.
        StorageError: The directory cannot be read.
    """
    for _ in range(_ATTEMPTS):
        bases = _bases(directory)
        if not bases:
            return SegmentListing(directory, [])
        try:
            head = read_head(directory / segment_name(bases[0]))
        except FileNotFoundError:
            continue  # deleted since the directory was read
        return _listing(directory, bases, head)
    raise StorageError(
        f"the segments of {str(directory)!r} change faster than they can be listed; try again"
    )


def read_head(path: Path, partition: TopicPartition | None = None) -> SegmentHead:
    """Return the head of the segment *path*, the one that its name says, and of *partition*.

    Raises:
        FileNotFoundError: It is not there, or no longer.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: As `Segment.open`.
    """
    with Segment.open(path) as segment:
        check_name(segment, partition)
        return segment.head


def check_name(segment: Segment, partition: TopicPartition | None = None) -> None:
    """Accept a segment whose head and name agree, and that says nothing but *partition* (LAY-33).

    Raises:
        ChangelogCorruptedError: The file has been renamed, or has the changes of another partition.
    """
    if segment.path.name != segment_name(segment.head.base_offset):
        raise ChangelogCorruptedError(
            f"the changelog segment {str(segment.path)!r} begins at offset "
            f"{segment.head.base_offset}: it is another segment under this name"
        )
    named = segment.head.partition
    if named is not None and partition is not None and named != partition:
        raise ChangelogCorruptedError(
            f"the changelog segment {str(segment.path)!r} has the changes of {shown(named)}, and "
            f"lies where those of {shown(partition)} belong: files were swapped or copied; put the "
            "partition's own back"
        )


def shown(partition: TopicPartition) -> str:
    """Return *partition* as messages show it."""
    return f"{partition.topic!r}, partition {partition.partition}"


def make_names_durable(directory: Path) -> None:
    """Wait until the names in *directory* are on disk (ASM-6).

    Raises:
        StorageError: They cannot be made durable.
    """
    try:
        make_durable(directory)
    except OSError as error:
        raise storage_error("make durable", directory, error) from error


def remove_files(paths: tuple[Path, ...], directory: Path) -> None:
    """Remove *paths* in their order, durably. One that is gone already is no error.

    Raises:
        StorageError: One cannot be removed.
    """
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error("remove", path, error) from error
        reach("changelog.removed")
    if paths:
        make_names_durable(directory)


def may_be_there(path: Path) -> bool:
    """Return whether there is a file *path*; ``True`` also when nobody can tell."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def leftovers(directory: Path) -> tuple[Path, ...]:
    """Return the temporary files that a crash has left in *directory*.

    Raises:
        StorageError: The directory cannot be read.
    """
    return tuple(
        directory / name for name in sorted(_names(directory)) if name.endswith(TEMPORARY_SUFFIX)
    )


def _names(directory: Path) -> list[str]:
    """Return the names in *directory*; none when it is not there."""
    try:
        return os.listdir(directory)  # noqa: PTH208  # a path for each name costs more than all else
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error("list", directory, error) from error


def _bases(directory: Path) -> list[int]:
    """Return the base offsets that the names in *directory* give, in order."""
    bases = []
    for name in _names(directory):
        if not name.endswith(SUFFIX):
            continue
        digits = name.removesuffix(SUFFIX)
        if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
            raise ChangelogCorruptedError(
                f"{str(directory / name)!r} is not the name of a changelog segment, which is "
                f"{_DIGITS} digits and {SUFFIX!r}; move the file away"
            )
        bases.append(int(digits))
    return sorted(bases)


def _listing(directory: Path, bases: list[int], first: SegmentHead) -> SegmentListing:
    """Return the segments that count, and those that the first one covers."""
    end = first.compacted_to
    if end is None:
        return SegmentListing(directory, bases)
    covered = tuple(base for base in bases[1:] if base < end)
    counting = [bases[0], *bases[1 + len(covered) :]]
    if counting[1:2] != [end]:
        raise ChangelogCorruptedError(
            f"the changelog segment {segment_name(end)!r} is missing in "
            f"{str(directory)!r}: {segment_name(bases[0])!r} ends there; restore the file, or "
            "the store from a snapshot or a standby"
        )
    return SegmentListing(directory, counting, compacted=True, covered_bases=covered)
