"""A native part: of which engines there is one, what is on disk when, and which one stands."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from statestores.arrow.snapshots import native_writing
from statestores.arrow.snapshots.directory import native_path
from statestores.arrow.snapshots.native_part import ENGINE_FILES, read_native
from statestores.arrow.snapshots.native_writing import (
    _driver_of,
    _durable_files,
    _place,
    snapshot_format_of,
    write_native_snapshot,
)
from statestores.errors import CapabilityNotSupportedError, InvalidArgumentError, StorageError
from statestores.failpoints import arm, disarm
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_directory import make_durable
from statestores.spi import KeyValue, TopicPartition
from statestores_conformance.many_cases import for_each

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

LOG = TopicPartition("counts-changelog", 0)


@pytest.fixture
def store(open_store: Any) -> Any:
    """Open a store of RocksDB at offset 3."""
    opened = open_store(KeyValue("counts"), "rocksdb")
    opened.put(b"a", b"1")
    opened.commit({LOG: 3})
    return opened


@pytest.mark.spec("SNP-27")
def test_a_native_part_is_written_beside_its_snapshot(store: Any, tmp_path: Path) -> None:
    """Of the files of a closed engine; what writers have left is gone before it is copied."""
    stale = tmp_path / "s" / ".tmp-1-ab"
    stale.mkdir(parents=True)
    seen: list[tuple[str, bool, bool]] = []
    path = tmp_path / "s" / f"{3:020d}"
    before = time.time_ns() // 1_000_000
    for name in ("native.copied", "native.described"):
        arm(name, lambda name=name: seen.append((name, stale.exists(), path.exists())))  # type: ignore[misc]
        info = write_native_snapshot(store, tmp_path / "s")
        disarm()

    part = read_native(info.path)
    assert part is not None
    part.verify()
    assert seen == [("native.copied", False, False), ("native.described", False, True)]
    assert before <= part.manifest.created_at_ms <= time.time_ns() // 1_000_000
    assert LOCK_FILE not in {file.name for file in part.manifest.files}
    assert (part.manifest.offset, part.manifest.backend) == (3, "rocksdb")
    assert (info.written, info.native_bytes) == (False, part.manifest.bytes)


@pytest.mark.spec("SNP-27")
def test_the_size_is_that_of_the_native_part_that_stands(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another checkpoint of the same content may have other files."""
    first = write_native_snapshot(store, tmp_path)
    standing: Any = SimpleNamespace(manifest=SimpleNamespace(bytes=12_345))
    monkeypatch.setattr(native_writing, "_place", lambda *_: standing)

    again = write_native_snapshot(store, tmp_path)

    assert (first.written, again.written, again.native_bytes) == (True, False, 12_345)


def test_a_format_is_one_of_two() -> None:
    """As `snapshot` of a logged store takes them."""
    assert [snapshot_format_of(each) for each in ("arrow", "native")] == ["arrow", "native"]
    with pytest.raises(InvalidArgumentError, match="'arrow' or 'native'"):
        snapshot_format_of("other")


@for_each(("checkpoint", "driver"), [(True, None), (False, "driver 1"), (False, None)])
def test_an_engine_whose_files_nobody_else_can_open_has_no_native_part(
    checkpoint: bool, driver: str | None
) -> None:
    """It copies none, or does not say what opens them."""
    engine = SimpleNamespace(
        name="mine",
        driver=lambda: driver,
        capabilities=SimpleNamespace(native_checkpoint=checkpoint),
    )
    asked: Any = SimpleNamespace(engine_class=engine)

    with pytest.raises(CapabilityNotSupportedError, match="'mine' backend makes no native"):
        _driver_of(asked)


@pytest.mark.spec("SNP-27", "ASM-6")
def test_each_file_is_on_disk_when_it_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the directory when all are."""
    for name in ("b", "a"):
        (tmp_path / name).write_bytes(name.encode())
    durable: list[str] = []

    def note(path: Path) -> None:
        durable.append(path.name)
        make_durable(path)

    monkeypatch.setattr(native_writing, "make_durable", note)
    found = [(file.name, list(durable)) for file in _durable_files(tmp_path)]

    assert found == [("a", ["a"]), ("b", ["a", "b"])]
    assert durable == ["a", "b", tmp_path.name]


@pytest.mark.parametrize("what", ["directory", "link"])
def test_what_is_no_regular_file_is_no_part_of_a_copy(tmp_path: Path, what: str) -> None:
    """An engine may have a directory for its own logs, or links to files elsewhere."""
    (tmp_path / "file").write_bytes(b"1")
    files = tmp_path / ENGINE_FILES
    files.mkdir()
    if what == "directory":
        (files / "odd").mkdir()
    else:
        (files / "odd").symlink_to(tmp_path / "file")

    with pytest.raises(CapabilityNotSupportedError, match=r"'.*odd' is no regular file"):
        list(_durable_files(files))


@pytest.mark.spec("SNP-27", "SNP-30")
def test_a_native_part_that_goes_while_it_is_looked_at_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was taken, and is free again."""
    snapshot = tmp_path / f"{3:020d}"
    free = [False, True]
    asked: list[Path] = []

    def publish(temporary: Path, target: Path) -> bool:
        asked.append(target)
        return free.pop(0)

    monkeypatch.setattr(native_writing, "publish", publish)

    assert _place(tmp_path / "temporary", snapshot) is None
    assert asked == [native_path(snapshot)] * 2


def test_what_hinders_a_native_snapshot_is_told(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the directory."""

    def fail(path: Path) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(native_writing, "remove_stale_temporaries", fail)
    with pytest.raises(StorageError, match=rf"cannot write a snapshot into '{tmp_path}': no room"):
        write_native_snapshot(store, tmp_path)
