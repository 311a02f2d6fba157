"""Which of several snapshots is used: the newest that is whole, and why others were not (SNP-7)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.errors import (
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.files.presence import look_for


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """The newest snapshot that is whole, and why newer ones are not it."""

    snapshot: Snapshot | None
    """The newest valid one; ``None`` when there is none."""

    refused: dict[Path | str, SnapshotCorruptedError | UnsupportedFormatError]
    """The newer ones that cannot be used, by their places, with the reason of each."""

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say which snapshots were passed over when the block finds that something is missing.

        Without that, the error would tell people to look for a snapshot that is there.

        Raises:
            SnapshotCorruptedError: Something is missing, and a snapshot cannot be used.
        """
        try:
            yield
        except OffsetOutOfRangeError as error:
            if not self.refused:
                raise
            raise SnapshotCorruptedError(
                f"{error}; {passed_over(self.refused.values())}"
            ) from error


def passed_over(refused: Iterable[Exception]) -> str:
    """Return in words which snapshots cannot be used; each reason names a path."""
    return f"passed over: {'; '.join(map(str, refused))}"


def newest_valid_snapshot(
    directory: str | PathLike[str], *, to_offset: int | None = None
) -> SnapshotChoice:
    """Return the newest snapshot in *directory* that passes `Snapshot.verify` (SNP-7).

    Those that do not are skipped, and returned with the reason. *to_offset* leaves out the
    snapshots above it.

    Raises:
        StorageError: The directory or a file cannot be read: that is no damage, and no reason to
            take an older one.
    """
    return newest_valid(
        each
        for each in reversed(listed_in(directory))
        if to_offset is None or each.offset <= to_offset
    )


class ListedSnapshot(NamedTuple):
    """A snapshot as a listing has it: nobody has looked into it yet."""

    offset: int
    """The offset that it is named for."""

    place: Path | str
    """The directory that it is in, or its URL in an object store."""

    read: Callable[[], Snapshot]
    """Gives it as `read_snapshot` does, with the same errors."""


def listed_in(directory: str | PathLike[str]) -> list[ListedSnapshot]:
    """Return the snapshots in *directory* by offset, ascending, without looking into them.

    Raises:
        StorageError: The directory cannot be read.
    """
    return [
        ListedSnapshot(offset, path, partial(read_snapshot, path))
        for offset, path in list_snapshots(directory).items()
    ]


def newest_valid(listed: Iterable[ListedSnapshot]) -> SnapshotChoice:
    """Return the first of *listed*, newest first, that passes `Snapshot.verify` (SNP-7).

    Raises:
        StorageError: One cannot be read.
    """
    refused: dict[Path | str, SnapshotCorruptedError | UnsupportedFormatError] = {}
    for each in listed:
        try:
            snapshot = read_listed(each, lambda snapshot: snapshot.verify())
        except (SnapshotCorruptedError, UnsupportedFormatError) as error:
            refused[each.place] = error
        else:
            if snapshot is not None:
                return SnapshotChoice(snapshot, refused)
    return SnapshotChoice(None, refused)


def read_listed(
    each: ListedSnapshot, check: Callable[[Snapshot], object] | None = None
) -> Snapshot | None:
    """Return the snapshot of *each*, which *check* accepts; ``None`` if it has been removed since.

    Raises:
        SnapshotCorruptedError, UnsupportedFormatError, StorageError: It is there, and cannot be
            read, or *check* has raised.
    """
    snapshot = None
    try:
        snapshot = each.read()
        if check is not None:
            check(snapshot)
    except StoreNotFoundError:
        return None
    except (SnapshotCorruptedError, UnsupportedFormatError, StorageError):
        if is_gone(each.place, snapshot):
            return None
        raise
    return snapshot


def is_gone(place: Path | str, snapshot: Snapshot | None) -> bool:
    """Return whether nothing is at *place* any more, of which *snapshot* may have been read.

    Raises:
        StorageError: It cannot be told.
    """
    if isinstance(place, Path):
        return look_for(place) is None
    return snapshot is not None and not snapshot.is_there
