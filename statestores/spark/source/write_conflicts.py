"""Conflicts of batch writes: whether another has written since the rows were made.

A write merges its rows into what is there, or replaces it. Either way it was planned on a state of
the store; when that is no longer the state, what it would leave is something nobody has looked at.
"""

from collections.abc import Mapping

from statestores.errors import CommitConflictError, InvalidOptionError
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.named_partitions import check_partitions
from statestores.spark.options.read_and_write import SourceOptions
from statestores.state_root import StateRoot


def expected_ends(
    given: GivenRoot, store: str, partitions: int, options: SourceOptions
) -> dict[int, int]:
    """Return where the changelogs of *store* have to end for a write not to be in conflict.

    That is where they end now, or what the option ``expectedOffset`` says. Nothing is expected of
    partitions that are not in the result.

    Raises:
        InvalidOptionError: An offset is expected of a partition that the store does not have, or
            conflicts should be merged anyway.
        StoreCorruptedError, StorageError: A changelog cannot be read.
    """
    last = options.expected_offset
    if options.on_conflict == "merge":
        if last is not None:
            raise InvalidOptionError(
                "the option 'expectedOffset' is to find conflicts, and 'onConflict' is merge; "
                "leave one out"
            )
        return {}
    if isinstance(last, Mapping):
        check_partitions("expectedOffset", last, store, partitions)
        return {number: offset + 1 for number, offset in last.items()}
    if last is not None:
        return dict.fromkeys(range(partitions), last + 1)
    root = given.find()
    if root is None or store not in root.stores:
        return dict.fromkeys(range(partitions), 0)
    return present_ends(root, store)


def check_conflict(store: str, ends: Mapping[int, int], expected: Mapping[int, int]) -> None:
    """Accept the *ends* of the changelogs of *store* if they are as *expected*.

    Raises:
        CommitConflictError: They are not: somebody else has written.
    """
    for number, end in sorted(expected.items()):
        if ends[number] != end:
            raise CommitConflictError(
                f"partition {number} of {store!r} ends at the offset {ends[number] - 1}, and this "
                f"write expects {end - 1}: another program has written to it meanwhile. Nothing of "
                "this write is there; read again and repeat it, or let the later writer of a key "
                "win with the option onConflict=merge"
            )


def present_ends(root: StateRoot, store: str) -> dict[int, int]:
    """Return where the changelogs of *store* end at this moment."""
    from statestores.reading.partition_places import place_of  # noqa: PLC0415
    from statestores.reading.partition_reader import (  # noqa: PLC0415  # needs pyarrow
        PartitionReader,
        end_offsets,
    )

    entry = root.store(store)
    readers = [
        PartitionReader(place_of(root, store, number), entry.specification)
        for number in range(entry.partitions)
    ]
    return dict(enumerate(end_offsets(readers)))
