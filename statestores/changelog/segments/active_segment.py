"""The segment that is being written: append whole frames, or nothing (LOG-5, LOG-14, LOG-15)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from statestores.changelog.segments.segment_directory import (
    TEMPORARY_SUFFIX,
    make_names_durable,
    segment_name,
)
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.errors import CommitInDoubtError, StorageError
from statestores.failpoints import reach
from statestores.files.failures import storage_error

_NOT_CUT = "what an interrupted append left could not be cut (another interrupt)"


class ActiveSegment:
    """The last segment of a log, open for appending; also a compaction's output."""

    __slots__ = ("_descriptor", "_failure", "end", "frames_at", "path")

    def __init__(self, path: Path, descriptor: int, frames_at: int, end: int) -> None:
        self.path = path
        self.frames_at = frames_at
        """Where the first frame begins."""
        self.end = end
        """Where the next frame will begin: everything before is whole frames."""
        self._descriptor = descriptor
        self._failure: str | None = None

    @classmethod
    def open(cls, path: Path, frames_at: int, end: int) -> Self:
        """Open the segment *path*, whose frames end at *end*, and cut what comes after.

        What is kept is durable when this returns: a crash may have left frames that are written
        but not yet on disk, and what is built on them must not outlive them (LOG-12).

        Raises:
            StorageError: It cannot be written.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_size != end:
                    os.ftruncate(descriptor, end)
                    reach("changelog.open.cut")
                os.fsync(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise storage_error("open", path, error) from error
        return cls(path, descriptor, frames_at, end)

    @classmethod
    def create(cls, directory: Path, head: SegmentHead) -> Self:
        """Create the segment of *head* under a temporary name; `publish` gives it its own.

        Raises:
            StorageError: It cannot be written.
        """
        name = segment_name(head.base_offset)
        path = (directory / name).with_suffix(TEMPORARY_SUFFIX)
        packed = head.pack()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise storage_error("create", path, error) from error
        segment = cls(path, descriptor, len(packed), 0)
        try:
            segment.append([packed])
        except BaseException:
            segment.discard()
            raise
        return segment

    def publish(self) -> None:
        """Give a created segment its name, whole and durable, replacing whatever had it (ASM-6).

        Raises:
            StorageError: It cannot be named. `is_published` says whether it has its name anyway.
        """
        self.wait_for_disk()
        reach("changelog.segment.durable")
        name = self.path.name.removesuffix(TEMPORARY_SUFFIX)
        path = self.path.with_name(f"{name}.log")
        try:
            self.path.replace(path)
        except OSError as error:
            raise storage_error("rename", self.path, error) from error
        self.path = path
        reach("changelog.segment.renamed")
        make_names_durable(path.parent)
        reach("changelog.segment.published")

    def publish_or_discard(self) -> None:
        """Publish; when that fails, leave nothing open and no temporary file behind.

        Raises:
            StorageError: As `publish`.
        """
        try:
            self.publish()
        except BaseException:
            if self.is_published:
                self.close()
            else:
                self.discard()
            raise

    def is_of_size(self, size: int) -> bool:
        """Return whether the file of its name is this one still, and has *size* bytes.

        Raises:
            StorageError: It cannot be told.
        """
        try:
            named, opened = self.path.stat(), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error("read", self.path, error) from error
        return os.path.samestat(named, opened) and named.st_size == size

    def append(self, parts: Sequence[bytes | pa.Buffer], *, durable: bool = False) -> None:
        """Append *parts*, one frame; when it raises, either none of it stays or `end` is past it.

        Raises:
            StorageError: The disk is full or failed.
            CommitInDoubtError: Nobody can tell what is on the disk, now or since an earlier
                append failed.
        """
        if self._failure is not None:
            raise CommitInDoubtError(
                f"{str(self.path)!r} takes no more appends since {self._failure}; close the "
                "changelog and open it again, which finds out what is on disk"
            )
        try:
            length = sum(map(len, parts))
            written = os.pwritev(self._descriptor, parts, self.end)
            while written < length:
                written += os.pwritev(self._descriptor, _rest(parts, written), self.end + written)
            if durable:
                reach("changelog.append.written")
                self.wait_for_disk()
                reach("changelog.append.durable")
            self.end += length
        except BaseException as error:  # also an interrupt: before `end` moves on, or after
            # Noted without a call, since a second interrupt may be waiting for one.
            known, self._failure = self._failure, _NOT_CUT
            self._cut_back()
            if self._failure is _NOT_CUT:
                self._failure = known
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise self._append_error(error) from error
            raise

    def _append_error(self, error: OSError) -> StorageError:
        """Return the error for a failed write, once what it left has been cut."""
        failed = storage_error("append to", self.path, error)
        return failed if self._failure is None else CommitInDoubtError(str(failed))

    def wait_for_disk(self) -> None:
        """Wait until everything before now is on disk (ASM-1).

        After a failure nobody knows what is: the kernel may have dropped what it could not write,
        earlier appends included, and would not report it again. So there is no second attempt.

        Raises:
            CommitInDoubtError: It did not get there. The segment takes no more appends.
        """
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._failure = f"the disk failed ({error.strerror or error})"
            self._cut_back()
            failed = storage_error("make durable, and so append no more to,", self.path, error)
            raise CommitInDoubtError(str(failed)) from error

    def refuse_appends(self, failure: str) -> None:
        """Take no more appends, because of *failure*, until the log is opened again."""
        self._failure = failure

    @property
    def is_published(self) -> bool:
        """Whether the file has the name of a segment."""
        return not self.path.name.endswith(TEMPORARY_SUFFIX)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def discard(self) -> None:
        """Close and remove a segment that was not published.

        Raises:
            StorageError: It cannot be removed.
        """
        self.close()
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error("remove", self.path, error) from error

    def _cut_back(self) -> None:
        """Cut off what an append has left; if that fails, append no more.

        The next frame would go into the middle of it, and a shorter one would leave a remainder.
        """
        try:
            os.ftruncate(self._descriptor, self.end)
        except OSError as error:
            self._failure = (
                f"what a failed append left could not be cut ({error.strerror or error})"
            )


def _rest(parts: Sequence[bytes | pa.Buffer], written: int) -> list[bytes | pa.Buffer]:
    """Return what remains of *parts* after the first *written* bytes."""
    rest: list[bytes | pa.Buffer] = []
    for part in parts:
        if written >= len(part):
            written -= len(part)
        else:
            rest.append(part[written:])
            written = 0
    return rest
