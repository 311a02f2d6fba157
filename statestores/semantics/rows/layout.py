"""Where things lie in an engine's one key space (spec/08, LAY).

The first byte of each key is its namespace. One key space rather than column families: any ordered
map will do, and one batch carries data and offsets.
"""

import json
from struct import Struct

from statestores.errors import StoreCorruptedError
from statestores.files.strict_json import parse
from statestores.spi.engine import EngineReader
from statestores.spi.offsets import Position, TopicPartition

FORMAT_VERSION = 1
"""The version of the layout of a new store.

1: the first.
"""

GROUPED_FORMAT_VERSION = 2
"""The version of a window or session store from the first commit on that names rows in a group.

2: the index of windows and sessions has rows that name many (LAY-30), and the progress says more
(LAY-21). An older reader would read such stores rightly, but never remove what the groups name, and
call them damaged when it verifies them. So it refuses them (COM-14). Nothing else differs from 1,
and what is stored stays as it is: no store is rewritten when it is opened.
"""

KNOWN_FORMAT_VERSIONS = (FORMAT_VERSION, GROUPED_FORMAT_VERSION)
"""A store of another version is refused (COM-14)."""

METADATA = b"\x00"
"""What the store knows about itself."""

OFFSETS = b"\x01"
"""Committed offsets, a row for each partition."""

DATA = b"\x02"
"""Rows by key: a key-value store's values, a versioned store's latest versions."""

HISTORY = b"\x03"
"""A versioned store's superseded versions, by key and time, newest first."""

END = b"\x04"
"""Above every namespace in use."""

FORMAT_ROW = METADATA + b"format"
SPECIFICATION_ROW = METADATA + b"specification"
POSITION_ROW = METADATA + b"position"
PROGRESS_ROW = METADATA + b"progress"
TRUNCATING_ROW = METADATA + b"truncating"

_OFFSET = Struct(">Q")
_PARTITION = Struct(">I")


def after_prefix(prefix: bytes) -> bytes | None:
    r"""Return the lowest key above all keys that begin with *prefix*, or ``None`` for no bound.

    >>> after_prefix(b"ab"), after_prefix(b"a\xff"), after_prefix(b"\xff")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def pack_format_version(version: int) -> bytes:
    """Return the stored form of a format version (LAY-2)."""
    return str(version).encode()


def offset_row(partition: TopicPartition) -> bytes:
    """Return the key of the row that holds the committed offset of *partition* (LAY-4)."""
    return OFFSETS + partition.topic.encode() + b"\x00" + _PARTITION.pack(partition.partition)


def pack_offset(offset: int) -> bytes:
    """Return the stored form of an offset."""
    return _OFFSET.pack(offset)


def read_offset(reader: EngineReader, partition: TopicPartition) -> int | None:
    """Return the committed offset of *partition* as it is stored."""
    row = reader.get(offset_row(partition))
    if row is not None and len(row) != _OFFSET.size:
        raise StoreCorruptedError(f"the committed offset {row!r} of {partition!r} is malformed")
    return None if row is None else int(_OFFSET.unpack(row)[0])


def read_offsets(reader: EngineReader) -> dict[TopicPartition, int]:
    """Return all committed offsets as they are stored.

    Raises:
        StoreCorruptedError: A row cannot hold an offset.
    """
    offsets = {}
    for key, value in reader.scan(OFFSETS, DATA):
        topic, partition = key[1:-5], key[-4:]
        if len(key) < 1 + 1 + 5 or len(value) != _OFFSET.size:
            raise StoreCorruptedError(f"the row {key!r} of the committed offsets is malformed")
        try:
            name = topic.decode()
        except UnicodeDecodeError as error:
            raise StoreCorruptedError(
                f"the row {key!r} of the committed offsets is malformed: {error}"
            ) from error
        offsets[TopicPartition(name, _PARTITION.unpack(partition)[0])] = int(
            _OFFSET.unpack(value)[0]
        )
    return offsets


def pack_position(position: Position) -> bytes:
    """Return the stored form of a position: a JSON list of topic, partition, offset (LAY-5)."""
    rows = sorted([topic, partition, offset] for (topic, partition), offset in position.items())
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()


def read_position(reader: EngineReader) -> Position:
    """Return the position as it is stored; empty when there is none.

    Raises:
        StoreCorruptedError: The row cannot hold a position.
    """
    row = reader.get(POSITION_ROW)
    if row is None:
        return Position()
    try:
        return Position(
            {
                TopicPartition(topic, number): offset
                for topic, number, offset in parse(row, "the stored position")
            }
        )
    except (ValueError, TypeError) as error:
        raise StoreCorruptedError(f"the stored position {row!r} is malformed") from error
