"""The files of a snapshot, one by one: where one ends, what is read of it, what is said of it."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from statestores.arrow import Snapshot, read_snapshot, write_snapshot
from statestores.arrow.file_access import checksum_of
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots import data_files, files, native_part
from statestores.arrow.snapshots.data_files import _begin
from statestores.arrow.snapshots.directory import native_path
from statestores.arrow.snapshots.files import LocalFiles
from statestores.arrow.snapshots.manifest import KEY_BYTES, render_manifest, upper_bound
from statestores.arrow.snapshots.native_manifest import (
    NATIVE_MANIFEST_NAME,
    NativeFile,
    NativeManifest,
    render_native_manifest,
)
from statestores.arrow.snapshots.native_part import ENGINE_FILES, NativePart, read_native
from statestores.errors import SnapshotCorruptedError, StorageError
from statestores.failpoints import arm, disarm
from statestores.files.durable_directory import make_durable
from statestores.spi import KeyValueStore
from statestores_conformance.many_cases import for_each

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]


@pytest.fixture
def written(counts: BytesStore, tmp_path: Path) -> Path:
    """Write a snapshot of two files with four batches and two."""
    return write_snapshot(counts, tmp_path / "s", batch_rows=200, rows_per_file=800).path


# Writing.


@pytest.mark.spec("SNP-16")
def test_a_file_ends_with_the_batch_that_fills_it(counts: BytesStore, tmp_path: Path) -> None:
    """To the row and to the byte."""
    whole = read_snapshot(write_snapshot(counts, tmp_path / "whole", batch_rows=200).path)
    (file,) = whole.manifest.files
    first = file.batches[0].place
    assert first is not None
    end = first.at + first.bytes
    cases: list[tuple[dict[str, Any], int]] = [
        ({"rows_per_file": 400}, 2),
        ({"rows_per_file": 401}, 3),
        ({"bytes_per_file": end}, 1),
        ({"bytes_per_file": end + 1}, 2),
    ]
    for number, (options, batches) in enumerate(cases):
        path = write_snapshot(counts, tmp_path / f"{number}", batch_rows=200, **options).path
        entries = read_snapshot(path).manifest.files
        assert len(entries[0].batches) == batches
        assert entries[0].rows == 200 * batches


@pytest.mark.spec("SNP-2", "ASM-6")
def test_each_file_is_on_disk_before_the_next(
    counts: BytesStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is whole: its size is that of the manifest."""
    sizes: dict[str, int] = {}
    reached: list[int] = []

    def note(path: Path) -> None:
        sizes[path.name] = path.stat().st_size
        make_durable(path)

    monkeypatch.setattr(data_files, "make_durable", note)
    arm("snapshot.data-written", lambda: reached.append(len(sizes)))
    try:
        info = write_snapshot(counts, tmp_path, batch_rows=200, rows_per_file=400)
    finally:
        disarm()

    assert sizes == {each.name: each.bytes for each in read_snapshot(info.path).manifest.files}
    assert reached == [0, 1, 2]


def test_a_batch_is_written_where_no_threads_are_left() -> None:
    """A snapshot at the end of a program, when the interpreter starts none any more."""
    pool = ThreadPoolExecutor(1)
    written: list[int] = []

    def write() -> int:
        written.append(1)
        return 7

    assert _begin(pool, write)() == 7
    pool.shutdown()
    wait = _begin(pool, write)
    assert written == [1, 1]
    assert wait() == 7


def test_what_is_queued_when_no_thread_can_be_started_is_not_written_twice() -> None:
    """It may be in the queue of the pool, which must not take it up later."""
    calls: list[Any] = []

    class Ending:
        def submit(self, write: Any) -> Any:
            raise RuntimeError("can't start new thread")

        def shutdown(self, **how: bool) -> None:
            calls.append(how)

    pool: Any = Ending()
    wait = _begin(pool, lambda: calls.append("written"))

    assert wait() is None
    assert calls == [{"cancel_futures": True}, "written"]


@pytest.mark.spec("SNP-19")
@for_each(
    ("key", "bound"),
    [
        (b"a" * KEY_BYTES, b"a" * KEY_BYTES),
        (b"\xff" * KEY_BYTES, b"\xff" * KEY_BYTES),
        (b"a" * (KEY_BYTES + 1), b"a" * (KEY_BYTES - 1) + b"b"),
        (b"ab" + b"\xff" * KEY_BYTES, b"ac"),
        (b"\xfe" + b"\xff" * KEY_BYTES, b"\xff"),
        (b"\xff" * (KEY_BYTES + 1), None),
    ],
)
def test_the_highest_key_is_shortened_to_the_next_one(key: bytes, bound: bytes | None) -> None:
    """The lowest bound of its length, so that few batches are read for nothing."""
    assert upper_bound(key) == bound


# Reading.


@pytest.mark.spec("SNP-5")
def test_a_file_that_is_cut_off_is_called_so(written: Path) -> None:
    """Before a part of it is read."""
    snapshot = read_snapshot(written)
    entry = snapshot.manifest.files[0]
    file = written / entry.name
    file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(SnapshotCorruptedError, match="cut off"):
        list(snapshot.batches(first_key=b"key-0001", last_key=b"key-0002"))
    with pytest.raises(SnapshotCorruptedError, match="cut off"):
        LocalFiles(written).check_sum(entry)


@pytest.mark.spec("SNP-23")
def test_batches_without_a_key_that_is_asked_for_are_not_given(written: Path) -> None:
    """Though their bounds do not say so: nobody has to skip empty ones."""
    snapshot = read_snapshot(written)

    assert list(snapshot.batches(keys=KeySelection.of([b"key-0001x"]))) == []
    (only,) = snapshot.batches(keys=KeySelection.of([b"key-0001", b"key-0001x"]))
    assert only.column("key").to_pylist() == [b"key-0001"]


@pytest.mark.spec("SNP-9")
def test_changes_of_a_snapshot_rebuild_the_store(
    counts: BytesStore, written: Path, open_store: Any
) -> None:
    """As columns they are the same rows."""
    copy = open_store(counts.specification)
    for changes in read_snapshot(written).changes():
        copy.load(changes)
    copy.commit({})

    assert list(copy.range()) == list(counts.read_only().range())


@pytest.mark.spec("SNP-5")
def test_damage_that_came_after_a_check_is_found_by_the_next_one(written: Path) -> None:
    """Of all files, or of what keys need: a footer is not read for them, nor another file."""
    snapshot = read_snapshot(written)
    first, second = snapshot.manifest.files
    low = KeySelection(last=b"key-0001")
    snapshot.verify_checksums()
    snapshot.verify_checksums(low)
    data = (written / first.name).read_bytes()
    damaged = data[:-9] + bytes((data[-9] ^ 1,)) + data[-8:]
    for check in (snapshot.verify, snapshot.verify_checksums):
        (written / first.name).write_bytes(data)
        check()
        (written / first.name).write_bytes(damaged)
        with pytest.raises(SnapshotCorruptedError, match="the file is damaged"):
            check()
        snapshot.verify_checksums(low)
    (written / first.name).write_bytes(data)
    (written / second.name).unlink()
    snapshot.verify_checksums(low)
    with pytest.raises(SnapshotCorruptedError, match="is missing"):
        snapshot.verify_checksums()


@pytest.mark.spec("SNP-5")
def test_a_file_is_checked_once_for_all_that_is_read_of_it(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a snapshot again takes half of the time."""
    checked: list[str] = []
    check_sum = LocalFiles.check_sum

    def note(self: LocalFiles, entry: Any) -> None:
        checked.append(entry.name)
        check_sum(self, entry)

    monkeypatch.setattr(LocalFiles, "check_sum", note)
    snapshot = read_snapshot(written)
    for _ in range(2):
        assert sum(batch.num_rows for batch in snapshot.batches()) == 1_001

    assert checked == ["data-0000.arrow", "data-0001.arrow"]


@pytest.mark.spec("SNP-23")
def test_keys_between_bounds_are_given(counts: BytesStore, written: Path) -> None:
    """Of one batch, of several, of all; none where the bounds are the wrong way round."""
    keys = [key for key, _ in counts.read_only().range()]
    snapshot = read_snapshot(written)
    for first, last in (
        (b"key-0100", b"key-0150"),
        (b"key-0100", b"key-0700"),
        (b"key-0999x", None),
        (None, b""),
        (None, None),
        (b"key-0199", b"key-0101"),
    ):
        found = [
            key
            for batch in snapshot.batches(first_key=first, last_key=last)
            for key in batch.column("key").to_pylist()
        ]
        low, high = first or b"", last if last is not None else b"\xff"
        assert found == [key for key in keys if low <= key <= high]


@pytest.mark.spec("SNP-5", "SNP-6")
def test_files_that_are_what_a_faulty_writer_says_are_refused(written: Path) -> None:
    """Their sums fit: they are no Arrow files, or have other batches than the manifest says."""
    manifest = read_snapshot(written).manifest
    file = manifest.files[1]
    place = file.batches[0].place
    assert place is not None
    low: dict[str, Any] = {
        "first_key": file.batches[0].first_key,
        "last_key": file.batches[0].first_key,
    }

    def forged(data: bytes, **changes: Any) -> Snapshot:
        (written / file.name).write_bytes(data)
        entry = replace(file, bytes=len(data), crc32c=checksum_of(written / file.name), **changes)
        forged = replace(manifest, files=(manifest.files[0], entry))
        (written / "manifest.json").write_bytes(render_manifest(forged))
        return read_snapshot(written)

    data = (written / file.name).read_bytes()
    first, second = file.batches
    more = replace(first, rows=first.rows + 1)
    with pytest.raises(SnapshotCorruptedError, match="has 200 rows, and the manifest 201"):
        list(forged(data, batches=(more, second)).batches(**low))
    for narrow in (
        replace(first, last_key=first.first_key),
        replace(first, first_key=first.last_key or b""),
        replace(first, first_key=second.first_key, last_key=second.last_key),
    ):
        with pytest.raises(SnapshotCorruptedError, match="are outside the range"):
            forged(data, batches=(narrow, second)).verify()
    forged(data).verify()
    with pytest.raises(SnapshotCorruptedError, match="has 2 record batches, and the manifest 1"):
        list(forged(data, batches=(first,)).batches())
    with pytest.raises(SnapshotCorruptedError, match="is not an Arrow file"):
        list(forged(b"x" * len(data)).batches())
    other = replace(first, place=replace(place, crc32c=google_crc32c.value(b"x" * place.bytes)))
    with pytest.raises(SnapshotCorruptedError, match="is not an Arrow file"):
        list(forged(b"x" * len(data), batches=(other, second)).batches(**low))


def test_a_directory_that_cannot_be_read_is_named(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not called damaged."""

    def fail(*_: object) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "iterdir", fail)
    with pytest.raises(StorageError, match=rf"cannot read '{written}': Input/output error"):
        read_snapshot(written)


def test_a_snapshot_says_what_it_is(written: Path) -> None:
    """Its place, offset and rows; and whether it is there still."""
    snapshot = read_snapshot(written)

    assert repr(snapshot) == f"Snapshot({str(written)!r}, offset=41, rows=1001)"
    assert snapshot.is_there is True
    shutil.rmtree(written)
    assert snapshot.is_there is False


def test_files_that_cannot_be_read_are_named(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was tried."""
    local = LocalFiles(written)
    entry = read_snapshot(written).manifest.files[0]

    def fail(*_: object, **__: object) -> Any:
        raise OSError(5, "Input/output error")

    told = rf"cannot read '{written / entry.name}': Input/output error"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", fail)
        with pytest.raises(StorageError, match=told):
            local.check_size(entry)
    with monkeypatch.context() as patched:
        patched.setattr(files, "checksum_of", fail)
        with pytest.raises(StorageError, match=told):
            local.check_sum(entry)
    with pytest.raises(StorageError, match=told), local.open(entry):
        fail()


# Native parts.


@pytest.fixture
def native(written: Path) -> Iterator[NativePart]:
    """Put a native part of two files beside a snapshot."""
    directory = native_path(written) / ENGINE_FILES
    directory.mkdir(parents=True)
    for name in ("a", "b"):
        (directory / name).write_bytes(name.encode() * 9)
    manifest = NativeManifest(
        offset=41,
        snapshot_crc32c=checksum_of(written / "manifest.json"),
        backend="rocksdb",
        driver="rocksdict",
        files=tuple(
            NativeFile(name=name, bytes=9, crc32c=checksum_of(directory / name))
            for name in ("a", "b")
        ),
        created_at_ms=1,
        library_version="1",
    )
    document = native_path(written) / NATIVE_MANIFEST_NAME
    document.write_bytes(render_native_manifest(manifest))
    part = read_native(written)
    assert part is not None
    yield part
    disarm()


@pytest.mark.spec("SNP-29")
def test_the_files_of_a_native_part_are_checked_and_copied(
    native: NativePart, tmp_path: Path
) -> None:
    """One after the other; a test may stop between them."""
    target = tmp_path / "target"
    target.mkdir()
    seen: list[int] = []
    arm("native.restoring", lambda: seen.append(len(list(target.iterdir()))))

    native.verify()
    native.copy_to(target)

    assert seen == [1, 2]
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "a": b"a" * 9,
        "b": b"b" * 9,
    }
    assert repr(native) == f"NativePart({str(native.path)!r}, driver='rocksdict')"


@pytest.mark.spec("SNP-29")
def test_a_native_part_that_misses_something_is_refused(native: NativePart) -> None:
    """A file, one that is a directory, and all of them."""
    file = native.path / ENGINE_FILES / "b"
    file.unlink()
    with pytest.raises(SnapshotCorruptedError, match=r"'.*b' is missing from the native part"):
        native.verify()
    file.mkdir()
    with pytest.raises(SnapshotCorruptedError, match=r"'.*b' is missing, and the manifest names"):
        native.verify()
    shutil.rmtree(native.path / ENGINE_FILES)
    with pytest.raises(SnapshotCorruptedError, match=r"'.*a' is missing from the native part"):
        native.verify()


@pytest.mark.spec("SNP-29")
def test_files_of_a_native_part_that_cannot_be_read_are_named(
    written: Path, native: NativePart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was tried."""

    def fail(*_: object) -> Any:
        raise OSError(5, "Input/output error")

    directory = native.path / ENGINE_FILES
    cases: list[tuple[Any, str, str, Path, Callable[[], object]]] = [
        (native_part, "checksum_of", "read", directory / "a", native.verify),
        (native_part, "_copied", "copy", directory / "a", lambda: native.copy_to(tmp_path)),
        (Path, "iterdir", "read", directory, native.verify),
        (Path, "is_file", "read", directory / "a", native.verify),
        (Path, "read_bytes", "read", native.path, lambda: read_native(written)),
    ]
    for module, name, action, path, call in cases:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, fail)
            with pytest.raises(StorageError, match=rf"cannot {action} '{path}': Input/output"):
                call()
