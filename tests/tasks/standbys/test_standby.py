"""A standby follows without a lock, serves stale reads through a failover, and takes over."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Forked

import statestores as ss
from statestores.arrow.restoring import row_sink
from statestores.begun_partitions import GonePartitionError
from statestores.changelog import (
    changelog_partition,
)
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StoreClosedError,
    StoreLockedError,
)
from statestores.tasks import open_standby
from statestores.tasks.copying.changelog_gap import is_left_behind

BACKENDS = ["rocksdb", "leveldb", "sqlite"]


INPUT = ss.TopicPartition("numbers", 0)


# Counts up for ever; the sum of both keys is the number of commits, twice.
WRITER = """
import sys
import statestores as ss

part = ss.TopicPartition("numbers", 0)
with ss.open_logged_store(sys.argv[1], "counts", 0, backend="rocksdb") as counts:
    number = counts.position.get(part, 0)
    while True:
        number += 1
        counts.store.put("even" if number % 2 == 0 else "odd", number)
        counts.store.put("total", number)
        counts.commit({part: number}, durability=ss.Durability.PROCESS_CRASH)
        print(number, flush=True)
"""


@pytest.mark.spec("STB-1", "STB-2", "TSK-7")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_standby_follows_while_the_writer_writes(
    root: ss.StateRoot, tmp_path: Path, backend: str
) -> None:
    """Each poll takes what is new; lag and reads say how far it is."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="rocksdb") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend=backend) as standby,
    ):
        assert standby.poll() == 0
        counts.store.put("a", 1)
        counts.store.put("b", 2)
        counts.commit({INPUT: 1})
        assert standby.lag.offset_lag == 2
        assert standby.poll() == 2
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        assert dict(facade.range()) == {"a": 1, "b": 2}

        counts.store.put("a", None)
        counts.commit({INPUT: 2})
        assert dict(facade.range()) == {"a": 1, "b": 2}
        assert (standby.lag.current_offset, standby.lag.end_offset) == (2, 3)
        assert standby.poll() == 1
        assert standby.poll() == 0
        assert dict(facade.range()) == {"b": 2}
        assert facade.position == {INPUT: 2}
        assert standby.lag.offset_lag == 0


@pytest.mark.spec("STB-3")
def test_stale_reads_have_to_be_asked_for(root: ss.StateRoot, tmp_path: Path) -> None:
    """A copy that may be behind is never mistaken for the store."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby:
        with pytest.raises(InvalidStateStoreError, match="include_stale=True") as caught:
            standby.read_only()
        assert caught.value.retryable


@pytest.mark.spec("STB-4")
@pytest.mark.parametrize("backend", BACKENDS)
def test_promotion_replays_only_what_is_missing(
    root: ss.StateRoot, tmp_path: Path, backend: str
) -> None:
    """The copy becomes the store: its facades go on, and the old writer is locked out."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="rocksdb") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend=backend) as standby,
    ):
        for number in range(10):
            counts.store.put(f"{number}", number)
            counts.commit({INPUT: number})
        standby.poll()
        counts.store.put("last", 1)
        counts.commit({INPUT: 10})
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        with pytest.raises(StoreLockedError):
            standby.promote()
        assert standby.is_open
        counts.close()

        with standby.promote() as promoted:
            assert promoted.restored.changelog_rows == 1
            assert facade.get("last") == 1
            promoted.store.put("new", 2)
            promoted.commit({INPUT: 11})
            assert facade.get("new") == 2
            assert isinstance(again := standby.read_only(), ss.ReadOnlyKeyValueStore)
            assert again.get("new") == 2
            with pytest.raises(StoreClosedError):
                standby.poll()
            with pytest.raises(StoreLockedError):
                ss.open_logged_store(root, "counts", 0)

    with ss.open_logged_store(root, "counts", 0) as counts:
        assert counts.store.get("new") == 2
        assert counts.restored.changelog_rows == 1


@pytest.mark.spec("STB-6")
def test_reads_never_fail_while_the_writer_is_killed(root: ss.StateRoot, tmp_path: Path) -> None:
    """A failover: the writer dies by SIGKILL, the standby answers all along and takes over.

    Every read sees one commit, later reads see no earlier one, and what the writer acknowledged
    is in the promoted store.
    """
    seen: list[tuple[int, int]] = []
    problems: list[BaseException] = []
    stop = threading.Event()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="rocksdb") as standby:

        def read() -> None:
            try:
                while not stop.is_set():
                    facade = standby.read_only(include_stale=True)
                    assert isinstance(facade, ss.ReadOnlyKeyValueStore)
                    row = dict(facade.range())
                    seen.append((row.get("total", 0), max(row.get("odd", 0), row.get("even", 0))))
            except BaseException as error:  # noqa: BLE001  # the main thread judges
                problems.append(error)

        with Forked(WRITER, root.path) as writer:
            writer.stdout.readline()
            standby.poll()
            standby.follow(0.01)
            reader = threading.Thread(target=read)
            reader.start()
            for _ in range(200):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            rest = writer.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        with standby.promote() as promoted:
            deadline = time.monotonic() + 30
            while (not seen or seen[-1][0] < acknowledged) and time.monotonic() < deadline:
                time.sleep(0.01)
            stop.set()
            reader.join()
            total = promoted.store.get("total")
            assert promoted.position == {INPUT: total}
            assert promoted.committed_offset == promoted.changelog.end_offset - 1

    assert problems == []
    assert total >= acknowledged
    assert all(total == newest for total, newest in seen)
    assert [each[0] for each in seen] == sorted(each[0] for each in seen)
    assert seen[-1][0] == total


@pytest.mark.spec("STB-2")
def test_what_ends_following_is_told(root: ss.StateRoot, tmp_path: Path) -> None:
    """A follower that cannot go on says why, and its copy can still be read."""
    with ss.open_logged_store(root, "counts", 0, backend="rocksdb") as counts:
        counts.store.put("a", 1)
        counts.commit()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="rocksdb") as standby:
        standby.poll()
        [segment] = root.partition("counts", 0).changelog.glob("*.log")
        damaged = bytearray(segment.read_bytes())
        damaged[:8] = b"nonsense"
        segment.write_bytes(damaged)
        standby.follow(0.0)
        with pytest.raises(InvalidArgumentError, match="follows already"):
            standby.follow()
        deadline = time.monotonic() + 30
        while standby.failure is None and time.monotonic() < deadline:
            time.sleep(0.01)
        standby.stop()

        assert isinstance(standby.failure, ss.errors.ChangelogCorruptedError)
        facade = standby.read_only(include_stale=True)
        assert isinstance(facade, ss.ReadOnlyKeyValueStore)
        assert facade.get("a") == 1


@pytest.mark.spec("STB-2", "LAY-35")
@pytest.mark.parametrize("gone", ["counts/0", "counts", "."], ids=["partition", "store", "root"])
def test_following_goes_on_when_the_changelog_is_there_again(
    root: ss.StateRoot, tmp_path: Path, gone: str
) -> None:
    """A disk was not mounted for a moment, and the standby did not follow any more.

    Meanwhile it says why, and its copy can be read.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        counts.store.put("a", 1)
        counts.commit()
    place, aside = root.path / gone, tmp_path / "aside"
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby:
        standby.poll()
        standby.follow(0.01)
        facade: Any = standby.read_only(include_stale=True)
        place.rename(aside)
        _wait(lambda: standby.failure is not None)
        assert isinstance(standby.failure, GonePartitionError)
        assert standby.is_following
        assert facade.get("a") == 1
        aside.rename(place)
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            counts.store.put("a", 2)
            counts.commit()
        _wait(lambda: facade.get("a") == 2 and standby.failure is None)

        assert facade.get("a") == 2
        assert standby.failure is None


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_standby_has_a_directory_of_its_own(root: ss.StateRoot) -> None:
    """It cannot lie where the active store's engine lies."""
    with pytest.raises(InvalidArgumentError, match="directory of its own"):
        open_standby(root, "counts", 0, root.partition("counts", 0).path)


@pytest.mark.spec("STB-4", "STB-5")
def test_a_standby_that_may_not_be_promoted_goes_on_following(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A promotion that the old writer refused left a standby that followed no more."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby,
    ):
        counts.store.put("a", 1)
        counts.commit()
        standby.follow(0.01)
        with pytest.raises(StoreLockedError):
            standby.promote()

        assert standby.is_following


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_a_closed_standby_has_closed_its_copy(
    root: ss.StateRoot, tmp_path: Path, backend: str
) -> None:
    """Its facades answered on, and the copy stayed locked for as long as the process ran."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        counts.store.put("a", 1)
        counts.commit({INPUT: 1})
    standby = open_standby(root, "counts", 0, tmp_path / "copy", backend=backend)
    standby.poll()
    facade: Any = standby.read_only(include_stale=True)
    assert facade.get("a") == 1
    standby.close()
    standby.close()

    with pytest.raises(StoreClosedError):
        facade.get("a")
    with open_standby(root, "counts", 0, tmp_path / "copy", backend=backend) as again:
        assert again.poll() == (1 if backend == "memory" else 0)


def test_a_copy_is_not_behind_a_changelog_that_nobody_has_begun(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """There is nothing that it could lack."""
    partition = changelog_partition("counts", 0)
    with ss.open_store(tmp_path / "copy", ss.KeyValue("counts"), backend="memory") as opened:
        store: Any = opened
        assert not is_left_behind(store, root.partition("counts", 0), partition)


@pytest.mark.spec("STB-2", "STB-5")
@pytest.mark.parametrize("where", ["directory", "objects"])
def test_a_facade_of_an_empty_copy_shows_no_half_of_a_snapshot(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy with nothing was read while a snapshot was loaded into it: so many rows, of no commit.

    Whoever began to read it later was told that it is loading; a facade from before that was not.
    """
    monkeypatch.setattr(row_sink, "APPLIED_ROWS", 10)
    monkeypatch.setattr(row_sink, "LEAST_ROWS", 1)
    root = ss.StateRoot.create(
        tmp_path / "state" if where == "directory" else "memory://standbys/half"
    )
    root.add_store(ss.KeyValue("rows"), partitions=1)
    seen: list[int | str] = []
    with open_standby(root, "rows", 0, tmp_path / "copy", backend="memory") as standby:
        facade: Any = standby.read_only(include_stale=True)
        assert list(facade.range()) == []
        with ss.open_logged_store(
            root, "rows", 0, directory=tmp_path / "own", backend="memory"
        ) as rows:
            for number in range(100):
                rows.store.put(b"%02d" % number, b"")
            rows.commit({INPUT: 1})
            rows.snapshot()

        def look(_: object) -> None:
            try:
                seen.append(len(list(facade.range())))
            except StoreClosedError:
                seen.append("closed")

        standby.poll(progress=look)

        assert len(seen) > 1
        assert set(seen) == {"closed"}
        loaded: Any = standby.read_only(include_stale=True)
        assert len(list(loaded.range())) == 100
