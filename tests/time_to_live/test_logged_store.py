"""Values that expire, in a store with a changelog: replicas, snapshots, kills, a changed rule."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from forked_programs import Forked

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.changelog import FileChangelog
from statestores.changelog.compaction import compact
from statestores.errors import StoreMismatchError
from statestores.logged_store import LoggedStore, open_logged_store
from statestores.reading.partition_reader import PartitionReader
from statestores.semantics.expiry import wall_clock

TTL_MS = 100
SEEN = ss.TimestampedKeyValue("seen", key=ss.utf8, value=ss.int64, ttl_ms=TTL_MS)
INPUT = ss.TopicPartition("clicks", 0)
Seen = LoggedStore[ss.TimestampedKeyValueStore[str, int]]

ROWS = 3_000
KILLS = 4
MOST_OF_A_KILLED_WRITER = 560

# Puts a key for each number, with the number as its time, and commits every few of them; one that
# is to be killed goes no further than it was told, however late the signal comes.
WRITER = f"""
import signal
import sys
import statestores as ss

root, backend, most = sys.argv[1:]
part = ss.TopicPartition("clicks", 0)
with ss.open_logged_store(root, "seen", 0, backend=backend) as seen:
    start = seen.position.get(part, -1) + 1
    print(start, flush=True)
    for number in range(start, min({ROWS}, start + int(most))):
        seen.store.put(str(number), number, number)
        if number % 7 == 0 or number == {ROWS} - 1:
            seen.commit({{part: number}})
            print(number, flush=True)
    if number < {ROWS} - 1:
        signal.pause()
"""


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with the store ``seen``, whose values live for 100 ms of stream time."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(SEEN, partitions=1)
    return state


def write(seen: Seen, numbers: range) -> None:
    """Put each number at its own time, a key for each, and commit every ten."""
    for number in numbers:
        seen.store.put(f"{number:05d}", number, number)
        if number % 10 == 9:
            seen.commit({INPUT: number})


def living(upto: int) -> dict[str, tuple[int, int]]:
    """Return what lives once *upto* has been put."""
    return {f"{n:05d}": (n, n) for n in range(max(0, upto - TTL_MS + 1), upto + 1)}


def read_without_lock(root: ss.StateRoot) -> dict[str, tuple[int, int]]:
    """Return the content as a reader of snapshot and changelog sees it, Spark among them."""
    reader = PartitionReader(root.partition("seen", 0), SEEN)
    rows = [row for batch in reader.rows() for row in batch.to_pylist()]
    return {row["key"]: (row["value"], row["timestamp"]) for row in rows}


@pytest.mark.spec("TTL-5", "TTL-10")
def test_everybody_sees_a_key_end(root: ss.StateRoot) -> None:
    """The store, a reader without its lock, and the changes, which delete each key that is gone."""
    seen: Seen
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        write(seen, range(1_000))
        assert dict(seen.store.range()) == read_without_lock(root) == living(999)

    reader = PartitionReader(root.partition("seen", 0), SEEN)
    changes = [row for batch in reader.changes() for row in batch.to_pylist()]
    deleted = {row["key"] for row in changes if row["operation"] == "delete"}
    kept = {f"{number:05d}" for number in range(1_000)} - deleted

    assert deleted <= {f"{number:05d}" for number in range(900)}
    assert len(kept) <= 2 * TTL_MS


@pytest.mark.spec("TTL-5", "LGS-1")
def test_a_commit_of_nothing_sweeps_through_the_changelog(root: ss.StateRoot) -> None:
    """A store that is not written any more is empty in the end, and so is its changelog's image."""
    seen: Seen
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        for number in range(500):
            seen.store.put(f"{number:05d}", number, 0)
        seen.store.put("last", 1, 10_000)
        seen.commit({INPUT: 1})
        for _ in range(60):
            seen.commit()
        rows = seen.store.approximate_num_entries()
        end = seen.changelog.end_offset

    assert rows < 10
    assert end == 501 + 500


@pytest.mark.spec("TTL-7", "LGS-6")
@pytest.mark.parametrize("compacted", [False, True])
def test_a_store_rebuilt_from_its_changelog_is_the_same(
    root: ss.StateRoot, *, compacted: bool
) -> None:
    """Though the put that moved time the furthest was overwritten, and the log compacted since."""
    seen: Seen
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        write(seen, range(400))
        seen.store.put("late", 1, 450)
        seen.commit({INPUT: 400})
        seen.store.put("late", 2, 380)
        seen.commit({INPUT: 401})
        expected = dict(seen.store.range())
    partition = root.partition("seen", 0)
    if compacted:
        with FileChangelog.open(partition.changelog, SEEN.kind) as log:
            log.seal()
            report = compact(log)
        assert report.changes_after < report.changes_before
    shutil.rmtree(partition.path / "engine")
    with open_logged_store(root, "seen", 0) as seen:
        assert seen.restored.changelog_rows > 0
        assert seen.store.stream_time_ms == 450
        assert dict(seen.store.range()) == expected == read_without_lock(root)
    assert min(expected) == "00351"


@pytest.mark.spec("TTL-10", "SNP-10")
def test_a_snapshot_has_what_lives(root: ss.StateRoot) -> None:
    """A store that is loaded from it, and goes on, answers like the one that wrote it."""
    seen: Seen
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        write(seen, range(500))
        info = seen.snapshot()
        assert info is not None
        assert info.rows == TTL_MS
        write(seen, range(500, 520))
    partition = root.partition("seen", 0)
    shutil.rmtree(partition.path / "engine")
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        assert dict(seen.store.range()) == living(519) == read_without_lock(root)


@pytest.mark.spec("SNP-3", "TTL-10")
@pytest.mark.parametrize("clock", ["wall", "event"])
def test_a_snapshot_of_the_same_commit_again_is_the_one_that_stands(
    root: ss.StateRoot, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle store could not be written a second time, "changed without a new offset".

    Nothing had changed but the time, by which some of its rows had expired; or the time to live. So
    whoever wrote a snapshot every hour got an error for each hour without a commit. What lives has
    to be the same, and nothing else: another value that lives is refused as ever.
    """
    now_ms = began_ms = wall_clock.wall_clock_ms()
    monkeypatch.setattr(wall_clock, "time", SimpleNamespace(time_ns=lambda: now_ms * 1_000_000))

    def idle(ttl_ms: int) -> ss.TimestampedKeyValue[str, int]:
        return ss.TimestampedKeyValue(
            "idle", key=ss.utf8, value=ss.int64, ttl_ms=ttl_ms, ttl_clock=ss.TtlClock(clock)
        )

    root.add_store(idle(ss.HOUR), partitions=1)
    with open_logged_store(root, idle(ss.HOUR), backend="memory") as store:
        store.store.put("old", 1, began_ms - 50 * ss.MINUTE)
        store.store.put("new", 2, began_ms)
        store.commit()
        first = store.snapshot()
    now_ms += 30 * ss.MINUTE
    root.add_store(idle(ss.HOUR if clock == "wall" else 40 * ss.MINUTE), partitions=1)
    with open_logged_store(root.path, "idle", backend="memory") as again:
        assert dict(again.store.range()).keys() == {"new"}
        second = again.snapshot()
        assert first is not None
        assert second is not None
        assert (second.place, second.written, second.rows) == (first.place, False, 2)
        partition = again.changelog_partition
    with ss.open_store("unused", idle(ss.HOUR), backend="memory") as other:
        other.put("new", 3, began_ms)
        other.commit({partition: second.offset})
        with pytest.raises(StoreMismatchError, match="other content at the same offset"):
            write_snapshot(other, first.path.parent, partition=partition)


@pytest.mark.spec("TTL-9", "LGS-1")
def test_the_time_to_live_of_a_logged_store_changes(root: ss.StateRoot) -> None:
    """The state root says what it is; snapshots and the changelog of before still count."""
    seen: Seen
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        write(seen, range(300))
        seen.snapshot()
        write(seen, range(300, 310))
    shorter = ss.TimestampedKeyValue("seen", key=ss.utf8, value=ss.int64, ttl_ms=20)
    root.add_store(shorter, partitions=1)
    with pytest.raises(StoreMismatchError, match="value"):
        root.add_store(ss.TimestampedKeyValue("seen", key=ss.utf8, ttl_ms=20), partitions=1)
    for engine_lost in (False, True):
        if engine_lost:
            shutil.rmtree(root.partition("seen", 0).path / "engine")
        with open_logged_store(ss.StateRoot.open(root.path), "seen", 0) as seen:
            assert seen.store.specification == shorter
            assert list(dict(seen.store.range())) == [f"{n:05d}" for n in range(290, 310)]


@pytest.mark.spec("TTL-5", "LGS-6")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_a_killed_writer_loses_no_deletion(tmp_path: Path, backend: str) -> None:
    """Store, changelog and reader agree after each kill, and the changelog has every end."""
    chance = random.Random(20_261_120)  # repeatable, not secret
    root = ss.StateRoot.create(tmp_path)
    root.add_store(SEEN, partitions=1)
    seen: Seen
    for killed in [True] * KILLS + [False]:
        most = MOST_OF_A_KILLED_WRITER if killed else ROWS
        with Forked(WRITER, tmp_path, backend, str(most)) as writer:
            acknowledged = int(writer.stdout.readline()) - 1
            if killed:
                lines, moment_s = chance.randint(20, 60), chance.random() * 0.002
                acknowledged = int(writer.kill_after(lines, moment_s))
            writer.stdout.read()
        with open_logged_store(root, "seen", 0) as seen:
            position = seen.position.get(INPUT, -1)
            expected = {str(n): (n, n) for n in range(max(0, position - TTL_MS + 1), position + 1)}

            assert position >= acknowledged
            assert dict(seen.store.range()) == expected == read_without_lock(root)
            assert seen.committed_offset == seen.changelog.end_offset - 1

    assert position == ROWS - 1
    with FileChangelog.open(root.partition("seen", 0).changelog, SEEN.kind) as log:
        latest = {
            key: value
            for frame in log.read(0)
            for key, value in zip(frame.changes.keys, frame.changes.values, strict=True)
        }
    assert len([key for key, value in latest.items() if value is not None]) <= 2 * TTL_MS
