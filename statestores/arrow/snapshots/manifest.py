"""The manifest of a snapshot: what the files hold and what they must be, as canonical JSON (SNP-4).

The file is the only one that says what belongs to the snapshot. It protects itself: a CRC32C over
its content, and exactly one legal spelling, so that no damaged byte can go unseen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.checked_json import (
    ADVICE,
    CHECKSUM,
    Json,
    read_checked,
    with_checksum,
)
from statestores.errors import (
    SnapshotCorruptedError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.files.strict_json import Fields
from statestores.spi.offsets import Position, TopicPartition

version_of = cache(version)
"""Return the version of an installed package. Python reads it from a file that it parses as mail:
more work than a small snapshot is otherwise."""

MANIFEST_NAME = "manifest.json"
"""The name of the manifest inside a snapshot's directory."""

FORMAT_NAME = "statestores-snapshot"
"""What a manifest says it is."""

FORMAT_VERSION = 2
"""The version of the snapshot format that is written. A higher one is refused (SNP-8).

1: the first. The field ``crc32c`` and how it is computed are the same in every version.

2: a batch says where in its file it is, and has a sum of its own, so that a reader of a key range
reads and checks its batches only. The data files are the same. A release that knows only version 1
refuses it by name; this one reads both.
"""

_OLDEST_VERSION = 1
_PLACED_VERSION = 2

KEY_BYTES = 64
"""Longer keys are shortened in the manifest, which would otherwise be as large as they are."""

_DATA_NAME = re.compile(r"data-[0-9]{4,}\.arrow")
_TOO_HIGH = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlace:
    """Where a record batch is in its file: an encapsulated Arrow IPC message."""

    at: int
    """The first byte."""

    bytes: int
    """How many bytes the message has, body and padding included."""

    crc32c: int
    """Their CRC32C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One record batch of a data file: enough to know whether a key can be in it."""

    rows: int
    """How many."""

    first_key: bytes
    """No key of the batch is below it."""

    last_key: bytes | None
    """No key of the batch is above it; ``None`` says nothing."""

    place: BatchPlace | None = None
    """Where it is; ``None`` in version 1, whose batches cannot be read one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One data file."""

    name: str
    """The name inside the snapshot's directory."""

    bytes: int
    """The size of the file."""

    crc32c: int
    """The CRC32C of all of its bytes."""

    batches: tuple[BatchEntry, ...]
    """The batches in their order; at least one."""

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(batch.rows for batch in self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot is: the content of one store at one commit."""

    specification: Mapping[str, str | int]
    """The store's specification in stored form."""

    partition: TopicPartition
    """The changelog partition at whose offset the snapshot stands."""

    offsets: Mapping[TopicPartition, int]
    """Every committed offset of the store, that of `partition` among them."""

    position: Position
    """The input offsets that the rows reflect."""

    stream_time_ms: int | None
    """The highest timestamp that the store had seen; ``None`` for kinds without a stream time."""

    files: tuple[FileEntry, ...]
    """The data files in the order of their rows; none for an empty store."""

    created_at_ms: int
    """When the snapshot was written, by the writer's clock. Nothing depends on it."""

    library_version: str
    """The release of statestores that wrote it."""

    format_version: int = FORMAT_VERSION
    """The version of the format that it is in."""

    @property
    def offset(self) -> int:
        """The committed offset of `partition`."""
        return self.offsets[self.partition]

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(entry.rows for entry in self.files)

    @property
    def bytes(self) -> int:
        """Size of all data files."""
        return sum(entry.bytes for entry in self.files)


def batches_of(entry: FileEntry, keys: KeySelection) -> list[int]:
    """Return which batches of a file can have some of *keys*."""
    return [
        number
        for number, batch in enumerate(entry.batches)
        if keys.may_be_between(batch.first_key, batch.last_key)
    ]


def data_name(number: int) -> str:
    """Return the name of the data file with *number*, from 0.

    >>> data_name(0)
    'data-0000.arrow'
    """
    return f"data-{number:04d}.arrow"


def lower_bound(key: bytes) -> bytes:
    """Return *key*, or a shorter one that is not above it."""
    return key[:KEY_BYTES]


def upper_bound(key: bytes) -> bytes | None:
    r"""Return *key*, or a shorter one that is above it; ``None`` when there is none.

    >>> upper_bound(b"a"), upper_bound(b"b" * 100) == b"b" * 63 + b"c", upper_bound(b"\xff" * 65)
    (b'a', True, None)
    """
    if len(key) <= KEY_BYTES:
        return key
    kept = key[:KEY_BYTES].rstrip(bytes((_TOO_HIGH,)))
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def render_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of the manifest file."""
    content: Json = {
        "format": FORMAT_NAME,
        "format_version": manifest.format_version,
        "specification": dict(manifest.specification),
        "partition": list(manifest.partition),
        "offset": manifest.offset,
        "offsets": _rows_from_offsets(manifest.offsets),
        "position": _rows_from_offsets(manifest.position),
        "stream_time_ms": manifest.stream_time_ms,
        "rows": manifest.rows,
        "files": [_json_from_file(entry) for entry in manifest.files],
        "created_at_ms": manifest.created_at_ms,
        "library_version": manifest.library_version,
    }
    return with_checksum(content)


# Judging the spelling takes milliseconds, and a lookup of one key in Spark comes here four times.
@lru_cache(maxsize=16)
def parse_manifest(data: bytes, where: str) -> Manifest:
    """Return the manifest of which *data* are the bytes; *where* names the file in messages.

    The same bytes are parsed once, as long as few others come in between.

    Raises:
        SnapshotCorruptedError: The bytes are not those that a writer wrote.
        UnsupportedFormatError: A newer release wrote them.
    """
    content = read_checked(data, where)
    if content.get("format") != FORMAT_NAME:
        raise SnapshotCorruptedError(
            f"{where} says that it is {content.get('format')!r}, expected {FORMAT_NAME!r}; "
            "this is no snapshot"
        )
    version = content.get("format_version")
    if type(version) is not int or not _OLDEST_VERSION <= version <= FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{where} has the format version {version!r}, and this release knows the versions "
            f"{_OLDEST_VERSION} to {FORMAT_VERSION}; upgrade statestores"
        )
    try:
        manifest = _manifest_from_fields(Fields(content, where))
        rendered = render_manifest(manifest)
    except StoreCorruptedError as error:
        raise SnapshotCorruptedError(f"{error}; {ADVICE}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SnapshotCorruptedError(f"{where} is malformed: {error!r}; {ADVICE}") from error
    if rendered != data:
        raise SnapshotCorruptedError(f"{where} contradicts itself or has extra fields; {ADVICE}")
    return manifest


def _rows_from_offsets(offsets: Mapping[TopicPartition, int]) -> list[list[str | int]]:
    return sorted([topic, number, offset] for (topic, number), offset in offsets.items())


def _offsets_from_rows(fields: Fields, name: str) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for topic, number, offset in fields.rows(name)}


def _json_from_file(entry: FileEntry) -> Json:
    return {
        "name": entry.name,
        "rows": entry.rows,
        "bytes": entry.bytes,
        "crc32c": f"{entry.crc32c:08x}",
        "batches": [_json_from_batch(batch) for batch in entry.batches],
    }


def _json_from_batch(batch: BatchEntry) -> Json:
    content: Json = {
        "rows": batch.rows,
        "first_key": batch.first_key.hex(),
        "last_key": None if batch.last_key is None else batch.last_key.hex(),
    }
    if batch.place is not None:
        place = batch.place
        content |= {"at": place.at, "bytes": place.bytes, CHECKSUM: f"{place.crc32c:08x}"}
    return content


def _manifest_from_fields(fields: Fields) -> Manifest:
    version = fields.integer("format_version")
    described = fields.inside("specification")
    for name in ("kind", "name"):
        described.text(name)
    topic, number = fields.row("partition")
    offsets = Position(_offsets_from_rows(fields, "offsets"))  # checks partitions and offsets
    return Manifest(
        specification={name: described.text_or_integer(name) for name in described},
        partition=TopicPartition(topic, number),
        offsets=dict(offsets),
        position=Position(_offsets_from_rows(fields, "position")),
        stream_time_ms=fields.integer_or_none("stream_time_ms"),
        files=tuple(
            _file_from_fields(entry, placed=version >= _PLACED_VERSION)
            for entry in fields.objects("files")
        ),
        created_at_ms=fields.integer("created_at_ms"),
        library_version=fields.text("library_version"),
        format_version=version,
    )


def _file_from_fields(entry: Fields, *, placed: bool) -> FileEntry:
    name, size = entry.text("name"), entry.integer("bytes")
    if not _DATA_NAME.fullmatch(name):
        entry.refuse("name", "the name of a data file")
    batches = tuple(_batch_from_fields(batch, placed=placed) for batch in entry.objects("batches"))
    if not batches:
        entry.refuse("batches", "one or more batches")
    end = 0
    for place in (batch.place for batch in batches if batch.place is not None):
        if not end <= place.at < place.at + place.bytes <= size:
            entry.refuse("batches", f"where batches of a file of {size} bytes can be")
        end = place.at + place.bytes
    return FileEntry(name=name, bytes=size, crc32c=_sum_from_fields(entry), batches=batches)


def _batch_from_fields(batch: Fields, *, placed: bool) -> BatchEntry:
    last_key = batch.text_or_none("last_key")
    return BatchEntry(
        rows=batch.integer("rows", 1),
        first_key=bytes.fromhex(batch.text_or_none("first_key") or ""),
        last_key=None if last_key is None else bytes.fromhex(last_key),
        place=_place_from_fields(batch) if placed else None,
    )


def _place_from_fields(batch: Fields) -> BatchPlace:
    return BatchPlace(
        at=batch.integer("at"), bytes=batch.integer("bytes"), crc32c=_sum_from_fields(batch)
    )


def _sum_from_fields(fields: Fields) -> int:
    return int(fields.text(CHECKSUM), 16)
