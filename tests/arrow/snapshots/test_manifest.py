"""The manifest: one spelling, and no damage that is not found."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.manifest import (
    KEY_BYTES,
    BatchEntry,
    BatchPlace,
    FileEntry,
    Manifest,
    batches_of,
    data_name,
    lower_bound,
    parse_manifest,
    render_manifest,
    upper_bound,
)
from statestores.errors import SnapshotCorruptedError, UnsupportedFormatError
from statestores.spi import KeyValue, Position, TopicPartition
from statestores_conformance.many_cases import for_each

_LOG = TopicPartition("zähler-changelog", 3)
_MANIFEST = Manifest(
    specification=KeyValue("counts").describe(),
    partition=_LOG,
    offsets={_LOG: 41, TopicPartition("a", 0): 0},
    position=Position({TopicPartition("input", 1): 5}),
    stream_time_ms=None,
    files=(
        FileEntry(
            name=data_name(0),
            bytes=1234,
            crc32c=0xBEEF,
            batches=(
                BatchEntry(
                    rows=7,
                    first_key=b"",
                    last_key=b"\xff",
                    place=BatchPlace(at=200, bytes=600, crc32c=1),
                ),
                BatchEntry(
                    rows=1,
                    first_key=b"\xff\x00",
                    last_key=None,
                    place=BatchPlace(at=800, bytes=300, crc32c=0xFFFFFFFF),
                ),
            ),
        ),
    ),
    created_at_ms=1_780_000_000_000,
    library_version="0.1.0",
)


def _sign(content: dict[str, Any]) -> bytes:
    """Return *content* as a writer spells it, with a sum that fits."""
    content.pop("crc32c", None)
    compact = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    content["crc32c"] = f"{google_crc32c.value(compact):08x}"
    return json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"


@pytest.mark.spec("SNP-4")
def test_a_manifest_is_read_as_it_was_written() -> None:
    """Every field survives."""
    parsed = parse_manifest(render_manifest(_MANIFEST), "m")

    assert parsed == _MANIFEST
    assert (parsed.offset, parsed.rows, parsed.bytes) == (41, 8, 1234)


@pytest.mark.spec("SNP-4", "SNP-8")
def test_a_manifest_of_the_first_version_is_read_as_it_was_written() -> None:
    """Its batches have no place."""
    (file,) = _MANIFEST.files
    batches = tuple(replace(batch, place=None) for batch in file.batches)
    first = replace(_MANIFEST, format_version=1, files=(replace(file, batches=batches),))

    assert parse_manifest(render_manifest(first), "m") == first
    assert b'"at"' not in render_manifest(first)


@pytest.mark.spec("SNP-4")
def test_the_sum_is_that_of_the_specification() -> None:
    """Another implementation can compute it from the words of SNP-4."""
    written = render_manifest(_MANIFEST)

    assert _sign(json.loads(written)) == written


@pytest.mark.spec("SNP-4", "SNP-5")
def test_every_flipped_bit_is_found() -> None:
    """In values, names, white space, and the sum itself."""
    written = render_manifest(_MANIFEST)
    for index in range(len(written)):
        for bit in range(8):
            damaged = bytearray(written)
            damaged[index] ^= 1 << bit
            with pytest.raises(SnapshotCorruptedError):
                parse_manifest(bytes(damaged), "m")


@pytest.mark.spec("SNP-4", "SNP-5")
def test_every_truncation_is_found() -> None:
    """Also that of the last newline, and a zeroed tail."""
    written = render_manifest(_MANIFEST)
    for length in range(len(written)):
        with pytest.raises(SnapshotCorruptedError):
            parse_manifest(written[:length], "m")
        with pytest.raises(SnapshotCorruptedError):
            parse_manifest(written[:length] + b"\0" * (len(written) - length), "m")


@pytest.mark.spec("SNP-4", "SNP-5")
def test_an_edited_manifest_is_refused() -> None:
    """Someone changed a number in an editor, which kept the layout."""
    edited = render_manifest(_MANIFEST).replace(b'"rows": 7', b'"rows": 6')
    with pytest.raises(SnapshotCorruptedError, match="edited"):
        parse_manifest(edited, "m")


@pytest.mark.spec("SNP-4")
@for_each(
    "change",
    [
        lambda content: content.update(extra=1),
        lambda content: content.pop("position"),
        lambda content: content.update(offset=40),
        lambda content: content.update(rows=9),
        lambda content: content.update(partition=["other", 0]),
        lambda content: content.update(offsets=[["a", 0, -1]]),
        lambda content: content.update(offsets="none"),
        lambda content: content.update(specification=[1]),
        lambda content: content["files"][0].update(name="../../etc/passwd"),
        lambda content: content["files"][0].update(batches=[]),
        lambda content: content["files"][0].update(crc32c="BEEF"),
        lambda content: content["files"][0]["batches"][0].update(rows=0),
        lambda content: content["files"][0]["batches"][0].update(rows="7"),
        lambda content: content["files"][0]["batches"][0].update(first_key="x"),
        lambda content: content["files"][0]["batches"][0].update(at=-1),
        lambda content: content["files"][0]["batches"][0].update(bytes=601),
        lambda content: content["files"][0]["batches"][0].update(bytes=0),
        lambda content: content["files"][0]["batches"][1].update(bytes=435),
        lambda content: content["files"][0]["batches"][1].update(at="800"),
        lambda content: content["files"][0]["batches"][1].pop("crc32c"),
        lambda content: content.update(format_version=1),
    ],
)
def test_a_contradiction_is_refused_though_its_sum_fits(
    change: Callable[[dict[str, Any]], object],
) -> None:
    """A faulty writer, or a hostile one, computes sums as well."""
    content = json.loads(render_manifest(_MANIFEST))
    change(content)
    with pytest.raises(SnapshotCorruptedError, match="manifest-path"):
        parse_manifest(_sign(content), "manifest-path")


@pytest.mark.spec("SNP-4")
@for_each(
    ("change", "told"),
    [
        ({"name": "../outside"}, "'files[0].name' must be the name of a data file"),
        ({"batches": []}, "'files[0].batches' must be one or more batches"),
        ({"bytes": 1_099}, "'files[0].batches' must be where batches of a file of 1099 bytes can"),
    ],
)
def test_a_field_that_cannot_be_is_named(change: dict[str, Any], told: str) -> None:
    """With what it must be; a batch may end with its file."""
    content = json.loads(render_manifest(_MANIFEST))
    content["files"][0] |= {"bytes": 1_100}
    parse_manifest(_sign(content), "m")
    content["files"][0] |= change
    with pytest.raises(SnapshotCorruptedError) as refused:
        parse_manifest(_sign(content), "m")
    assert told in str(refused.value)


@pytest.mark.spec("SNP-4")
def test_numbers_and_names_begin_somewhere() -> None:
    """A batch has a row, a store a kind and a name; a batch may be where its file begins."""
    content = json.loads(render_manifest(_MANIFEST))
    first = content["files"][0]["batches"][0]
    first["at"] = 0
    parse_manifest(_sign(content), "m")
    first["rows"] = 0
    with pytest.raises(SnapshotCorruptedError, match=r"'files\[0\]\.batches\[0\]\.rows' must be"):
        parse_manifest(_sign(content), "m")
    first["rows"] = 7
    for name in ("kind", "name"):
        content["specification"][name] = ""
        with pytest.raises(SnapshotCorruptedError, match=f"'specification.{name}' must be a text"):
            parse_manifest(_sign(content), "m")
        content["specification"][name] = "key-value"


@pytest.mark.spec("SNP-4")
@for_each("data", [b"", b"null\n", b"[]\n", b"\xff\xfe\n", b"{}\n"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """Nothing, no object, no text."""
    with pytest.raises(SnapshotCorruptedError):
        parse_manifest(data, "m")


def test_another_format_is_refused() -> None:
    """A manifest of something else, whose sum happens to be computed alike."""
    content = json.loads(render_manifest(_MANIFEST))
    content["format"] = "other"
    with pytest.raises(SnapshotCorruptedError, match="no snapshot"):
        parse_manifest(_sign(content), "m")


@pytest.mark.spec("SNP-8")
@for_each("version", [3, 0, "1", None, True, -1])
def test_another_version_is_refused(version: object) -> None:
    """Only when the sum fits: otherwise it is damage, which says nothing about versions."""
    content = json.loads(render_manifest(_MANIFEST))
    content["format_version"] = version
    with pytest.raises(UnsupportedFormatError, match="upgrade statestores"):
        parse_manifest(_sign(content), "m")


@pytest.mark.spec("SNP-8")
def test_damage_is_not_taken_for_a_newer_version() -> None:
    """Sum and spelling are the same in every version, so both are judged first."""
    content = json.loads(render_manifest(_MANIFEST))
    content["format_version"] = 3
    newer = _sign(content)
    for damaged in (newer.replace(b'"rows": 7', b'"rows": 6'), newer.replace(b"\n ", b"\n\t", 1)):
        with pytest.raises(SnapshotCorruptedError):
            parse_manifest(damaged, "m")


@pytest.mark.spec("SNP-19")
@given(st.binary(max_size=3 * KEY_BYTES) | st.integers(0, 200).map(lambda size: b"\xff" * size))
def test_shortened_keys_are_bounds(key: bytes) -> None:
    """Not above the first key, not below the last one, and short."""
    lower, upper = lower_bound(key), upper_bound(key)

    assert lower <= key
    assert len(lower) <= KEY_BYTES
    assert upper is None or (key <= upper and len(upper) <= KEY_BYTES)
    assert len(key) > KEY_BYTES or lower == upper == key


@pytest.mark.spec("SNP-19")
@for_each(
    ("first", "last", "expected"),
    [
        (None, None, True),
        (b"m", None, True),
        (b"p", None, True),
        (b"p\x00", None, False),
        (None, b"d", True),
        (None, b"c\xff", False),
        (b"e", b"f", True),
        (b"z", b"a", False),
    ],
)
def test_a_batch_outside_a_key_range_is_told(
    first: bytes | None, last: bytes | None, expected: bool
) -> None:
    """Both ends are inclusive."""
    batch = BatchEntry(rows=1, first_key=b"d", last_key=b"p")
    file = FileEntry(name=data_name(0), bytes=1, crc32c=0, batches=(batch,))

    assert batches_of(file, KeySelection(first=first, last=last)) == [0] * expected


@pytest.mark.spec("SNP-19")
def test_a_batch_without_an_upper_bound_may_hold_everything_above() -> None:
    """The last key had no successor of 64 bytes."""
    batch = BatchEntry(rows=1, first_key=b"d", last_key=None)

    file = FileEntry(name=data_name(0), bytes=1, crc32c=0, batches=(batch,))

    assert batches_of(file, KeySelection(first=b"\xff" * 100))
    assert not batches_of(file, KeySelection(last=b"c"))
