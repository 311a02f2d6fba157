"""Rewriting the sealed segments of a log without the changes that later ones make void (LOG-18).

Invariants:

* what remains keeps its offset and its order;
* the frames together stand for the same offsets as before, so nothing looks missing;
* until the new segment has its name, the old ones are not touched (LOG-20).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from statestores.changelog.file_log import FileChangelog
from statestores.changelog.frame import Frame
from statestores.changelog.merged_frames import MergedFrames
from statestores.changelog.segments.active_segment import ActiveSegment
from statestores.changelog.segments.segment_directory import (
    SegmentInfo,
    list_segments,
    read_head,
    remove_files,
)
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.survivors import Choice, Survivors, choose, survivors_for
from statestores.failpoints import reach
from statestores.files.failures import storage_error


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What a compaction has done."""

    first_offset: int
    """The first offset of what was compacted."""

    end_offset: int
    """The offset after the last; equal to the first when there was nothing to do."""

    changes_before: int
    """Changes that were there."""

    changes_after: int
    """Changes that remain."""

    bytes_before: int
    """The size of the sealed segments."""

    bytes_after: int
    """The size of the one that has replaced them."""


def compact(
    log: FileChangelog,
    *,
    history_retention_ms: int | None = None,
    retention_ms: int | None = None,
) -> CompactionReport:
    """Compact the sealed segments of *log* into one; readers go on undisturbed (LOG-19).

    What remains: the last change of each key, and of a timestamped store the one with the highest
    timestamp; of a versioned store the last change of each key and time, without the changes that
    came too late, and without the versions that ended *history_retention_ms* or more before the
    stream time of what is compacted; of window and session stores the last change of each window
    or session, without those that came too late or are *retention_ms* or more behind stream time.
    Deletions remain, since the log may be replayed onto any older snapshot; so does the last
    clear, and nothing before it.

    Pass the store's own retention where it has one: only with it can what came too late, as in a
    log that `statestores.staging.staged_write` has written, be told from the rest.

    Memory is about 200 bytes and a key for each distinct key (and time) that is compacted, and a
    few frames. The disk must hold the old and the new segments for a moment. When it raises, or
    the process dies, the log is as it was, or as it should be.

    Requires: called by the thread that appends. The active segment is left alone; seal it first to
    compact everything.

    Raises:
        StoreClosedError: The log is closed.
        InvalidArgumentError: A retention is negative, or missing, or the store has none.
        ChangelogCorruptedError: A sealed segment is damaged.
        StorageError: The disk is full or failed.
    """
    log.check_open()

    def rule() -> Survivors:
        return survivors_for(log.store_kind, history_retention_ms, retention_ms)

    rule()  # retentions are judged even where nothing is compacted
    *sealed, active = log.segments()
    first, end = (sealed[0] if sealed else active).first_offset, active.first_offset
    if not sealed or (len(sealed) == 1 and sealed[0].compacted):
        return CompactionReport(
            first_offset=first,
            end_offset=first,
            changes_before=0,
            changes_after=0,
            bytes_before=0,
            bytes_after=0,
        )
    choice = choose(log.read(first, end), rule)
    reach("compaction.chosen")
    bytes_before = _size(sealed)
    head = SegmentHead(
        store_kind=log.store_kind,
        compression=log.options.compression,
        base_offset=first,
        previous_base=None,
        compacted_to=end,
        position=read_head(sealed[0].path).position,
        partition=log.partition,
    )
    after = _write(log.directory, head, log.read(first, end), choice)
    reach("compaction.published")
    listing = list_segments(log.directory)
    remove_files(listing.covered, log.directory)
    return CompactionReport(
        first_offset=first,
        end_offset=end,
        changes_before=choice.changes,
        changes_after=after,
        bytes_before=bytes_before,
        bytes_after=_size([listing.segments[0]]),
    )


def _write(directory: Path, head: SegmentHead, frames: Iterator[Frame], choice: Choice) -> int:
    """Write what remains of *frames* into the segment of *head*; return how many changes."""
    output = ActiveSegment.create(directory, head)
    try:
        merged = MergedFrames(output, head)
        merged.merge(frames, choice)
        reach("compaction.written")
    except BaseException:
        output.discard()
        raise
    output.publish_or_discard()
    output.close()
    return merged.changes


def _size(segments: list[SegmentInfo]) -> int:
    """Return the size of *segments* on disk.

    Raises:
        StorageError: The size of one cannot be read.
    """
    total = 0
    for segment in segments:
        try:
            total += segment.path.stat().st_size
        except OSError as error:
            raise storage_error("look at", segment.path, error) from error
    return total
