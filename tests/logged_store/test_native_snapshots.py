"""Snapshots with the engine's own files: the same store as of the columns, or the columns are read.

Each test restores twice, by the native part and by the columns, into directories of their own.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Forked
from native_snapshots import (
    CONTENT,
    COUNTS,
    INPUT,
    flip,
    native_snapshot,
    root_with_native_snapshot,
    snapshot,
    snapshot_in,
    table_of,
    without_engine,
)

import statestores as ss
from statestores.arrow import list_snapshots, newest_valid_snapshot, read_snapshot
from statestores.arrow.snapshots.directory import native_path
from statestores.arrow.snapshots.native_part import read_native
from statestores.changelog import FileChangelog
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
)
from statestores.failpoints import arm, disarm
from statestores.reading.locations import locate
from statestores.reading.partition_reader import PartitionReader
from statestores.tasks import open_standby, open_task
from statestores.upkeep.vacuum import remove_old_snapshots
from statestores.verification import check_location
from statestores_rocksdb import RocksDBEngine

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

KEYS = [b"a", b"a\x00", b"b", b"", b"\xff\xff", b"\x01key"]
KILLED = -9

Write = Callable[[Any, random.Random, int], object]

KINDS: dict[str, tuple[Any, Write, Callable[[Any], list[Any]]]] = {
    "key-value": (
        ss.KeyValue("store"),
        lambda store, chance, now: store.put(chance.choice(KEYS), b"%d" % now),
        lambda store: list(store.range()),
    ),
    "ttl": (
        ss.TimestampedKeyValue("store", ttl_ms=60),
        lambda store, chance, now: store.put(
            chance.choice(KEYS), b"%d" % now, timestamp_ms=max(0, now - chance.randint(0, 80))
        ),
        lambda store: list(store.range()),
    ),
    "versioned": (
        ss.Versioned("store", history_retention_ms=60),
        lambda store, chance, now: store.put(
            chance.choice(KEYS),
            None if chance.random() < 0.1 else b"%d" % now,
            max(0, now - chance.randint(0, 80)),
        ),
        lambda store: [record for key in sorted(KEYS) for record in store.history(key)],
    ),
    "window": (
        ss.Window("store", retention_ms=60, window_size_ms=10, retain_duplicates=True),
        lambda store, chance, now: store.put(
            chance.choice(KEYS), b"%d" % now, window_start_ms=max(0, now - 20) // 10 * 10
        ),
        lambda store: list(store.fetch_all()),
    ),
    "session": (
        ss.Session("store", retention_ms=60),
        lambda store, chance, now: store.put(
            chance.choice(KEYS), now // 5 * 5 - chance.randint(0, 20), now // 5 * 5, b"%d" % now
        ),
        lambda store: list(store.find_all_sessions()),
    ),
}


def _write(logged: Any, write: Write, commits: range) -> None:
    chance = random.Random(commits.start)
    for number in commits:
        for step in range(chance.randint(1, 8)):
            write(logged.store, chance, 100 + number * 7 + step)
        logged.commit({INPUT: number})


def _facts(logged: Any, show: Callable[[Any], list[Any]]) -> tuple[Any, ...]:
    """Return everything that two restores of one store have in common."""
    return (
        show(logged.store),
        dict(logged.position),
        logged.committed_offset,
        getattr(logged.store, "stream_time_ms", None),
    )


@pytest.mark.spec("SNP-27", "SNP-28")
def test_a_native_restore_is_that_of_the_columns(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Of every kind, with what expires later; where the changelog's beginning is gone."""
    for kind, (specification, write, show) in KINDS.items():
        for backend in ("rocksdb", "sqlite"):
            with subtests.test(kind=kind, backend=backend):
                local = tmp_path / f"{kind}-{backend}"
                root = ss.StateRoot.create(local / "root")
                root.add_store(specification, partitions=1)
                with ss.open_logged_store(root, "store", backend=backend) as logged:
                    _write(logged, write, range(30))
                    info = native_snapshot(logged)
                    assert isinstance(logged.changelog, FileChangelog)
                    logged.changelog.seal()
                    logged.changelog.delete_before(info.offset + 1)
                    _write(logged, write, range(30, 36))
                    expected = _facts(logged, show)
                found = []
                for native in (True, False):
                    copy = without_engine(root, local / f"{native}", native=native)
                    with ss.open_logged_store(copy, "store", backend=backend) as logged:
                        assert _facts(logged, show) == expected
                        assert logged.restored.native == native
                        restored = logged.restored
                        _write(logged, write, range(36, 60))
                        found.append((_facts(logged, show), replace(restored, native=True)))

                assert found[0] == found[1]


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    return root_with_native_snapshot(tmp_path / "root")


_MAKER = """
import os, signal, sys
import statestores as ss
from statestores.failpoints import arm

arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))
with ss.open_logged_store(sys.argv[1], "counts") as logged:
    logged.snapshot(snapshot_format="native")
"""

_RESTORER = """
import os, signal, sys
import statestores as ss
from statestores.failpoints import arm

arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL), at=1)
ss.open_logged_store(sys.argv[1], "counts")
"""


_REMOVER = """
import os, signal, sys
import statestores as ss
from statestores.failpoints import arm
from statestores.upkeep.vacuum import remove_old_snapshots

arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))
remove_old_snapshots(ss.StateRoot.open(sys.argv[1]).partition("counts", 0), 1)
"""


@pytest.mark.spec("SNP-2", "SNP-12", "SNP-15", "SNP-27", "SNP-28", "SNP-30")
def test_a_kill_while_it_is_made_or_restored_loses_nothing(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """There is a whole snapshot or none, and a whole engine or none; the next call goes on."""
    for failpoint, snapshots in {
        "native.copied": 1,
        "snapshot.manifest-written": 1,
        "snapshot.rename.after": 2,
        "native.described": 2,
    }.items():
        with subtests.test("made", failpoint=failpoint):
            copy = shutil.copytree(root.path, tmp_path / f"made-{failpoint}")
            with Forked(_MAKER, copy, failpoint) as maker:
                assert maker.wait() == KILLED
            place = copy / "counts" / "0"
            assert len(list_snapshots(place / "snapshots")) == snapshots
            assert newest_valid_snapshot(place / "snapshots").refused == {}
            assert all(finding.status == "ok" for finding in _findings(copy))
            with ss.open_logged_store(copy, "counts") as logged:
                native_snapshot(logged)
                assert dict(logged.store.range()) == CONTENT
            names = {path.name for path in (place / "snapshots").iterdir()}
            assert names == {f"{at:020}{suffix}" for at in (299, 300) for suffix in ("", ".native")}
    for failpoint in ("native.restoring", "native.restored", "native.renamed"):
        with subtests.test("restored", failpoint=failpoint):
            copy = without_engine(root, tmp_path / f"restored-{failpoint}", native=True)
            with Forked(_RESTORER, copy, failpoint) as restorer:
                assert restorer.wait() == KILLED
            with ss.open_logged_store(copy, "counts") as logged:
                assert dict(logged.store.range()) == CONTENT
                assert logged.restored.native == (failpoint != "native.renamed")
            left = {path.name for path in (copy / "counts" / "0").iterdir()}
            assert left == {"engine", "engine.json", "changelog", "snapshots"}

    with subtests.test("removed"):
        copy = shutil.copytree(root.path, tmp_path / "removed")
        with ss.open_logged_store(copy, "counts") as logged:
            logged.snapshot()
        with Forked(_REMOVER, copy, "native.removed") as remover:
            assert remover.wait() == KILLED
        left = {path.name for path in (copy / "counts" / "0" / "snapshots").iterdir()}
        assert left == {f"{at:020}" for at in (299, 300)}


def _findings(root: Path) -> list[Any]:
    location = locate(root)
    return list(check_location(location, ["counts"], options={}, with_engine=True, progress=None))


def _native_statuses(root: Path) -> list[str]:
    return [each.status.value for each in _findings(root) if each.check == "native snapshot"]


def _begin_elsewhere(root: ss.StateRoot, place: Path) -> None:
    """Open a standby and a task in *place*, and see whose engine they have."""
    identity = (native_path(snapshot_in(root.path)) / "engine" / "IDENTITY").read_bytes()
    with open_standby(root, "counts", 0, place / "standby") as standby:
        standby.poll()
        with standby.promote() as logged:
            assert dict(logged.store.range()) == CONTENT
    assert (place / "standby" / "engine" / "IDENTITY").read_bytes() == identity
    local = place / "local"
    with open_task(root, "0_0", ["counts"], local_directory=local) as task:
        assert dict(task.store("counts").range()) == CONTENT
    assert (local / "counts" / "0" / "engine" / "IDENTITY").read_bytes() == identity


@pytest.mark.spec("SNP-1", "SNP-3", "SNP-27", "SNP-28", "SNP-29", "SNP-30")
def test_both_parts_are_of_one_commit_and_go_together(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The owner commits while they are written; nobody else notices that there are two."""
    snapshots = root.partition("counts", 0).snapshots
    with subtests.test("a standby and a task begin with it"):
        _begin_elsewhere(root, tmp_path)
    with ss.open_logged_store(root, "counts") as logged:
        arm("native.copied", lambda: (logged.store.put(b"later", b"1"), logged.commit()))
        info = native_snapshot(logged)
        disarm()
        with subtests.test("one commit"):
            part = read_native(info.path)
            assert part is not None
            (tmp_path / "engine").mkdir()
            part.copy_to(tmp_path / "engine")
            with RocksDBEngine.open(tmp_path / "engine") as engine:
                keys = {key for key, _ in engine.scan(b"")}
            assert not any(b"later" in key for key in keys)
            assert any(b"tail" in key for key in keys)
            assert (info.offset, info.rows) == (300, 301)
            assert info.native_bytes == part.manifest.bytes
        with subtests.test("a snapshot that is there gets the native part that it lacks"):
            plain = snapshot(logged)
            assert read_native(plain.path) is None
            before = (plain.path / "manifest.json").read_bytes()
            again = native_snapshot(logged)
            assert (again.place, again.written) == (plain.place, True)
            assert (plain.path / "manifest.json").read_bytes() == before
            assert not native_snapshot(logged).written
        with subtests.test("a damaged one is replaced"):
            flip(table_of(plain.path))
            assert _native_statuses(root.path) == ["ok", "ok", "damaged"]
            assert native_snapshot(logged).written
            assert _native_statuses(root.path) == ["ok", "ok", "ok"]
    with subtests.test("what was there before knows nothing of it"):
        assert {path.name for path in plain.path.iterdir()} == {"manifest.json", "data-0000.arrow"}
        assert list(list_snapshots(snapshots)) == [299, 300, 301]
        reader = PartitionReader(root.partition("counts", 0), COUNTS)
        rows = {row["key"]: row["value"] for batch in reader.rows() for row in batch.to_pylist()}
        assert rows == CONTENT | {b"later": b"1"}
        assert read_snapshot(plain.path).rows == 302
    with subtests.test("a vacuum removes both, and what a release that knows none has left"):
        shutil.rmtree(snapshots / f"{299:020}")
        remove_old_snapshots(root.partition("counts", 0), 1)
        assert {path.name for path in snapshots.iterdir()} == {f"{301:020}", f"{301:020}.native"}


@pytest.mark.spec("SNP-27")
def test_a_native_snapshot_is_refused_where_there_can_be_none(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """By name, and nothing is written."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(COUNTS, partitions=2)
    for number, backend in enumerate(("leveldb", "memory")):
        with (
            subtests.test(backend),
            ss.open_logged_store(root, "counts", number, backend=backend) as logged,
        ):
            logged.store.put(b"a", b"1")
            logged.commit()
            with pytest.raises(CapabilityNotSupportedError, match=backend):
                logged.snapshot(snapshot_format="native")
            with pytest.raises(InvalidArgumentError, match="'arrow' or 'native'"):
                logged.snapshot(snapshot_format="canonical")  # type: ignore[arg-type]
            assert not root.partition("counts", number).snapshots.exists()
    objects = ss.StateRoot.create("memory://native-snapshots")
    objects.add_store(COUNTS, partitions=1)
    with (
        subtests.test("objects"),
        ss.open_logged_store(objects, "counts", directory=tmp_path / "local") as logged,
    ):
        logged.store.put(b"a", b"1")
        logged.commit()
        with pytest.raises(CapabilityNotSupportedError, match="object store"):
            logged.snapshot(snapshot_format="native")
