"""What a native part of a snapshot says about itself: whose files they are, and sums (SNP-27).

It is a document of its own beside the snapshot's manifest, which has exactly its fields: a release
that knows nothing of native parts reads the snapshot as ever. It names the manifest that it belongs
to by that file's checksum.
"""

from dataclasses import dataclass

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

NATIVE_MANIFEST_NAME = "native.json"
"""The name of the document inside a native part's directory."""

_FORMAT_NAME = "statestores-native"
_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFile:
    """One file of the engine."""

    name: str
    """Its name inside the engine's directory."""

    bytes: int
    """Its size."""

    crc32c: int
    """The CRC32C of all of its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeManifest:
    """What a native part is: the files of an engine at a snapshot's commit."""

    offset: int
    """The offset of the snapshot that it is a part of."""

    snapshot_crc32c: int
    """The CRC32C of the bytes of that snapshot's manifest."""

    backend: str
    """The name of the engine: ``rocksdb``."""

    driver: str
    """What wrote the files, with its version, as `Engine.driver` says."""

    files: tuple[NativeFile, ...]
    """The files, by name."""

    created_at_ms: int
    """When it was written, by the writer's clock. Nothing depends on it."""

    library_version: str
    """The release of statestores that wrote it."""

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)


def render_native_manifest(manifest: NativeManifest) -> bytes:
    """Return the bytes of the document."""
    content: Json = {
        "format": _FORMAT_NAME,
        "format_version": _FORMAT_VERSION,
        "offset": manifest.offset,
        "snapshot_crc32c": f"{manifest.snapshot_crc32c:08x}",
        "backend": manifest.backend,
        "driver": manifest.driver,
        "files": [
            {"name": file.name, "bytes": file.bytes, CHECKSUM: f"{file.crc32c:08x}"}
            for file in manifest.files
        ],
        "created_at_ms": manifest.created_at_ms,
        "library_version": manifest.library_version,
    }
    return with_checksum(content)


def parse_native_manifest(data: bytes, where: str) -> NativeManifest:
    """Return the document of which *data* are the bytes; *where* names the file in messages.

    Raises:
        SnapshotCorruptedError: The bytes are not those that a writer wrote.
        UnsupportedFormatError: A newer release wrote them.
    """
    content = read_checked(data, where)
    version = content.get("format_version")
    if content.get("format") == _FORMAT_NAME and version != _FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{where} has the format version {version!r}, and this release knows version "
            f"{_FORMAT_VERSION}; upgrade statestores"
        )
    try:
        manifest = _from_fields(Fields(content, where))
    except (StoreCorruptedError, ValueError) as error:
        raise SnapshotCorruptedError(f"{where} is malformed: {error}; {ADVICE}") from error
    if render_native_manifest(manifest) != data:
        raise SnapshotCorruptedError(f"{where} contradicts itself or has extra fields; {ADVICE}")
    return manifest


def _from_fields(fields: Fields) -> NativeManifest:
    return NativeManifest(
        offset=fields.integer("offset"),
        snapshot_crc32c=int(fields.text("snapshot_crc32c"), 16),
        backend=fields.text("backend"),
        driver=fields.text("driver"),
        files=tuple(_file_from_fields(file) for file in fields.objects("files")),
        created_at_ms=fields.integer("created_at_ms"),
        library_version=fields.text("library_version"),
    )


def _file_from_fields(fields: Fields) -> NativeFile:
    name = fields.text("name")
    if "/" in name or "\0" in name or name in {".", ".."}:
        fields.refuse("name", "the name of a file in the engine's directory")
    return NativeFile(
        name=name, bytes=fields.integer("bytes"), crc32c=int(fields.text(CHECKSUM), 16)
    )
