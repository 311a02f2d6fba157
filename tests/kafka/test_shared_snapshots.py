"""Stores that begin with a snapshot of whoever had them, and the changelog behind it."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Uuid
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.arrow.snapshots.checked_json import read_checked, with_checksum
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.manifest import MANIFEST_NAME
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores.failpoints import arm, disarm
from statestores.kafka.cluster import NO_ID, spelled
from statestores.kafka.tasks import shared_snapshots
from statestores.kafka.tasks.shared_snapshots import SharedSnapshots, SnapshotWriter
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.processing import Record, Topic, Topology

if TYPE_CHECKING:
    from statestores.tasks.restore_progress import RestoreProgress

_COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_CHANGELOG = ss.TopicPartition("shop-counts-changelog", 0)
_DAY_MS = "86400000"


class _Cluster:
    """What a cluster says of the changelog."""

    def ids_of(self, topics: Any) -> dict[str, str]:
        return dict.fromkeys(topics, "first")

    def settings_of(self, topics: Any) -> dict[str, dict[str, str]]:
        settings = {"cleanup.policy": "compact", "delete.retention.ms": _DAY_MS}
        return dict.fromkeys(topics, settings)


@pytest.fixture
def snapshots(tmp_path: Path) -> SharedSnapshots:
    cluster: Any = _Cluster()
    return SharedSnapshots(tmp_path / "shared", cluster, [_CHANGELOG.topic])


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LoggedStore]:
    """Give a store that has nothing."""
    with ss.open_store(tmp_path / "fresh", _COUNTS, backend="sqlite") as store:
        yield LoggedStore(store, _CHANGELOG)


def _write(snapshots: SharedSnapshots, directory: Path, offset: int, value: int) -> Path:
    """Write a snapshot at *offset*, in which each of 20 keys has *value*; return where it is."""
    with ss.open_store(directory / f"at-{offset}", _COUNTS, backend="memory") as store:
        for number in range(20):
            store.put(f"key-{number}", value)
        store.commit({_CHANGELOG: offset})
        return write_snapshot(store, snapshots.folder(_CHANGELOG), partition=_CHANGELOG).path


def _begin(snapshots: SharedSnapshots, logged: LoggedStore, start: int, end: int) -> object:
    """Have a store begin; return where it goes on, and what its keys have."""
    snapshots.load(logged, start, end, lambda _: None)
    logged.begin_restore(start, end, NO_ID)
    store: Any = logged.store
    return logged.next_offset, logged.reached, {value for _, value in store.range()}


_NOTHING: tuple[int, int, set[int]] = 0, 0, set()


@pytest.mark.spec("KFK-29")
@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        pytest.param(0, 30, (20, 20, {2}), id="newest"),
        pytest.param(0, 20, (20, 20, {2}), id="at-the-end"),
        pytest.param(0, 19, (10, 10, {1}), id="topic-ends-before"),
        pytest.param(20, 30, (20, 20, {2}), id="topic-begins-behind-it"),
        pytest.param(21, 30, _NOTHING, id="topic-has-lost-what-follows"),
        pytest.param(0, 5, _NOTHING, id="no-snapshot-fits"),
    ],
)
def test_a_store_begins_with_the_newest_that_fits(
    snapshots: SharedSnapshots, fresh: LoggedStore, tmp_path: Path, start: int, end: int, found: Any
) -> None:
    """Two are there: what follows offset 9, and offset 19."""
    _write(snapshots, tmp_path, 9, 1)
    _write(snapshots, tmp_path, 19, 2)

    assert _begin(snapshots, fresh, start, end) == found


def _damage(path: Path) -> None:
    [data] = path.glob("*.arrow")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 0xFF
    data.write_bytes(content)


def _be_of_another_format(path: Path) -> None:
    file = path / MANIFEST_NAME
    content = read_checked(file.read_bytes(), str(file))
    content["format_version"] = 99
    file.write_bytes(with_checksum(content))


def _be_half_there(path: Path) -> None:
    [data] = path.glob("*.arrow")
    os.truncate(data, data.stat().st_size // 2)


@pytest.mark.spec("KFK-29", "SNP-5")
@pytest.mark.parametrize("harm", [_damage, _be_of_another_format, _be_half_there])
def test_one_that_cannot_be_used_is_passed_over(
    snapshots: SharedSnapshots,
    fresh: LoggedStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    harm: Any,
) -> None:
    """The one before it is taken; what was passed over is told."""
    _write(snapshots, tmp_path, 9, 1)
    harm(_write(snapshots, tmp_path, 19, 2))
    with caplog.at_level(logging.WARNING):
        found = _begin(snapshots, fresh, 0, 30)

    assert found == (10, 10, {1})
    assert "00000000000000000019 is passed over: " in caplog.text


@pytest.mark.spec("KFK-29")
def test_deletions_that_are_forgotten_are_not_undone(
    snapshots: SharedSnapshots,
    fresh: LoggedStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compacted topic says of a deletion for a day: a snapshot of before would keep the key."""
    _write(snapshots, tmp_path, 9, 1)
    monkeypatch.setattr(snapshots, "_oldest_ms", {_CHANGELOG.topic: 0})

    assert _begin(snapshots, fresh, 0, 30) == _NOTHING


@pytest.mark.spec("KFK-29", "SNP-12")
@pytest.mark.parametrize("failpoint", ["restore.begun", "restore.loaded"])
def test_half_a_snapshot_is_no_store(
    snapshots: SharedSnapshots, tmp_path: Path, failpoint: str
) -> None:
    """Whoever opens it next begins again: with the snapshot, or with the topic if it has gone."""

    def die() -> None:
        raise KeyboardInterrupt

    path = _write(snapshots, tmp_path, 9, 1)
    found = []
    for present in (True, False):
        for life in ("first", "next"):
            with closing(
                ss.open_store(tmp_path / f"half-{present}", _COUNTS, backend="sqlite")
            ) as store:
                logged = LoggedStore(store, _CHANGELOG)
                if life == "next":
                    if not present:
                        path.rename(tmp_path / "elsewhere")
                    found.append(_begin(snapshots, logged, 0, 30))
                    continue
                arm(failpoint, die)
                with pytest.raises(KeyboardInterrupt):
                    _begin(snapshots, logged, 0, 30)
                disarm()

    assert found == [(10, 10, {1}), _NOTHING]


@pytest.mark.spec("KFK-29")
def test_the_id_of_a_topic_is_the_name_of_a_directory() -> None:
    """The client spells one in three with a slash, which lay a directory deeper.

    One in 64 begins with it, and its snapshots were written into the root of the file system.
    """
    for low in range(200):
        written = Path("shared") / spelled(Uuid(-1 - (low << 50), low << 40))

        assert written.parent == Path("shared")


@pytest.mark.spec("KFK-29")
def test_a_clock_that_is_behind_keeps_nobody_waiting(
    snapshots: SharedSnapshots, fresh: LoggedStore, tmp_path: Path
) -> None:
    """The last snapshot was of tomorrow, by the clock of whoever wrote it; none was due till then.

    Nor is one when this machine's clock is set back meanwhile.
    """
    tomorrow = time.time() + 86_400
    os.utime(_write(snapshots, tmp_path, 3, 1), (tomorrow, tomorrow))
    store: Any = fresh.store
    store.put("key", 1)
    fresh.commit(7)
    with closing(SnapshotWriter(snapshots, lambda: [fresh], 1)):
        wait_for(lambda: 7 in snapshots.listed(_CHANGELOG), "a snapshot")


@pytest.mark.spec("KFK-29")
def test_a_snapshot_that_fails_is_told_and_tried_again(
    snapshots: SharedSnapshots,
    fresh: LoggedStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever it was: the thread that writes them would have ended, and nobody would know."""
    failures = iter([RuntimeError("first"), ValueError("second")])

    def write(*arguments: Any, **more: Any) -> Any:
        for failure in failures:
            raise failure
        return write_snapshot(*arguments, **more)

    monkeypatch.setattr(shared_snapshots, "write_snapshot", write)
    store: Any = fresh.store
    store.put("key", 1)
    fresh.commit(7)
    with closing(SnapshotWriter(snapshots, lambda: [fresh], 1)):
        wait_for(lambda: 7 in snapshots.listed(_CHANGELOG), "a snapshot")

    told = [record.exc_info and str(record.exc_info[1]) for record in caplog.records]
    assert told == ["first", "second"]


@pytest.mark.spec("KFK-29", "KFK-8")
def test_another_instance_begins_with_the_snapshot(cluster: TestCluster, tmp_path: Path) -> None:
    """It reads the rows of the snapshot and what came behind it, and counts on."""
    name = cluster.name("snapshots")
    words = Topic(f"{name}-words", key=ss.utf8, value=ss.int64, partitions=1)
    counted = Topic(f"{name}-counted", key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(words, counted)
    topology = Topology(name)
    topology.stream(words).group_by_key().count(_COUNTS).to(counted)
    options: dict[str, Any] = {"snapshots": tmp_path / "shared", "snapshot_interval_ms": 50}

    def has_counted(each: int) -> bool:
        return {record.key: record.value for record in cluster.read(counted)} == {
            f"key-{number}": each for number in range(10)
        }

    def give(times: int) -> None:
        cluster.append(words, [Record(f"key-{at % 10}", 1, 1 + at) for at in range(10 * times)])

    def written() -> int:
        """Return the offset of the newest snapshot."""
        folders = (tmp_path / "shared" / f"{name}-counts-changelog").glob("*/0")
        return max((offset for each in folders for offset in list_snapshots(each)), default=-1)

    def committed(instance: ThreadedInstance) -> int:
        """Return the offset at which the store is."""
        [place] = instance.wait_for("running", 1).values()
        [counts] = [each for each in place.stores if each.store == "counts"]
        return counts.next_offset - 1

    with ThreadedInstance(cluster, topology, tmp_path / "one", **options) as one:
        give(20)
        wait_for(lambda: has_counted(20), "counts")
        wait_for(lambda: written() == committed(one), "a snapshot of all counts")
        one.leave()
    give(1)
    told: list[RestoreProgress] = []
    other = ThreadedInstance(
        cluster, topology, tmp_path / "other", on_restore=told.append, **options
    )
    with other:
        wait_for(lambda: has_counted(21), "counts that go on")
        other.leave()
    rows = {each.store: each.rows for each in told if each.event == "ended"}

    assert rows["counts"] == 10
