"""Snapshots with the engine's own files, as tests make, harm and restore them."""

import shutil
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.arrow import SnapshotInfo, list_snapshots
from statestores.arrow.snapshots.directory import native_path

INPUT = ss.TopicPartition("events", 0)
COUNTS = ss.KeyValue("counts")

CONTENT = {b"%03d" % number: b"%d" % number for number in range(300)} | {b"tail": b"300"}


def root_with_native_snapshot(path: Path) -> ss.StateRoot:
    """Make a state root with a snapshot of 300 rows and its native part, and a tail of one."""
    root = ss.StateRoot.create(path)
    root.add_store(COUNTS, partitions=1)
    with ss.open_logged_store(root, COUNTS) as logged:
        for number in range(300):
            logged.store.put(b"%03d" % number, b"%d" % number)
        logged.commit({INPUT: 1})
        logged.snapshot(snapshot_format="native")
        logged.changelog.seal()  # type: ignore[attr-defined]  # a changelog in files
        logged.store.put(b"tail", b"300")
        logged.commit({INPUT: 2})
    return root


def native_snapshot(logged: Any) -> SnapshotInfo:
    return snapshot(logged, "native")


def snapshot(logged: Any, snapshot_format: str = "arrow") -> SnapshotInfo:
    info = logged.snapshot(snapshot_format=snapshot_format)
    assert isinstance(info, SnapshotInfo)
    return info


def without_engine(root: ss.StateRoot, copy: Path, *, native: bool) -> Path:
    """Copy *root* without its engine, and if it is not to be *native*, without native parts."""
    left_out = shutil.ignore_patterns("engine.json", "OWNER.lock", "" if native else "*.native")
    shutil.copytree(root.path, copy, ignore=left_out)
    shutil.rmtree(copy / root.path.name, ignore_errors=True)
    for engine in copy.glob("*/*/engine"):
        shutil.rmtree(engine)
    return copy


def snapshot_in(root: Path) -> Path:
    (path,) = list_snapshots(root / "counts" / "0" / "snapshots").values()
    return path


def table_of(snapshot: Path) -> Path:
    return min((native_path(snapshot) / "engine").glob("*.sst"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # it may be a link to the engine's own
    path.write_bytes(content)
