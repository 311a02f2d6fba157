"""Writing a snapshot and reading it back."""

import os
import random
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from statestores.arrow import (
    KEY_VALUE_ROWS,
    VERSIONED_ROWS,
    Progress,
    list_snapshots,
    newest_valid_snapshot,
    read_snapshot,
    write_snapshot,
)
from statestores.arrow.restore_mark import restore_mark
from statestores.errors import (
    InvalidArgumentError,
    SnapshotCorruptedError,
    StorageError,
    StoreClosedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.spi import (
    KeyValue,
    KeyValueStore,
    Position,
    TopicPartition,
    Versioned,
    VersionedStore,
)
from statestores_conformance.many_cases import for_each

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]
BytesVersions = VersionedStore[bytes, bytes]


def _pairs(batches: Iterator[pa.RecordBatch]) -> list[tuple[bytes, bytes]]:
    table = pa.Table.from_batches(list(batches), schema=KEY_VALUE_ROWS)
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.mark.spec("SNP-1", "SNP-9")
def test_a_snapshot_holds_what_was_committed(
    counts: BytesStore, counts_log: TopicPartition, tmp_path: Path
) -> None:
    """Rows in key order, offsets and position, and no pending write."""
    info = write_snapshot(counts, tmp_path / "snapshots")
    snapshot = read_snapshot(info.path)
    snapshot.verify()

    assert info.path == tmp_path / "snapshots" / "00000000000000000041"
    assert (info.partition, info.offset, info.written) == (counts_log, 41, True)
    assert info.rows == snapshot.rows == 1_001
    assert _pairs(snapshot.batches()) == list(counts.read_only().range())
    assert snapshot.manifest.offsets == {counts_log: 41}
    assert snapshot.manifest.position == counts.position
    assert snapshot.manifest.specification == counts.specification.describe()
    assert snapshot.schema.equals(KEY_VALUE_ROWS)


@pytest.mark.spec("SNP-1", "SNP-9")
def test_a_versioned_snapshot_holds_versions_with_their_ends(
    rates: BytesVersions, tmp_path: Path
) -> None:
    """The rows valid at a time are what the store gives as of it."""
    snapshot = read_snapshot(write_snapshot(rates, tmp_path).path)
    snapshot.verify()
    (rows,) = snapshot.batches()
    stored = [
        (key, record.valid_from_ms, record.valid_to_ms, record.value)
        for key in sorted(set(rows.column("key").to_pylist()))
        for record in rates.history(key)
    ]
    written = [
        (row["key"], row["valid_from"], row["valid_to"], row["value"])
        for row in rows.to_pylist()
        if row["value"] is not None
    ]

    assert rows.schema.equals(VERSIONED_ROWS)
    assert written == stored
    assert snapshot.manifest.stream_time_ms == rates.stream_time_ms


@pytest.mark.spec("SNP-1")
def test_an_empty_store_gives_a_snapshot_without_files(open_store: Any, tmp_path: Path) -> None:
    """Offsets and position are worth keeping without rows."""
    store = open_store(KeyValue("empty"))
    log = TopicPartition("empty-changelog", 5)
    store.advance_position({TopicPartition("input", 0): 1})
    store.commit({log: 0})

    info = write_snapshot(store, tmp_path / "s", partition=log)
    snapshot = read_snapshot(info.path)
    snapshot.verify()

    assert os.listdir(info.path) == ["manifest.json"]  # noqa: PTH208  # the names are the point
    assert list(snapshot.batches()) == []
    assert snapshot.manifest.position == Position({TopicPartition("input", 0): 1})


@pytest.mark.spec("SNP-1")
def test_a_snapshot_is_of_one_commit_while_the_owner_goes_on(
    open_store: Any, tmp_path: Path
) -> None:
    """Each commit sets every key to its offset; no snapshot may mix two of them."""
    store = open_store(KeyValue("mixed"))
    log = TopicPartition("mixed-changelog", 0)
    keys = [b"%03d" % number for number in range(200)]

    def commit(offset: int) -> None:
        store.put_many(keys, [b"%d" % offset] * len(keys))
        store.advance_position({TopicPartition("input", 0): offset})
        store.commit({log: offset})

    commit(0)
    stop = threading.Event()

    def write_commits() -> None:
        offset = 1
        while not stop.is_set():
            commit(offset)
            offset += 1

    owner = threading.Thread(target=write_commits)
    owner.start()
    try:
        infos = [write_snapshot(store, tmp_path / "snapshots") for _ in range(20)]
    finally:
        stop.set()
        owner.join()

    for info in infos:
        snapshot = read_snapshot(info.path)
        expected = [(key, b"%d" % info.offset) for key in keys]
        assert _pairs(snapshot.batches()) == expected
        assert snapshot.manifest.position == Position({TopicPartition("input", 0): info.offset})
    assert infos[-1].offset > 0


@pytest.mark.spec("SNP-20")
def test_a_store_without_an_offset_is_refused(open_store: Any, tmp_path: Path) -> None:
    """Nobody could say which part of a changelog comes after the snapshot."""
    store = open_store(KeyValue("new"))
    store.put(b"a", b"1")
    store.commit({})
    with pytest.raises(InvalidArgumentError, match="offsets of: none"):
        write_snapshot(store, tmp_path / "snapshots")

    assert not (tmp_path / "snapshots").exists()


@pytest.mark.spec("SNP-20")
def test_of_several_offsets_one_has_to_be_chosen(
    counts: BytesStore, counts_log: TopicPartition, tmp_path: Path
) -> None:
    """All of them are kept."""
    other = TopicPartition("source", 2)
    counts.commit({other: 5})
    with pytest.raises(InvalidArgumentError, match="counts-changelog-0, source-2"):
        write_snapshot(counts, tmp_path / "s")
    with pytest.raises(InvalidArgumentError, match="no offset of"):
        write_snapshot(counts, tmp_path / "s", partition=TopicPartition("source", 3))

    info = write_snapshot(counts, tmp_path / "s", partition=other)

    assert info.offset == 5
    assert read_snapshot(info.path).manifest.offsets == {counts_log: 41, other: 5}


@pytest.mark.spec("SNP-12", "SNP-20")
def test_a_half_restored_store_is_refused(counts: BytesStore, tmp_path: Path) -> None:
    """It would make a snapshot that looks complete."""
    counts.commit({restore_mark(counts.specification): 9})
    with pytest.raises(StoreMismatchError, match="half restored"):
        write_snapshot(counts, tmp_path / "s")


@pytest.mark.spec("SNP-3")
def test_writing_the_same_again_changes_nothing(counts: BytesStore, tmp_path: Path) -> None:
    """However the rows are cut into files this time."""
    first = write_snapshot(counts, tmp_path / "s")
    before = {path: path.read_bytes() for path in first.path.iterdir()}

    second = write_snapshot(counts, tmp_path / "s", bytes_per_file=1)

    assert (second.path, second.written) == (first.path, False)
    assert {path: path.read_bytes() for path in first.path.iterdir()} == before


@pytest.mark.spec("SNP-3")
def test_other_content_at_the_same_offset_is_refused(
    counts: BytesStore, counts_log: TopicPartition, tmp_path: Path
) -> None:
    """A commit without an offset changed the store: which of the two is offset 41?"""
    info = write_snapshot(counts, tmp_path / "s")
    counts.commit({})
    with pytest.raises(StoreMismatchError, match="other content at the same offset"):
        write_snapshot(counts, tmp_path / "s", partition=counts_log)

    assert read_snapshot(info.path).rows == 1_001
    assert os.listdir(tmp_path / "s") == [info.path.name]  # noqa: PTH208  # the names are the point


@pytest.mark.spec("SNP-3")
def test_changed_values_at_the_same_offset_are_refused(counts: BytesStore, tmp_path: Path) -> None:
    """The same number of rows is not the same content."""
    write_snapshot(counts, tmp_path / "s")
    counts.rollback()
    counts.put(b"key-0001", b"changed")
    counts.commit({})
    with pytest.raises(StoreMismatchError, match="other content at the same offset"):
        write_snapshot(counts, tmp_path / "s")


@pytest.mark.spec("SNP-3")
def test_a_damaged_snapshot_is_replaced(counts: BytesStore, tmp_path: Path) -> None:
    """It can be read by nobody, and the store still has what it should have held."""
    info = write_snapshot(counts, tmp_path / "s")
    (info.path / "data-0000.arrow").write_bytes(b"damaged")

    again = write_snapshot(counts, tmp_path / "s")

    assert again == info
    read_snapshot(info.path).verify()
    assert list((tmp_path / "s").iterdir()) == [info.path]


@pytest.mark.spec("SNP-9", "SNP-16")
def test_rows_are_spread_over_files(counts: BytesStore, tmp_path: Path) -> None:
    """A reader may take some of the files, and together they are everything."""
    whole = _pairs(read_snapshot(write_snapshot(counts, tmp_path / "one").path).batches())
    cut = write_snapshot(counts, tmp_path / "many", batch_rows=100, rows_per_file=300)
    small = read_snapshot(cut.path)
    shares = [
        _pairs(small.batches(files=slice(n, n + 1))) for n in range(len(small.manifest.files))
    ]
    small.verify()

    assert [entry.name for entry in small.manifest.files] == [
        "data-0000.arrow",
        "data-0001.arrow",
        "data-0002.arrow",
        "data-0003.arrow",
    ]
    assert [len(share) for share in shares] == [300, 300, 300, 101]
    assert [pair for share in shares for pair in share] == whole


@pytest.mark.spec("SNP-19")
@for_each(
    ("first", "last"),
    [
        (None, None),
        (b"key-0100", b"key-0199"),
        (b"key-0100", b"key-0100"),
        (b"key-0500", b"key-0500"),
        (None, b""),
        (b"key-0990", None),
        (b"key-0099\x00", b"key-0101"),
        (b"z", None),
        (b"key-0300", b"key-0200"),
    ],
)
def test_a_key_range_gives_the_rows_of_that_range(
    counts: BytesStore, tmp_path: Path, first: bytes | None, last: bytes | None
) -> None:
    """As the store's own ranges do, inclusive at both ends, an inverted one being empty."""
    info = write_snapshot(counts, tmp_path, batch_rows=100, rows_per_file=300)

    pairs = _pairs(read_snapshot(info.path).batches(first_key=first, last_key=last))

    assert pairs == list(counts.read_only().range(first, last))


@pytest.mark.spec("SNP-5", "SNP-19")
def test_a_key_range_reads_only_the_files_that_may_hold_it(
    counts: BytesStore, tmp_path: Path
) -> None:
    """Damage elsewhere is not met, because it is not read."""
    info = write_snapshot(counts, tmp_path, batch_rows=100, rows_per_file=300)
    elsewhere = info.path / "data-0003.arrow"
    elsewhere.write_bytes(b"\0" * elsewhere.stat().st_size)
    snapshot = read_snapshot(info.path)

    assert len(_pairs(snapshot.batches(first_key=b"key-0100", last_key=b"key-0109"))) == 10
    with pytest.raises(SnapshotCorruptedError, match=r"data-0003\.arrow"):
        list(snapshot.batches(first_key=b"key-0990"))


def test_progress_tells_rows_and_bytes(counts: BytesStore, tmp_path: Path) -> None:
    """After each batch, and up to all of them."""
    told: list[Progress] = []
    write_snapshot(counts, tmp_path, batch_rows=400, progress=told.append)

    assert [progress.rows for progress in told] == [400, 800, 1_001]
    assert told == sorted(told, key=lambda progress: progress.bytes)


def test_an_error_of_the_callback_ends_the_writing_without_a_trace(
    counts: BytesStore, tmp_path: Path
) -> None:
    """Nothing appears, and nothing is left behind."""

    def refuse(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_snapshot(counts, tmp_path / "s", progress=refuse)

    assert list((tmp_path / "s").iterdir()) == []


def test_a_file_that_cannot_grow_ends_the_writing_without_a_trace(
    open_store: Any, tmp_path: Path
) -> None:
    """The thread that writes passes on what the system refuses, and does not outlive the call."""
    chance = random.Random(1)
    with open_store(KeyValue("large")) as store:
        keys = [b"%03d" % number for number in range(300)]
        store.put_many(keys, [chance.randbytes(1_000) for _ in keys])
        store.commit({TopicPartition("log", 0): 300})
        threads = threading.active_count()
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, unlimited[1]))
        try:
            with pytest.raises(StorageError, match="cannot write a snapshot into"):
                write_snapshot(store, tmp_path / "s", batch_rows=50)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            signal.signal(signal.SIGXFSZ, handler)

        assert list((tmp_path / "s").iterdir()) == []
        assert threading.active_count() == threads
        assert write_snapshot(store, tmp_path / "s", batch_rows=50).rows == 300


def test_a_closed_store_is_refused(counts: BytesStore, tmp_path: Path) -> None:
    """As by every call on it."""
    counts.close()
    with pytest.raises(StoreClosedError):
        write_snapshot(counts, tmp_path / "s")


def test_a_directory_that_cannot_be_made_is_a_storage_error(
    counts: BytesStore, tmp_path: Path
) -> None:
    """With the path, and the system's error as the cause."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot write a snapshot into") as caught:
        write_snapshot(counts, tmp_path / "file" / "s")

    assert isinstance(caught.value.__cause__, OSError)


def test_there_is_no_snapshot_where_there_is_no_directory(tmp_path: Path) -> None:
    """Absence is not damage."""
    with pytest.raises(StoreNotFoundError):
        read_snapshot(tmp_path / "none")

    assert list_snapshots(tmp_path / "none") == {}
    assert newest_valid_snapshot(tmp_path / "none").snapshot is None


def test_bad_sizes_are_refused(counts: BytesStore, tmp_path: Path) -> None:
    """Zero rows for each batch or file would never end."""
    with pytest.raises(InvalidArgumentError, match="batch_rows"):
        write_snapshot(counts, tmp_path / "s", batch_rows=0)
    with pytest.raises(InvalidArgumentError, match="rows_per_file"):
        write_snapshot(counts, tmp_path / "s", rows_per_file=0)
    with pytest.raises(InvalidArgumentError, match="bytes_per_file"):
        write_snapshot(counts, tmp_path / "s", bytes_per_file=0)


@pytest.mark.spec("SNP-1")
def test_every_backend_gives_the_same_rows(
    backend: str, rates: BytesVersions, open_store: Any, rates_log: TopicPartition, tmp_path: Path
) -> None:
    """The order of rows is the contract's, not an engine's."""
    store = open_store(Versioned("rates", history_retention_ms=1_000), backend)
    for changes in rates.committed_changes():
        store.load(changes, stream_time_ms=rates.stream_time_ms)
    store.commit({rates_log: 7})

    first = read_snapshot(write_snapshot(rates, tmp_path / "a").path)
    second = read_snapshot(write_snapshot(store, tmp_path / "b").path)

    assert pa.Table.from_batches(first.batches()) == pa.Table.from_batches(second.batches())


@pytest.mark.spec("SNP-21")
def test_a_snapshot_is_arrow_and_json(rates: BytesVersions, tmp_path: Path) -> None:
    """Nothing in it is code: no pickle, no extension types, no other files."""
    info = write_snapshot(rates, tmp_path, batch_rows=100, rows_per_file=100)
    starts = {path.suffix: path.read_bytes()[:6] for path in info.path.iterdir()}
    with pa.OSFile(str(info.path / "data-0000.arrow")) as file, pa.ipc.open_file(file) as reader:
        types = set(reader.schema.types)
        metadata = reader.schema.metadata

    assert starts == {".json": b'{\n "cr', ".arrow": b"ARROW1"}
    assert types == {pa.binary(), pa.int64()}
    assert metadata is None


@pytest.mark.spec("SNP-2")
def test_everything_is_on_disk_before_the_name_appears(
    counts: BytesStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data, then the manifest, then the directory; then the rename, and the parent after it.

    Before all of them the directory of snapshots, which is new: its own name could be lost.
    """
    steps: list[str] = []
    wait, rename = os.fsync, Path.rename

    def record_wait(descriptor: int) -> None:
        wait(descriptor)
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def record_rename(path: Path, target: Path) -> Path:
        steps.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", record_wait)
    monkeypatch.setattr(Path, "rename", record_rename)
    write_snapshot(counts, tmp_path / "s", batch_rows=600, rows_per_file=600)

    assert steps[4].startswith(".tmp-")
    assert [step for step in steps if not step.startswith(".tmp-")] == [
        tmp_path.name,  # where the directory of snapshots gets its name
        "data-0000.arrow",
        "data-0001.arrow",
        "manifest.json",
        "rename to 00000000000000000041",
        "s",
    ]
