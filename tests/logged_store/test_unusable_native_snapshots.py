"""What of a snapshot's native part cannot be used is passed over, and what is wrong is told."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from native_snapshots import (
    CONTENT,
    flip,
    root_with_native_snapshot,
    snapshot_in,
    table_of,
    without_engine,
)

import statestores as ss
from statestores.arrow.file_access import checksum_of
from statestores.arrow.snapshots.checked_json import read_checked, with_checksum
from statestores.arrow.snapshots.directory import native_path
from statestores.changelog import FileChangelog
from statestores.errors import SnapshotCorruptedError, StateStoreError
from statestores.tasks import open_task
from statestores_rocksdb import RocksDBEngine

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    return root_with_native_snapshot(tmp_path / "root")


def _change_document(snapshot: Path, **fields: object) -> None:
    document = native_path(snapshot) / "native.json"
    content = read_checked(document.read_bytes(), str(document))
    document.write_bytes(with_checksum(content | fields))


def _other_content(snapshot: Path) -> None:
    """Put the files of another engine there, with right sums."""
    engine = native_path(snapshot) / "engine"
    shutil.rmtree(engine)
    RocksDBEngine.open(engine).close()
    (engine / "OWNER.lock").unlink()
    files = [
        {"name": file.name, "bytes": file.stat().st_size, "crc32c": f"{checksum_of(file):08x}"}
        for file in sorted(engine.iterdir())
    ]
    _change_document(snapshot, files=files)


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit in a table": (lambda path: flip(table_of(path)), "CRC32C"),
    "a table cut off": (lambda path: os.truncate(table_of(path), 9), "9 bytes"),
    "a table gone": (lambda path: table_of(path).unlink(), "missing from"),
    "a file too many": (
        lambda path: (native_path(path) / "engine" / "000099.sst").touch(),
        "does not belong",
    ),
    "a flipped bit in its document": (
        lambda path: flip(native_path(path) / "native.json"),
        "native.json",
    ),
    "no document": (lambda path: (native_path(path) / "native.json").unlink(), "missing"),
    "of a later format": (
        lambda path: _change_document(path, format_version=2),
        "format version 2",
    ),
    "of another snapshot": (
        lambda path: _change_document(path, snapshot_crc32c="00000000"),
        "another snapshot",
    ),
    "of another engine at another commit": (_other_content, "not at the commit"),
    "of another driver": (
        lambda path: _change_document(path, driver="rocksdict 0.0.1"),
        "written by rocksdict 0.0.1",
    ),
}


@pytest.mark.spec("SNP-28", "SNP-29")
def test_a_native_part_that_cannot_be_used_is_passed_over(
    root: ss.StateRoot,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    subtests: pytest.Subtests,
) -> None:
    """The columns give the same, a line is logged, and nothing is left of the attempt.

    With the columns damaged too, and the changelog's beginning gone, it is the error that it always
    was.
    """
    caplog.set_level(logging.INFO)
    for name, (harm, words) in UNUSABLE.items():
        with subtests.test(name):
            caplog.clear()
            copy = without_engine(root, tmp_path / name, native=True)
            harm(snapshot_in(copy))
            with ss.open_logged_store(copy, "counts") as logged:
                assert (logged.restored.native, logged.restored.snapshot_rows) == (False, 300)
                assert dict(logged.store.range()) == CONTENT
            assert words in caplog.text
            assert "columns are read instead" in caplog.text
            assert not list((copy / "counts" / "0").glob(".tmp-*"))
    with subtests.test("another backend"):
        copy = without_engine(root, tmp_path / "sqlite", native=True)
        with ss.open_logged_store(copy, "counts", backend="sqlite") as logged:
            assert (logged.restored.native, dict(logged.store.range())) == (False, CONTENT)
        assert "of the backend 'rocksdb'" in caplog.text
    with subtests.test("the columns damaged, and it is whole"):
        copy = without_engine(root, tmp_path / "columns", native=True)
        flip(snapshot_in(copy) / "data-0000.arrow")
        with ss.open_logged_store(copy, "counts") as logged:
            assert (logged.restored.native, dict(logged.store.range())) == (True, CONTENT)
    with subtests.test("both damaged"):
        shutil.rmtree(copy / "counts" / "0" / "engine")
        flip(table_of(snapshot_in(copy)))
        with FileChangelog.open(copy / "counts" / "0" / "changelog", "key-value") as log:
            log.delete_before(300)
            assert log.first_offset == 300
        with pytest.raises(SnapshotCorruptedError, match=r"data-0000\.arrow"):
            ss.open_logged_store(copy, "counts")


def _another_store(copy: Path) -> None:
    document = copy / "statestores.json"
    content = json.loads(document.read_text().replace('"bytes"', '"utf8"', 1))
    del content["crc32"]
    document.write_text(json.dumps(content))


def _shorter_changelog(copy: Path) -> None:
    shutil.rmtree(copy / "counts" / "0" / "changelog")
    FileChangelog.create(copy / "counts" / "0" / "changelog", "key-value").close()


def _rows_of_engine(copy: Path) -> list[tuple[Any, Any]]:
    """Return what the engine holds, if a refused opening has left one (LAY-35)."""
    place = copy / "counts" / "0"
    if not (place / "engine.json").exists():
        return []
    with ss.open_existing(place, decoded=False) as store:
        assert isinstance(store, ss.KeyValueStore)
        return list(store.range())


REFUSED: dict[str, Callable[[Path], object]] = {
    "other serdes": _another_store,
    "no changelog": lambda copy: shutil.rmtree(copy / "counts" / "0" / "changelog"),
    "a changelog that ends before it": _shorter_changelog,
    "a damaged changelog": lambda copy: max(copy.glob("counts/0/changelog/*.log")).write_bytes(
        b"nonsense" * 50
    ),
}


@pytest.mark.spec("SNP-13", "SNP-28")
def test_what_a_restore_refuses_is_refused_with_a_native_part(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """With the same words, and no engine has the snapshot's rows afterwards."""
    openings: list[Callable[[Path], object]] = [
        lambda copy: ss.open_logged_store(copy, "counts"),
        # What is wrong elsewhere is not taken for damage to an engine that is not there.
        lambda copy: open_task(copy, "0_0", ["counts"], on_corruption="rebuild"),
    ]
    for (name, harm), opening in product(REFUSED.items(), openings):
        with subtests.test(name):
            told = []
            for native in (True, False):
                copy = without_engine(root, tmp_path / name, native=native)
                harm(copy)
                with pytest.raises(StateStoreError) as error:
                    opening(copy)
                told.append((type(error.value), str(error.value), _rows_of_engine(copy)))
                shutil.rmtree(copy)

            assert told[0] == told[1]
            assert told[0][2] == []
