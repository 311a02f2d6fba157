"""The offsets and the position of one partition of a store of Kafka Streams.

Up to version 4.2 they are in text files beside the store; from 4.3 on in a column family of each of
its databases. Of several databases the lowest offset counts: all of them have what comes before.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from statestores.errors import InvalidArgumentError, StoreCorruptedError, UnsupportedFormatError
from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.layout import StorePartition
from statestores.migration.kafka.legacy_offsets import CHECKPOINT_FILE
from statestores.migration.kafka.offsets_file import UNKNOWN_OFFSET, read_offsets_file
from statestores.migration.kafka.rows import OFFSETS_FAMILY
from statestores.spi.offsets import Position, TopicPartition

_STATUS = b"status"
_POSITION = b"position"
_POSITION_VERSION = 0
_OFFSET = struct.Struct(">q")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOffsets:
    """What is known of how far a partition of a store has come."""

    changelog: Mapping[TopicPartition, int]
    """The offset of the last record of its changelog that it has; empty when that is not known."""

    position: Position
    """The input offsets that it reflects, as far as they are known."""

    is_closed_cleanly: bool | None
    """Whether the application closed it; ``None`` for versions that do not say so."""


def offsets_of(partition: StorePartition, application_id: str) -> KafkaOffsets:
    """Return the offsets of *partition* of an application with that id.

    Raises:
        MalformedCheckpointError, StoreCorruptedError, UnsupportedFormatError: They cannot be read.
        StorageError: A file cannot be read.
    """
    found = _Found()
    for path in partition.databases:
        found.add(path)
    if partition.is_global:
        # Its offsets are by source topic, and which topic is its own is not written anywhere.
        return KafkaOffsets(changelog={}, position=Position(), is_closed_cleanly=found.status)
    changelog, position = found.changelog, found.position
    texts = read_offsets_file(partition.task / CHECKPOINT_FILE) or {}
    own = TopicPartition(f"{application_id}-{partition.store}-changelog", partition.partition)
    offset_in_text = texts.get(own)
    if offset_in_text is not None:
        changelog.setdefault(own, offset_in_text)
    if not position:
        read = read_offsets_file(partition.task / f"{partition.store}.position") or {}
        position = {each: offset for each, offset in read.items() if offset is not None}
    return KafkaOffsets(
        changelog=changelog, position=Position(position), is_closed_cleanly=found.status
    )


@dataclass(slots=True)
class _Found:
    """What the databases of one store say."""

    changelog: dict[TopicPartition, int] = field(default_factory=dict)
    position: dict[TopicPartition, int] = field(default_factory=dict)
    status: bool | None = None

    def add(self, path: Path) -> None:
        """Add what the database at *path* says."""
        with KafkaDatabase(path) as database:
            rows = database.rows(OFFSETS_FAMILY) if OFFSETS_FAMILY in database.families else ()
            for key, value in rows:
                self._add(path, key, value)

    def _add(self, path: Path, key: bytes, value: bytes) -> None:
        if key == _STATUS:
            self.status = self.status is not False and _number(path, key, value) == 0
        elif key == _POSITION:
            _lower(self.position, parse_position(value, path).items())
        else:
            offset = _number(path, key, value)
            if offset >= 0:
                _lower(self.changelog, [(_partition(path, key), offset)])
            elif offset != UNKNOWN_OFFSET:
                raise _malformed(path, key, f"{offset} is no offset")


def parse_position(stored: bytes, path: Path) -> dict[TopicPartition, int]:
    """Return the input offsets that a binary position says; zeros after it mean nothing.

    Raises:
        StoreCorruptedError: It is cut or malformed.
        UnsupportedFormatError: It has another version.
    """
    if not stored:
        raise _malformed(path, _POSITION, "it is empty")
    if stored[0] != _POSITION_VERSION:
        raise UnsupportedFormatError(
            f"the position in {str(path)!r} has version {stored[0]}, and this release knows "
            f"{_POSITION_VERSION}; upgrade statestores"
        )
    offsets: dict[TopicPartition, int] = {}
    try:
        topics, at = _count(stored, 1)
        for _ in range(topics):
            length, at = _count(stored, at)
            topic = stored[at : at + length].decode()
            pairs, at = _count(stored, at + length)
            for _ in range(pairs):
                partition, offset = _PAIR.unpack_from(stored, at)
                at += _PAIR.size
                offsets[TopicPartition(topic, partition)] = offset
        Position(offsets)
    except (struct.error, UnicodeDecodeError, InvalidArgumentError) as error:
        raise _malformed(path, _POSITION, str(error)) from error
    return offsets


def _count(stored: bytes, at: int) -> tuple[int, int]:
    """Return the number at *at*, which is not negative, and where it ends."""
    (number,) = _INT.unpack_from(stored, at)
    if number < 0:
        raise struct.error(f"{number} is no count")
    return number, at + _INT.size


def _partition(path: Path, key: bytes) -> TopicPartition:
    """Return the partition of a row of offsets, whose name ends with a hyphen and a number."""
    topic, _, number = key.decode("utf-8", "replace").rpartition("-")
    if not topic or not number.isascii() or not number.isdigit():
        raise _malformed(path, key, "it does not name a partition")
    return TopicPartition(topic, int(number))


def _number(path: Path, key: bytes, stored: bytes) -> int:
    if len(stored) != _OFFSET.size:
        raise _malformed(path, key, f"it has {len(stored)} bytes, expected {_OFFSET.size}")
    number: int = _OFFSET.unpack(stored)[0]
    return number


def _lower(offsets: dict[TopicPartition, int], found: Iterable[tuple[TopicPartition, int]]) -> None:
    """Take the lower of two offsets of one partition."""
    for partition, offset in found:
        offsets[partition] = min(offset, offsets.get(partition, offset))


def _malformed(path: Path, key: bytes, problem: str) -> StoreCorruptedError:
    return StoreCorruptedError(
        f"the row {key!r} of the offsets in {str(path)!r} is malformed: {problem}; let Kafka "
        "Streams restore the store"
    )
