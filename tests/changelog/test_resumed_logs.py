"""A log that was paused, and is resumed where others have left it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statestores.changelog import ChangelogReader, FileChangelog, OffsetRange, compact
from statestores.errors import StorageError, StoreClosedError, StoreLockedError
from statestores.spi import Changes


def one(value: bytes) -> Changes:
    """Return one change of the only key."""
    return Changes([b"k"], [value])


def seal(other: FileChangelog) -> None:
    """Begin another segment, and leave it empty."""
    other.append(one(b"theirs"))
    other.seal()


def compact_all(other: FileChangelog) -> None:
    """Have the segment that was the last one replaced, or removed."""
    seal(other)
    compact(other)


def compact_and_append(other: FileChangelog) -> None:
    """The same, and one frame more."""
    compact_all(other)
    other.append(one(b"theirs too"))


@pytest.mark.spec("LOG-13", "LOG-19")
@pytest.mark.parametrize("sealed", [0, 1], ids=["replaced", "removed"])
@pytest.mark.parametrize("meanwhile", [seal, compact_all, compact_and_append])
def test_a_log_is_resumed_after_its_last_segment_was_sealed(
    directory: Path, meanwhile: Callable[[FileChangelog], None], sealed: int
) -> None:
    """Whether that is there still, or another one has its name, or none: it goes on at the end."""
    with FileChangelog.create(directory, "key-value") as log:
        for _ in range(sealed):
            log.append(one(b"before"))
            log.seal()
        log.append(one(b"mine"))
        log.pause()
        with FileChangelog.open(directory, "key-value") as other:
            meanwhile(other)
            end = other.end_offset
        log.resume()

        assert log.end_offset == end
        assert log.append(one(b"mine again")) == OffsetRange(end, end)
    with ChangelogReader.open(directory) as reader:
        assert reader.end_offset == end + 1
        assert [frame.changes.values for frame in reader.read(end)] == [[b"mine again"]]


def test_a_log_that_cannot_be_looked_at_stays_paused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is ours; nobody is kept out by it, and the next attempt succeeds."""
    genuine = Path.stat

    def fail(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.suffix == ".log":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return genuine(path, follow_symlinks=follow_symlinks)

    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"mine"))
        log.pause()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", fail)
            with pytest.raises(StorageError, match="cannot read"):
                log.resume()
        with pytest.raises(StoreClosedError, match="is paused"):
            log.append(one(b"too early"))
        with FileChangelog.open(directory, "key-value") as other:
            other.append(one(b"theirs"))
            with pytest.raises(StoreLockedError):
                log.resume()
        log.resume()

        assert log.append(one(b"mine again")) == OffsetRange(2, 2)
