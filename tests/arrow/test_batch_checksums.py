"""Reading a key range of a snapshot: only its record batches are read, and each is checked."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from statestores.arrow import read_snapshot, write_snapshot
from statestores.arrow.keys.key_selection import KeySelection
from statestores.errors import SnapshotCorruptedError
from statestores.spi import KeyValueStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]

GOLDEN = Path(__file__).parent / "golden" / "snapshot-format-1" / "00000000000000000059"


@pytest.fixture
def written(counts: BytesStore, tmp_path: Path) -> Path:
    """Write a snapshot of several files, each of two batches."""
    return write_snapshot(counts, tmp_path / "s", batch_rows=200, rows_per_file=400).path


def rows_between(path: Path, first: bytes | None, last: bytes | None) -> list[bytes]:
    """Return the keys of a range, read after its sums were checked."""
    snapshot = read_snapshot(path)
    snapshot.verify_checksums(KeySelection(first=first, last=last))
    batches = list(snapshot.batches(first_key=first, last_key=last))
    return [key for batch in batches for key in batch.column("key").to_pylist()]


@pytest.mark.spec("SNP-19", "SNP-23")
def test_a_place_is_that_of_a_whole_message(written: Path) -> None:
    """Another reader of Arrow finds the batch there."""
    snapshot = read_snapshot(written)
    expected = list(snapshot.batches())
    found = []
    for entry in snapshot.manifest.files:
        data = (written / entry.name).read_bytes()
        for batch in entry.batches:
            assert batch.place is not None
            message = data[batch.place.at : batch.place.at + batch.place.bytes]
            found.append(pa.ipc.read_record_batch(pa.py_buffer(message), snapshot.schema))

    assert found == expected


@pytest.mark.spec("SNP-5", "SNP-23")
def test_a_range_has_the_rows_that_a_filter_would_leave(written: Path) -> None:
    """Whatever batches it begins and ends in; also where there is nothing."""
    keys = rows_between(written, None, None)
    bounds = [None, b"", keys[0], keys[199], keys[200], keys[450] + b"\x00", keys[-1], b"\xff"]
    for first in bounds:
        for last in bounds:
            expected = [
                key
                for key in keys
                if (first is None or first <= key) and (last is None or key <= last)
            ]
            assert rows_between(written, first, last) == expected


@pytest.mark.spec("SNP-5", "SNP-23")
def test_every_flipped_byte_of_a_batch_is_found_by_those_who_read_it(written: Path) -> None:
    """And by them only: others are not held up by what they do not need."""
    entry = read_snapshot(written).manifest.files[0]
    first, second = entry.batches
    assert first.place is not None
    file = written / entry.name
    intact = file.read_bytes()
    inside = rows_between(written, first.first_key, first.first_key)
    outside = rows_between(written, second.first_key, second.first_key)
    for at in range(first.place.at, first.place.at + first.place.bytes, 37):
        damaged = bytearray(intact)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        with pytest.raises(SnapshotCorruptedError, match=rf"batch 0 of .*{entry.name}"):
            rows_between(written, inside[0], inside[0])
        snapshot = read_snapshot(written)
        with pytest.raises(SnapshotCorruptedError, match=rf"batch 0 of .*{entry.name}"):
            next(snapshot.batches(first_key=inside[0], last_key=inside[0]))
        assert rows_between(written, outside[0], outside[0]) == outside
    file.write_bytes(intact)

    assert rows_between(written, inside[0], inside[0]) == inside


@pytest.mark.spec("SNP-5", "SNP-23")
def test_two_exchanged_batches_are_found(written: Path) -> None:
    """Each is a whole message, and in the other's place."""
    entry = read_snapshot(written).manifest.files[0]
    file = written / entry.name
    data = file.read_bytes()
    places = [batch.place for batch in entry.batches if batch.place is not None]
    parts = [data[place.at : place.at + place.bytes] for place in places]
    end = places[1].at + places[1].bytes
    file.write_bytes(data[: places[0].at] + parts[1] + parts[0] + data[end:])

    with pytest.raises(SnapshotCorruptedError, match=entry.name):
        rows_between(written, entry.batches[0].first_key, entry.batches[0].first_key)


@pytest.mark.spec("SNP-8", "SNP-23")
def test_a_snapshot_of_the_first_format_is_read(tmp_path: Path) -> None:
    """Release 0.1 wrote it; its files have one sum each, which also guards a range."""
    path = tmp_path / GOLDEN.name
    shutil.copytree(GOLDEN, path)
    read_snapshot(path).verify()

    assert rows_between(path, None, None) == [b"key-%04d" % number for number in range(60)]
    assert rows_between(path, b"key-0007", b"key-0008") == [b"key-0007", b"key-0008"]
    damaged = bytearray((path / "data-0000.arrow").read_bytes())
    damaged[-30] ^= 1
    (path / "data-0000.arrow").write_bytes(damaged)
    with pytest.raises(SnapshotCorruptedError, match=r"data-0000\.arrow"):
        rows_between(path, b"key-0007", b"key-0008")
