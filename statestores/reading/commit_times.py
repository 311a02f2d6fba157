"""Which commit was the last at a time: what is left of a changelog says it, or it is not known.

A changelog has the times of its frames. What was deleted, or written anew by a reshard, has none,
and what was compacted only that of its last commit.
"""

from statestores.errors import OffsetOutOfRangeError
from statestores.reading.partition_reader import PartitionReader


def offset_as_of(reader: PartitionReader, time_ms: int, shown: str) -> int:
    """Return the last offset that was appended at *time_ms* or earlier; -1 if none was.

    By the clock of whoever appended it; *shown* is what a message calls the partition. Of commits
    that are gone, a snapshot says that all which it has was there when it was made.

    Raises:
        OffsetOutOfRangeError: It is not known any more which one that was.
        StoreReshardedError: The store has other partitions since the root was opened.
        ChangelogCorruptedError, StoreCorruptedError, StorageError: The partition cannot be read.
    """
    stop = min(reader.end_offset, reader.offset_at(time_ms + 1))
    begun = reader.beginning
    known_from = begun.complete_from
    if stop > known_from or known_from == 0:
        return stop - 1
    # Where there are compacted frames, the last one has the time of the last of their commits.
    if stop == known_from and (
        begun.offset < known_from
        or any(
            each.offset == stop - 1 and each.created_at_ms <= time_ms for each in reader.snapshots()
        )
    ):
        return stop - 1
    raise OffsetOutOfRangeError(
        f"{shown} has single commits from offset {known_from} on, and nothing says which "
        f"of those before was the last at {time_ms}: they were deleted, compacted or "
        "resharded; read as of a later time, or at the offset of a snapshot"
    )


def offset_from(reader: PartitionReader, time_ms: int, shown: str) -> int:
    """Return the first offset that was appended at *time_ms* or later; the end if none was.

    By the clock of whoever appended it; *shown* is what a message calls the partition.

    Raises:
        OffsetOutOfRangeError: Changes that are gone may have been appended then or later.
        StoreReshardedError: The store has other partitions since the root was opened.
        ChangelogCorruptedError, StoreCorruptedError, StorageError: The partition cannot be read.
    """
    found, begins = min(reader.end_offset, reader.offset_at(time_ms)), reader.beginning.offset
    if not begins or found > begins:
        return found
    # What a snapshot has was appended before it was made.
    if any(
        each.offset >= begins - 1 and each.created_at_ms < time_ms for each in reader.snapshots()
    ):
        return found
    raise OffsetOutOfRangeError(
        f"{shown} has changes from offset {begins} on, and nothing says that all before it are "
        f"older than {time_ms}: they were deleted or resharded; read from a later time, or from an "
        "offset, and the content before it"
    )
