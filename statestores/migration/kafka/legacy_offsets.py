"""The offsets of a store from the text files beside it into the store, and back (KIP-1035).

Before a store kept its own offsets, a task had one ``.checkpoint`` for all of its stores and a
``<store>.position`` for each. Importing commits what they say to the store, in one commit, and then
takes it out of the files. A crash in between leaves both, which say the same: the next import
finds nothing to do and removes the rest.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from statestores.errors import InvalidArgumentError, StoreMismatchError
from statestores.files.local_path import local_path
from statestores.migration.kafka.offsets_file import (
    read_offsets_file,
    remove_offsets_file,
    write_offsets_file,
)
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.stores.store import StateStore

CHECKPOINT_FILE = ".checkpoint"
"""The offsets of all stores of a task, in the task's directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyImport:
    """What an import has done."""

    offsets: Mapping[TopicPartition, int]
    """The changelog offsets that the store took over."""

    position: Position
    """The input offsets that the store took over."""

    removed: tuple[Path, ...]
    """The files that are gone."""

    superseded: tuple[TopicPartition, ...]
    """The partitions of which the store had a newer offset already; it was kept."""


def import_legacy_offsets(
    store: StateStore,
    directory: str | PathLike[str],
    partitions: Collection[TopicPartition],
    *,
    is_global: bool = False,
) -> LegacyImport:
    """Move what the legacy files in *directory* say of *store* into the store (MIG-3 to MIG-7).

    Idempotent, also after a crash anywhere in between. Rows of other stores stay in
    ``.checkpoint``, which goes with its last row. Without files nothing is done.

    Requires: nobody else uses the directory, and *store* has no pending writes.

    Args:
        store: The open store; the import commits it.
        directory: The task's directory, or that of the global stores.
        partitions: The store's changelog partitions: those of ``.checkpoint`` that are its own.
        is_global: Whether the directory is that of global stores, whose files have the offset
            of the *next* record.

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: The store has pending writes.
        MalformedCheckpointError, UnsupportedFormatError: A file cannot be read as it should.
        StoreMismatchError: A file is ahead of the store's own offsets, or two files contradict
            each other; nothing has changed.
        StorageError: A file or the store cannot be read or written.
    """
    place = local_path(directory, "directory")
    if store.has_pending_writes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which the import would commit; commit or roll back"
        )
    checkpoint = place / CHECKPOINT_FILE
    shared = read_offsets_file(checkpoint) or {}
    own_file = place / f"{CHECKPOINT_FILE}_{store.name}"
    own = read_offsets_file(own_file) or {}
    position_file = place / f"{store.name}.position"
    read = read_offsets_file(position_file) or {}

    found = _agreed(checkpoint, shared, own_file, own, set(partitions))
    offsets = _last_applied(found) if is_global else _known(found)
    new, superseded = _compared(store, checkpoint, offsets, store.committed_offsets())
    position, older = _compared(store, position_file, _known(read), store.position)
    if new or position:
        store.advance_position(position)
        store.commit(new)

    removed = [path for path in (position_file, own_file) if remove_offsets_file(path)]
    kept = {partition: each for partition, each in shared.items() if partition not in partitions}
    if kept != shared or (not kept and checkpoint.exists()):
        write_offsets_file(checkpoint, kept)
        removed += [] if kept else [checkpoint]
    return LegacyImport(
        offsets=new,
        position=Position(position),
        removed=tuple(removed),
        superseded=(*superseded, *older),
    )


def write_legacy_offsets(
    store: StateStore,
    directory: str | PathLike[str],
    partitions: Collection[TopicPartition],
    *,
    is_global: bool = False,
) -> tuple[Path, ...]:
    """Write what the last commit says of offsets as Kafka Streams' files, to downgrade (MIG-8).

    ``.checkpoint`` gets a row for each of *partitions*, -4 where the store has no offset, beside
    the rows of other stores that it has; ``<store>.position`` gets the position. The store itself
    is left as it is. Returns the files.

    Requires: nobody else uses the directory.

    Raises:
        StoreClosedError: The store is closed.
        MalformedCheckpointError, UnsupportedFormatError: The ``.checkpoint`` that is there cannot
            be read, and so cannot be added to.
        StorageError: A file cannot be written.
    """
    place = local_path(directory, "directory")
    checkpoint = place / CHECKPOINT_FILE
    content = store.committed_content()
    content.changes.close()
    rows = dict(read_offsets_file(checkpoint) or {})
    for partition in partitions:
        offset = content.offsets.get(partition)
        rows[partition] = None if offset is None else offset + is_global
    written = []
    if not is_global:
        # First: a position without an offset is harmless, the reverse would lose it.
        written.append(place / f"{store.name}.position")
        write_offsets_file(written[0], dict(content.position))
    write_offsets_file(checkpoint, rows)
    return (*written, checkpoint)


def _known(offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    """Return *offsets* without the unknown ones."""
    return {partition: each for partition, each in offsets.items() if each is not None}


def _last_applied(next_offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    """Return the offsets before *next_offsets*; before 0 there is none."""
    return {partition: each - 1 for partition, each in _known(next_offsets).items() if each}


def _agreed(
    checkpoint: Path,
    shared: Mapping[TopicPartition, int | None],
    own_file: Path,
    own: Mapping[TopicPartition, int | None],
    partitions: set[TopicPartition],
) -> dict[TopicPartition, int | None]:
    """Return the offsets of *partitions* in the two files, which may not contradict each other."""
    found = {partition: each for partition, each in own.items() if partition in partitions}
    for partition in partitions & shared.keys():
        if partition in found and found[partition] != shared[partition]:
            raise StoreMismatchError(
                f"{str(checkpoint)!r} has offset {shared[partition]} of {_name(partition)}, and "
                f"{str(own_file)!r} has {found[partition]}; remove the one that is wrong"
            )
        found[partition] = shared[partition]
    return found


def _compared(
    store: StateStore,
    file: Path,
    offsets: Mapping[TopicPartition, int],
    present: Mapping[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], list[TopicPartition]]:
    """Return which of *offsets* are new to the store, and which are older than its own.

    Raises:
        StoreMismatchError: One is ahead of the store's own (MIG-5).
    """
    new: dict[TopicPartition, int] = {}
    older: list[TopicPartition] = []
    for partition, offset in offsets.items():
        stored = present.get(partition)
        if stored is None:
            new[partition] = offset
        elif offset < stored:
            older.append(partition)
        elif offset > stored:
            raise StoreMismatchError(
                f"{str(file)!r} has offset {offset} of {_name(partition)}, ahead of the {stored} "
                f"that the store {store.name!r} has committed: the records in between would be "
                "skipped. Remove the file to go on from the store's offset, or clear_offsets() "
                "when you know that another program wrote this store later"
            )
    return new, older


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
