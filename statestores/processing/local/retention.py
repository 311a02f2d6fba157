"""How long a topic keeps its records, and which of its segments are therefore to go (PRC-66).

Records go in whole segments, the oldest first. Nobody decides here about records that a task has
not committed: those stay, whatever the retention says.
"""

from dataclasses import dataclass
from pathlib import Path

from statestores.changelog.segments.segment_directory import list_segments
from statestores.errors import InvalidArgumentError, StorageError
from statestores.processing.windows import check_count, check_duration
from statestores.semantics.expiry.wall_clock import wall_clock_ms

SEAL_BYTES = 8 * 1024 * 1024
"""At which size a segment is closed, of a topic whose records go when they are committed."""

_SHARE = 4
"""A limit of bytes is kept by that many segments or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a topic may lose: records that are too old, or too many."""

    after_ms: int | None = None
    """How long after it was appended a record may go, whatever its own time is."""

    max_bytes: int | None = None
    """How much each partition may take on the disk; the oldest records beyond that may go."""

    def __post_init__(self) -> None:
        """Refuse a retention that says nothing, or no amounts.

        Raises:
            InvalidArgumentError: It does.
        """
        if self.after_ms is None and self.max_bytes is None:
            raise InvalidArgumentError(
                "a Retention says after_ms, max_bytes or both; without one, records stay"
            )
        if self.after_ms is not None:
            check_duration("after_ms", self.after_ms, least=1)
        if self.max_bytes is not None:
            check_count("max_bytes", self.max_bytes)


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be done to a log."""

    seals: bool
    """Whether its last segment is to be closed, so that it can go."""

    before: int
    """Up to which offset whole segments may go."""


def removal_of(directory: Path, keep_from: int, retention: Retention | None) -> Removal | None:
    """Return what may go from the log in *directory*; ``None`` if nothing does.

    Nothing at or behind *keep_from* goes. Without a *retention*, all before it does.

    Raises:
        ChangelogCorruptedError, StorageError: The directory cannot be read.
    """
    segments = list_segments(directory).segments
    if not segments:
        return None
    sizes, ages = [], []
    now_ms = wall_clock_ms()
    for segment in segments:
        try:
            about = segment.path.stat()
        except FileNotFoundError:
            return None  # another process removes some just now
        except OSError as error:
            raise StorageError(
                f"cannot look at {str(segment.path)!r}: {error.strerror or error}"
            ) from error
        sizes.append(about.st_size)
        ages.append(now_ms - about.st_mtime_ns // 1_000_000)
    after_ms = None if retention is None else retention.after_ms
    max_bytes = None if retention is None else retention.max_bytes
    total, before = sum(sizes), segments[0].first_offset
    for segment, size, age_ms in zip(segments[:-1], sizes, ages, strict=False):
        is_old = after_ms is not None and age_ms > after_ms
        is_much = max_bytes is not None and total > max_bytes
        end = segment.end_offset
        if end is None or end > keep_from or not (retention is None or is_old or is_much):
            break
        total, before = total - size, end
    limit = SEAL_BYTES if max_bytes is None else min(SEAL_BYTES, max_bytes // _SHARE)
    is_long = (retention is None or max_bytes is not None) and sizes[-1] >= limit
    seals = is_long or (after_ms is not None and ages[-1] > after_ms)
    if not seals and before == segments[0].first_offset:
        return None
    return Removal(seals, before)
