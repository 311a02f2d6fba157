"""Rewriting the sealed segments of a log without the changes that later ones make void (LOG-18).

Invariants:

* what remains keeps its offset and its order;
* the frames together stand for the same offsets as before, so nothing looks missing;
* until the new segment has its name, nothing of the old ones is touched (LOG-20).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from statestores.changelog.active_segment import ActiveSegment
from statestores.changelog.file_log import FileChangelog
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.merged_frames import MergedFrames
from statestores.changelog.segment_directory import (
    SegmentInfo,
    list_segments,
    read_head,
    remove_files,
)
from statestores.changelog.segment_head import SegmentHead
from statestores.errors import InvalidArgumentError
from statestores.failpoints import reach
from statestores.spi.specification import KeyValue, TimestampedKeyValue, Versioned

_NONE: dict[int, int] = {}


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


class _Survivors(Protocol):
    """Decides which changes remain."""

    def observe(self, frame: Frame) -> None:
        """Take note of the next frame, in the first pass."""

    def decide(self) -> None:
        """Make up the mind, after the first pass."""

    def among(self, frame: Frame) -> list[bool]:
        """Return whether each change of *frame* remains, in the second pass."""


def compact(log: FileChangelog, *, history_retention_ms: int | None = None) -> CompactionReport:
    """Compact the sealed segments of *log* into one; readers go on undisturbed (LOG-19).

    What remains: the last change of each key, and of a timestamped store the one with the highest
    timestamp; of a versioned store the last change of each key and
    time, without the changes that came too late, and without the versions that ended
    *history_retention_ms* or more before the stream time of what is compacted. Deletions remain,
    since the log may be replayed onto any older snapshot; so does the last clear, and nothing
    before it.

    A versioned store's own retention has to be given: what came too late, as in a log that
    `statestores.staged_write` has written, can be told from the rest only by it.

    Memory is about 200 bytes and a key for each distinct key (and time) that is compacted, and a
    few frames. The disk has to hold the old and the new segments for a moment. When it raises, or
    the process dies, the log is as it was, or as it should be.

    Requires: called by the thread that appends. The active segment is left alone; seal it first to
    compact everything.

    Raises:
        StoreClosedError: The log is closed.
        InvalidArgumentError: The retention is negative, or missing, or the store has none.
        ChangelogCorruptedError: A sealed segment is damaged.
        StorageError: The disk is full or failed.
    """
    log.check_open()
    survivors = _survivors_for(log.store_kind, history_retention_ms)
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
    before, cleared_at = 0, None
    for frame in log.read(first, end):
        before += frame.batch.num_rows
        if frame.kind is FrameKind.CLEAR:
            cleared_at = frame.base_offset
            survivors = _survivors_for(log.store_kind, history_retention_ms)
        else:
            survivors.observe(frame)
    survivors.decide()
    reach("compaction.chosen")
    bytes_before = _size(sealed)
    head = SegmentHead(
        store_kind=log.store_kind,
        compression=log.options.compression,
        base_offset=first,
        previous_base=None,
        compacted_to=end,
        position=read_head(sealed[0].path).position,
    )
    after = _write(log.directory, head, log.read(first, end), survivors, cleared_at)
    reach("compaction.published")
    listing = list_segments(log.directory)
    remove_files(listing.covered, log.directory)
    return CompactionReport(
        first_offset=first,
        end_offset=end,
        changes_before=before,
        changes_after=after,
        bytes_before=bytes_before,
        bytes_after=_size([listing.segments[0]]),
    )


def _write(
    directory: Path,
    head: SegmentHead,
    frames: Iterator[Frame],
    survivors: _Survivors,
    cleared_at: int | None,
) -> int:
    """Write what remains of *frames* into the segment of *head*; return how many changes."""
    output = ActiveSegment.create(directory, head)
    try:
        merged = MergedFrames(output, head)
        for frame in frames:
            if cleared_at is not None and frame.last_offset < cleared_at:
                merged.skip(frame)
            elif frame.kind is FrameKind.CLEAR:
                merged.clear(frame)
            else:
                merged.add(frame, pa.array(survivors.among(frame), pa.bool_()))
        merged.finish()
    except BaseException:
        output.discard()
        raise
    reach("compaction.written")
    output.publish_or_discard()
    output.close()
    return merged.changes


def _survivors_for(store_kind: str, history_retention_ms: int | None) -> _Survivors:
    """Return the rule for stores of *store_kind*."""
    if store_kind == Versioned.kind:
        if history_retention_ms is None or history_retention_ms < 0:
            raise InvalidArgumentError(
                "to compact a versioned store's changelog, its history_retention_ms from 0 is "
                f"needed, got {history_retention_ms!r}"
            )
        return _LastOfVersions(history_retention_ms)
    if history_retention_ms is not None:
        raise InvalidArgumentError(
            f"a {store_kind} store has no history retention, got {history_retention_ms!r}; "
            f"only a {Versioned.kind} store has one, and {KeyValue.kind} ones keep the last change"
        )
    return _LastOfStampedKeys() if store_kind == TimestampedKeyValue.kind else _LastOfKeys()


class _LastOfKeys:
    """The last change of each key remains."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def observe(self, frame: Frame) -> None:
        self._last.update(zip(frame.batch.column(0).to_pylist(), frame.offsets, strict=True))

    def decide(self) -> None:
        pass

    def among(self, frame: Frame) -> list[bool]:
        keys, last = frame.batch.column(0).to_pylist(), self._last
        return [last[key] == offset for key, offset in zip(keys, frame.offsets, strict=True)]


class _LastOfStampedKeys(_LastOfKeys):
    """The last change of each key remains, and the one that moved stream time the furthest.

    Without it a replay would see less time pass, and show what has expired (TKV-5). It cannot come
    back to life: a later change of its key remains as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self._highest_ms = -1
        self._highest_at = -1

    def observe(self, frame: Frame) -> None:
        super().observe(frame)
        _, values, timestamps = (column.to_pylist() for column in frame.batch.columns[:3])
        for value, time_ms, offset in zip(values, timestamps, frame.offsets, strict=True):
            if value is not None and time_ms is not None and time_ms > self._highest_ms:
                self._highest_ms, self._highest_at = time_ms, offset

    def among(self, frame: Frame) -> list[bool]:
        remaining = zip(super().among(frame), frame.offsets, strict=True)
        return [last or offset == self._highest_at for last, offset in remaining]


class _LastOfVersions:
    """The last change of each key and time remains, unless it came too late or has expired.

    Too late is what replay refuses: a time below the horizon when the change was made. It must go
    first, because it neither replaces nor ends another version, and because replay might accept
    it once a change before it, which had moved stream time on, is gone.

    An expired deletion goes only together with every older version of its key: they ended before
    it did (decision 15).
    """

    def __init__(self, history_retention_ms: int) -> None:
        self._retention_ms = history_retention_ms
        self._stream_time_ms = -1
        self._last: dict[bytes, dict[int, int]] = {}

    def observe(self, frame: Frame) -> None:
        if frame.batch.num_rows == 0:
            return
        keys, times = frame.batch.column(0).to_pylist(), frame.batch.column(2).to_pylist()
        last, stream_time_ms, retention_ms = self._last, self._stream_time_ms, self._retention_ms
        for key, time_ms, offset in zip(keys, times, frame.offsets, strict=True):
            if time_ms < stream_time_ms - retention_ms:
                continue
            stream_time_ms = max(stream_time_ms, time_ms)
            versions = last.get(key)
            if versions is None:
                last[key] = {time_ms: offset}
            else:
                versions[time_ms] = offset
        self._stream_time_ms = stream_time_ms

    def decide(self) -> None:
        horizon_ms = self._stream_time_ms - self._retention_ms
        for versions in self._last.values():
            if len(versions) > 1:
                for start_ms, end_ms in pairwise(sorted(versions)):
                    if end_ms <= horizon_ms:
                        del versions[start_ms]

    def among(self, frame: Frame) -> list[bool]:
        batch, last = frame.batch, self._last
        keys, times = batch.column(0).to_pylist(), batch.column(2).to_pylist()
        return [
            last.get(key, _NONE).get(time_ms) == offset
            for key, time_ms, offset in zip(keys, times, frame.offsets, strict=True)
        ]


def _size(segments: list[SegmentInfo]) -> int:
    """Return the size of *segments* on disk."""
    return sum(segment.path.stat().st_size for segment in segments)
