"""Damage to each file of a snapshot: found, named, and never read as data."""

import os
import random
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from statestores.arrow import Snapshot, newest_valid_snapshot, read_snapshot, write_snapshot
from statestores.arrow.file_access import checksum_of
from statestores.arrow.schemas import KEY_VALUE_ROWS, VERSIONED_ROWS
from statestores.arrow.snapshots.manifest import (
    FORMAT_VERSION,
    BatchEntry,
    FileEntry,
    Manifest,
    render_manifest,
)
from statestores.errors import SnapshotCorruptedError, StorageError, UnsupportedFormatError
from statestores.spi import KeyValueStore, Position, TopicPartition, VersionedStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]

_SEED = 20260602
_FLIPS = 150
_CUTS = 60


@pytest.fixture
def written(counts: BytesStore, tmp_path: Path) -> Path:
    """Write a snapshot of three data files."""
    return write_snapshot(counts, tmp_path / "s", batch_rows=200, rows_per_file=400).path


def _read_everything(path: Path) -> pa.Table:
    return pa.Table.from_batches(read_snapshot(path).batches())


_FILES = ["manifest.json", "data-0000.arrow", "data-0001.arrow", "data-0002.arrow"]


@pytest.mark.spec("SNP-5")
@pytest.mark.parametrize("name", _FILES)
def test_a_flipped_bit_is_found(written: Path, name: str) -> None:
    """At both ends of the file and at sampled places between."""
    file = written / name
    intact = file.read_bytes()
    places = {0, 7, len(intact) - 1, len(intact) - 7}
    places |= set(random.Random(_SEED).sample(range(len(intact)), _FLIPS))
    for place in sorted(places):
        damaged = bytearray(intact)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(SnapshotCorruptedError, match=name):
            _read_everything(written)
    file.write_bytes(intact)

    assert _read_everything(written).num_rows == 1_001


@pytest.mark.spec("SNP-5")
def test_a_cut_off_or_zeroed_tail_is_found(written: Path, subtests: pytest.Subtests) -> None:
    """A torn write leaves less, or as much and zeros in it."""
    for name, zeroed in product(_FILES, (False, True)):
        file = written / name
        intact = file.read_bytes()
        lengths = {0, 1, len(intact) - 1}
        lengths |= set(random.Random(_SEED).sample(range(len(intact)), _CUTS))
        with subtests.test(name=name, zeroed=zeroed):
            for length in sorted(lengths):
                tail = b"\0" * (len(intact) - length) if zeroed else b""
                if intact[:length] + tail == intact:
                    continue
                file.write_bytes(intact[:length] + tail)
                with pytest.raises(SnapshotCorruptedError, match=name):
                    _read_everything(written)
        file.write_bytes(intact)


@pytest.mark.spec("SNP-5")
def test_a_longer_file_is_found(written: Path, subtests: pytest.Subtests) -> None:
    """Arrow would not look behind its footer."""
    for name in _FILES:
        intact = (written / name).read_bytes()
        (written / name).write_bytes(intact + b"\0")
        with subtests.test(name), pytest.raises(SnapshotCorruptedError, match=name):
            _read_everything(written)
        (written / name).write_bytes(intact)


@pytest.mark.spec("SNP-5")
@pytest.mark.parametrize(("change", "message"), [(-1, "cut off"), (1, "too long")])
def test_a_wrong_size_is_found_when_the_snapshot_is_opened(
    written: Path, change: int, message: str
) -> None:
    """Before anything is read: a reader may have started work on the other files."""
    path = written / "data-0002.arrow"
    os.truncate(path, path.stat().st_size + change)
    with pytest.raises(SnapshotCorruptedError, match=rf"data-0002\.arrow.* is {message}"):
        read_snapshot(written)


@pytest.mark.spec("SNP-5")
@pytest.mark.parametrize("name", _FILES)
def test_a_missing_file_is_found(written: Path, name: str) -> None:
    """Already when the snapshot is opened."""
    (written / name).unlink()
    with pytest.raises(SnapshotCorruptedError, match=f"{name}.*is missing"):
        read_snapshot(written)


@pytest.mark.spec("SNP-5")
def test_a_file_that_does_not_belong_is_found(written: Path) -> None:
    """It may be the trace of two writers, or of a copy that went wrong."""
    shutil.copy(written / "data-0000.arrow", written / "data-0003.arrow")
    with pytest.raises(SnapshotCorruptedError, match=r"data-0003\.arrow.*does not belong"):
        read_snapshot(written)


@pytest.mark.spec("SNP-5")
def test_exchanged_files_are_found(written: Path) -> None:
    """Each is intact, and in the other's place."""
    first, second = written / "data-0000.arrow", written / "data-0001.arrow"
    content = first.read_bytes(), second.read_bytes()
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    with pytest.raises(SnapshotCorruptedError, match=r"data-0000\.arrow"):
        _read_everything(written)


@pytest.mark.spec("SNP-5")
def test_a_file_that_vanishes_after_the_opening_is_found(written: Path) -> None:
    """Between two files of one iteration."""
    batches = read_snapshot(written).batches()
    next(batches)
    (written / "data-0001.arrow").unlink()
    with pytest.raises(SnapshotCorruptedError, match=r"data-0001\.arrow.*is missing"):
        list(batches)


@pytest.mark.spec("SNP-5")
def test_no_row_of_a_damaged_file_is_given(written: Path) -> None:
    """The last byte of the second file is wrong: the first one is read, then the error comes."""
    file = written / "data-0001.arrow"
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    given: list[int] = []
    with pytest.raises(SnapshotCorruptedError):
        given.extend(batch.num_rows for batch in read_snapshot(written).batches())

    assert given == [200, 200]


@pytest.mark.spec("SNP-5")
def test_a_renamed_snapshot_is_found(written: Path) -> None:
    """A directory that says offset 42 may not hold offset 41; a name without offset may."""
    renamed = written.rename(written.with_name("00000000000000000042"))
    with pytest.raises(SnapshotCorruptedError, match="named for offset 42"):
        read_snapshot(renamed)

    assert read_snapshot(renamed.rename(written.with_name("copy"))).offset == 41


@pytest.mark.spec("SNP-7")
def test_the_newest_valid_snapshot_is_chosen_and_the_others_explained(
    counts: BytesStore, counts_log: TopicPartition, tmp_path: Path
) -> None:
    """A damaged one, one of a newer release and one that is half removed are passed over."""
    paths = []
    for offset in (41, 50, 60, 70):
        counts.commit({counts_log: offset})
        paths.append(write_snapshot(counts, tmp_path / "s").path)
    whole, damaged, newer, emptied = paths
    data = damaged / "data-0000.arrow"
    data.write_bytes(data.read_bytes()[::-1])
    manifest = read_snapshot(newer).manifest
    (newer / "manifest.json").write_bytes(_as_newer_version(manifest))
    shutil.rmtree(emptied)
    emptied.mkdir()

    choice = newest_valid_snapshot(tmp_path / "s")
    older = newest_valid_snapshot(tmp_path / "s", to_offset=49)

    assert choice.snapshot is not None
    assert choice.snapshot.path == whole
    assert {path: type(error) for path, error in choice.refused.items()} == {
        damaged: SnapshotCorruptedError,
        newer: UnsupportedFormatError,
        emptied: SnapshotCorruptedError,
    }
    assert older.snapshot is not None
    assert (older.snapshot.path, older.refused) == (whole, {})


def _as_newer_version(manifest: Manifest) -> bytes:
    """Return *manifest* as a newer release would write it."""
    return render_manifest(replace(manifest, format_version=FORMAT_VERSION + 1))


@pytest.mark.spec("SNP-7")
def test_a_failure_to_read_is_no_damage(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is not there for a moment must not make us take an older snapshot."""

    def fail(path: Path) -> int:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("statestores.arrow.snapshots.files.checksum_of", fail)
    with pytest.raises(StorageError, match="cannot read"):
        newest_valid_snapshot(written.parent)


def _forge(directory: Path, batches: list[pa.RecordBatch], *, stretch: bool = False) -> Snapshot:
    """Write *batches* as a snapshot whose sums all fit, whatever they hold."""
    kind = "versioned" if "valid_from" in batches[0].schema.names else "key-value"
    directory.mkdir()
    path = directory / "data-0000.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    entries = tuple(
        BatchEntry(
            rows=batch.num_rows + stretch,
            first_key=batch.column("key")[0].as_py(),
            last_key=batch.column("key")[-1].as_py(),
        )
        for batch in batches
    )
    log = TopicPartition("x-changelog", 0)
    file_entry = FileEntry(
        name=path.name, bytes=path.stat().st_size, crc32c=checksum_of(path), batches=entries
    )
    manifest = Manifest(
        specification={"kind": kind, "name": "x"},
        partition=log,
        offsets={log: 1},
        position=Position(),
        stream_time_ms=None,
        files=(file_entry,),
        created_at_ms=0,
        library_version="0",
        format_version=1,
    )
    (directory / "manifest.json").write_bytes(render_manifest(manifest))
    return read_snapshot(directory)


def _rows(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    schema = KEY_VALUE_ROWS if len(rows[0]) == 2 else VERSIONED_ROWS
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )


@pytest.mark.spec("SNP-6")
@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([_rows((b"b", b""), (b"a", b""))], "row 1 .* out of order"),
        ([_rows((b"a", b"")), _rows((b"a", b""))], "row 0 of batch 1 .* out of order"),
        ([_rows((b"a", b"", 2, None), (b"a", b"", 1, None))], "out of order"),
        ([_rows((b"a", b"", 1, None), (b"a", b"", 2, None))], "does not end where"),
        ([_rows((b"a", b"", 1, 5))], "does not end where"),
        ([_rows((b"a", b"", 1, None)), _rows((b"a", b"", 2, None))], "batch 0 .* does not end"),
    ],
)
def test_verify_finds_rows_that_no_writer_writes(
    tmp_path: Path, batches: list[pa.RecordBatch], message: str
) -> None:
    """The sums fit, because a faulty writer has made them."""
    with pytest.raises(SnapshotCorruptedError, match=message):
        _forge(tmp_path / "x", batches).verify()


@pytest.mark.spec("SNP-6")
def test_verify_accepts_what_a_writer_writes(
    rates: VersionedStore[bytes, bytes], tmp_path: Path
) -> None:
    """Also across batches and files, which cut the versions of a key."""
    info = write_snapshot(rates, tmp_path / "s", batch_rows=7, rows_per_file=21)
    snapshot = read_snapshot(info.path)
    snapshot.verify()

    assert len(snapshot.manifest.files) > 3


@pytest.mark.spec("SNP-5", "SNP-6")
def test_a_manifest_with_other_counts_is_found(tmp_path: Path) -> None:
    """The number of rows is not what the file has."""
    forged = _forge(tmp_path / "x", [_rows((b"a", b""))], stretch=True)
    with pytest.raises(SnapshotCorruptedError, match="has 1 rows, and the manifest 2"):
        list(forged.batches())


@pytest.mark.spec("SNP-5", "SNP-6")
def test_other_columns_are_found(tmp_path: Path) -> None:
    """The columns are not those of the store's kind."""
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"a"]), "value": pa.array([1])})
    with pytest.raises(SnapshotCorruptedError, match="does not have the columns"):
        list(_forge(tmp_path / "x", [rows]).batches())
