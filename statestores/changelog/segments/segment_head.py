"""The head of a segment: what its frames are, and where it stands among the segments (LOG-21).

Integers are big-endian::

     0  8  magic, 'statelog'
     8  4  CRC32C of everything after these twelve bytes
    12  4  length of the head, a multiple of 8
    16  2  format version
    18  1  checksum of the frames: 1 is CRC32C
    19  1  kind of store: 1 key-value, 2 versioned, and on as in `spi.kinds`; 64 a log of records
    20  1  compression that the writer used: 0 none, 1 lz4, 2 zstd
    21  1  flags: bit 0, the segment is compacted
    22  2  zero
    24  8  base offset
    32  8  base offset of the segment before it; all ones when it is the first
    40  8  end offset, of a compacted segment; zero for others
    48  4  length of the position, a multiple of 8
    52  4  length of the schema
    56     position before the segment, then schema: an encapsulated Arrow IPC message; its metadata
           may say whose changes they are (LAY-33)

The first eighteen bytes keep this form in every version, so that a newer one is told from damage.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

import google_crc32c
import pyarrow as pa

from statestores.changelog.options import Compression
from statestores.changelog.rows import RECORDS, change_schema, describe
from statestores.changelog.stored_position import (
    MalformedPositionError,
    pack_position,
    unpack_position,
)
from statestores.errors import StoreCorruptedError, UnsupportedFormatError
from statestores.files.strict_json import parse
from statestores.spi.kinds import KINDS
from statestores.spi.offsets import Position, TopicPartition

LOG_FORMAT_VERSION = 1
"""The version of segments that is written. An older reader refuses a newer one by name."""

SEGMENT_MAGIC = b"statelog"
"""What every segment begins with."""

PARTITION = b"statestores.partition"
"""The name under which the schema's metadata says whose changes follow. A release that does not
know it compares columns alone and reads the segment; a segment without it is taken as it is."""

_FIXED = Struct(">8sIIHBBBBxxQQQII")
_CHECKED_FROM = 12
_ALIGNMENT = 8
_CRC32C = 1
_COMPACTED = 1
_NO_SEGMENT = (1 << 64) - 1
_MAX_HEAD_BYTES = 1 << 28
_LARGEST_KNOWN_BYTES = 4096
"""So that heads with very many partitions in their position do not stay in memory."""

_CODECS = {Compression.NONE: 0, Compression.LZ4: 1, Compression.ZSTD: 2}
_KIND_CODES = {name: kind.code for name, kind in KINDS.items()} | {RECORDS: 64}
_KIND_NAMES = {code: name for name, code in _KIND_CODES.items()}
_CODEC_NAMES = {number: codec for codec, number in _CODECS.items()}


class DamagedHeadError(ValueError):
    """Bytes that are no head; the reader knows the file and reports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHead:
    """What the head of a segment says."""

    store_kind: str
    """The kind of store whose changes follow."""

    compression: Compression
    """What the writer used. A body says itself how it is compressed."""

    base_offset: int
    """The first offset of the segment, and its name."""

    previous_base: int | None
    """The base of the segment that came before; so a missing one is noticed."""

    compacted_to: int | None
    """Compacted segments: the offset after the last. They replace every segment up to there."""

    position: Position
    """The input that everything before the segment reflects."""

    partition: TopicPartition | None = None
    """Whose changes follow: the changelog of a store's partition; ``None`` if nobody has said."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the changes."""
        return change_schema(self.store_kind)

    def pack(self) -> bytes:
        """Return the stored form."""
        position = pack_position(self.position)
        schema = _naming(self.schema, self.partition).serialize().to_pybytes()
        schema += bytes(-len(schema) % _ALIGNMENT)
        fields = (
            _FIXED.size + len(position) + len(schema),
            LOG_FORMAT_VERSION,
            _CRC32C,
            _KIND_CODES[self.store_kind],
            _CODECS[self.compression],
            0 if self.compacted_to is None else _COMPACTED,
            self.base_offset,
            _NO_SEGMENT if self.previous_base is None else self.previous_base,
            self.compacted_to or 0,
            len(position),
            len(schema),
        )
        checked = _FIXED.pack(SEGMENT_MAGIC, 0, *fields)[_CHECKED_FROM:] + position + schema
        checksum: int = google_crc32c.value(checked)
        return b"".join([SEGMENT_MAGIC, checksum.to_bytes(4, "big"), checked])

    @staticmethod
    def unpack(data: bytes) -> "SegmentHead":
        """Return the head of which *data*, of the length that it gives, is the stored form.

        Raises:
            DamagedHeadError: It is not a head.
            UnsupportedFormatError: It is of a version, or has content, that is not known here.
        """
        length = head_bytes(data)
        if len(data) < length:
            raise DamagedHeadError(f"its head has {length} bytes, and {len(data)} are there")
        whole = data[:length]
        return _known(whole) if length <= _LARGEST_KNOWN_BYTES else _unpacked(whole)


def head_bytes(data: bytes) -> int:
    """Return the length of the head that *data* begins with.

    Raises:
        DamagedHeadError: It does not begin with one.
    """
    if len(data) < _FIXED.size or not data.startswith(SEGMENT_MAGIC):
        raise DamagedHeadError("it does not begin with the head of a segment")
    length: int = _FIXED.unpack_from(data)[2]
    if not _FIXED.size <= length <= _MAX_HEAD_BYTES or length % _ALIGNMENT:
        raise DamagedHeadError(f"the length of its head, {length}, cannot be one")
    return length


def _unpacked(data: bytes) -> SegmentHead:
    """Return the head of which *data*, all of it, is the stored form (`SegmentHead.unpack`)."""
    _, checksum, _, version, algorithm, kind, codec, flags, base, previous, end, *lengths = (
        _FIXED.unpack_from(data)
    )
    if google_crc32c.value(data[_CHECKED_FROM:]) != checksum:
        raise DamagedHeadError("the checksum of its head does not match")
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"the changelog has format version {version}, and this release knows "
            f"{LOG_FORMAT_VERSION}; upgrade statestores"
        )
    if algorithm != _CRC32C or kind not in _KIND_NAMES or codec not in _CODEC_NAMES:
        raise UnsupportedFormatError(
            f"the changelog has checksum {algorithm}, kind {kind} and compression {codec}, "
            "and not all are known to this release; upgrade statestores"
        )
    if flags & ~_COMPACTED:
        raise UnsupportedFormatError(
            f"the changelog has segment flags {flags:#04x}, and this release knows "
            f"{_COMPACTED:#04x}; upgrade statestores"
        )
    position_bytes, schema_bytes = lengths
    schema_at = _FIXED.size + position_bytes
    if schema_at + schema_bytes != len(data):
        raise DamagedHeadError("the lengths in its head contradict each other")
    try:
        position = unpack_position(data[_FIXED.size : schema_at])
    except MalformedPositionError as error:
        raise DamagedHeadError(str(error)) from error
    try:
        stored = pa.ipc.read_schema(pa.py_buffer(data[schema_at:]))
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DamagedHeadError(f"its schema cannot be read: {error}") from error
    head = SegmentHead(
        store_kind=_KIND_NAMES[kind],
        compression=_CODEC_NAMES[codec],
        base_offset=base,
        previous_base=None if previous == _NO_SEGMENT else previous,
        compacted_to=end if flags & _COMPACTED else None,
        position=position,
        partition=_named_by(stored),
    )
    if not stored.equals(head.schema):
        raise UnsupportedFormatError(
            f"the changelog has the columns {describe(stored)}, and this release knows "
            f"{describe(head.schema)} for stores of the kind {head.store_kind!r}; upgrade "
            "statestores"
        )
    return head


_known = lru_cache(maxsize=256)(_unpacked)
"""The same for heads that were read lately. A segment is opened again and again: whenever somebody
lists a log, looks for its end or follows it. What a head says depends on its bytes alone."""


def _naming(schema: pa.Schema, partition: TopicPartition | None) -> pa.Schema:
    """Return *schema* with *partition* in its metadata."""
    if partition is None:
        return schema
    named = json.dumps([partition.topic, partition.partition], separators=(",", ":"))
    return schema.with_metadata({PARTITION: named.encode("ascii")})


def _named_by(schema: pa.Schema) -> TopicPartition | None:
    """Return the partition that the metadata of *schema* names; ``None`` if it names none.

    Raises:
        DamagedHeadError: It names something else.
    """
    named = (schema.metadata or {}).get(PARTITION)
    if named is None:
        return None
    try:
        match parse(named, "its name"):
            case [str(topic), int(number)] if topic and type(number) is int and number >= 0:
                return TopicPartition(topic, number)
    except StoreCorruptedError as error:
        raise DamagedHeadError(f"whose changes they are cannot be read: {error}") from error
    raise DamagedHeadError(f"it says that its changes are those of {named!r}")
