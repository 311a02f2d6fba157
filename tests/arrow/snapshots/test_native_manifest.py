"""What the engine's own files beside a snapshot are, and what nobody has written of them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from statestores.arrow.snapshots.checked_json import with_checksum
from statestores.arrow.snapshots.native_manifest import (
    NativeFile,
    NativeManifest,
    parse_native_manifest,
    render_native_manifest,
)
from statestores.errors import SnapshotCorruptedError, UnsupportedFormatError
from statestores_conformance.many_cases import for_each

MANIFEST = NativeManifest(
    offset=41,
    snapshot_crc32c=0xBEEF,
    backend="rocksdb",
    driver="rocksdict 0.3",
    files=(
        NativeFile(name="000007.sst", bytes=900, crc32c=1),
        NativeFile(name="CURRENT", bytes=16, crc32c=0xFFFFFFFF),
    ),
    created_at_ms=1_780_000_000_000,
    library_version="0.1.0",
)


def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(render_native_manifest(MANIFEST))
    del content["crc32c"]
    return content


@pytest.mark.spec("SNP-29")
def test_the_document_is_read_as_it_was_written() -> None:
    """Every field survives, and the size is that of all files."""
    parsed = parse_native_manifest(render_native_manifest(MANIFEST), "m")

    assert parsed == MANIFEST
    assert parsed.bytes == 916
    assert replace(parsed, files=()).bytes == 0


@pytest.mark.spec("SNP-29", "LAY-25")
@for_each("name", ["../outside", "/absolute", "a/b", "a\0b", ".", "..", ""])
def test_a_file_is_not_outside_of_the_directory(name: str) -> None:
    """Its name becomes a path below the engine's directory when a store is restored."""
    content = _content()
    content["files"][0]["name"] = name

    with pytest.raises(
        SnapshotCorruptedError, match=r"'files\[0\]\.name' must be (the name|a text)"
    ):
        parse_native_manifest(with_checksum(content), "m")


@pytest.mark.spec("SNP-29")
@pytest.mark.parametrize(
    "change",
    [{"extra": 1}, {"snapshot_crc32c": "BEEF"}, {"snapshot_crc32c": "beef"}],
    ids=["field", "capitals", "zeros"],
)
def test_another_spelling_is_refused_though_its_sum_fits(change: dict[str, Any]) -> None:
    """A writer writes one."""
    with pytest.raises(SnapshotCorruptedError, match="contradicts itself or has extra fields"):
        parse_native_manifest(with_checksum(_content() | change), "m")


@pytest.mark.spec("SNP-29")
def test_a_document_of_a_later_release_is_told_from_damage() -> None:
    """Upgrading helps the one and not the other."""
    with pytest.raises(UnsupportedFormatError, match="upgrade statestores"):
        parse_native_manifest(with_checksum(_content() | {"format_version": 2}), "m")
    with pytest.raises(SnapshotCorruptedError, match="malformed"):
        parse_native_manifest(with_checksum(_content() | {"offset": -1}), "m")
