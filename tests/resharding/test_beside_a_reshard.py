"""Whoever reads, follows or owns a store while it is resharded sees all of it, or is told."""

import os
import random
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from dictionary import SPECIFICATIONS, by_repr, shown
from stores_of_two import reader_of, written_store

import statestores as ss
from statestores.errors import (
    OffsetOutOfRangeError,
    StorageError,
    StoreLockedError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.failpoints import FAILPOINTS, arm, disarm
from statestores.files.directory_lock import LOCK_FILE
from statestores.partitioning import partitioner_by_name
from statestores.reading.locations import Partition, locate
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.staging.staged_write import publish, stage
from statestores.state_root import StateRoot
from statestores.tasks import open_standby, open_task

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.mark.spec("RSH-7")
@pytest.mark.parametrize("before", [2, 3])
def test_no_read_at_any_moment_is_of_some_partitions_from_before_and_some_from_after(
    tmp_path: Path, random_source: random.Random, before: int
) -> None:
    """Read at every step: by a root of before all of the old, or an error; by a new one, all."""
    root = tmp_path / "root"
    written = written_store(root, "session", random_source, count=60)
    if before == 3:
        reshard(root, "kept", 3)
    content, stale = written.shown(), StateRoot.open(root)
    steps: list[tuple[str, str]] = []

    def look(step: str) -> None:
        assert written.shown() == content
        try:
            assert shown(root, written.specification, stale) == content
        except StoreReshardedError:
            steps.append((step, "refused"))
        else:
            steps.append((step, "old"))

    for name in (each for each in FAILPOINTS if each.startswith("reshard.")):
        arm(name, partial(look, name))
    beginning = PartitionReader(stale.partition("kept", 0), written.specification).rows()
    try:
        reshard(root, "kept", 5)
    finally:
        disarm()
    removed = [seen for step, seen in steps if step == "reshard.retired"]

    assert {seen for step, seen in steps if step != "reshard.retired"} == {"old"}
    assert removed
    assert removed[-1] == "refused"
    with pytest.raises(StoreReshardedError):
        list(beginning)


@pytest.mark.soak
@pytest.mark.spec("RSH-7")
def test_readers_beside_many_reshards_see_all_or_are_told(
    tmp_path: Path, random_source: random.Random
) -> None:
    """They open the root, and read whenever the machine lets them."""
    root = tmp_path / "root"
    written = written_store(root, "versioned", random_source)
    content, ended, seen = written.shown(), Event(), Counter[str]()

    def read() -> None:
        while not ended.is_set():
            try:
                found = written.shown()
            except StoreReshardedError:
                seen["told"] += 1
            else:
                seen["whole" if found == content else "wrong"] += 1

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read) for _ in range(2)]
        for partitions in random_source.choices([1, 2, 3, 5, 7, 8], k=60):
            reshard(root, "kept", partitions)
        ended.set()
        for each in reading:
            each.result()

    assert seen["wrong"] == 0
    assert seen["whole"] > 0


@pytest.mark.spec("RSH-6", "RSH-7")
def test_a_standby_is_told_and_its_copy_is_made_anew(
    tmp_path: Path, random_source: random.Random
) -> None:
    """It would wait for ever for a changelog that is gone, and answer with what was."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    written_store(root, "timestamped", random_source, count=40)
    with open_standby(root, "kept", 0, copy, backend="sqlite") as standby:
        standby.poll()
        reshard(root, "kept", 3)
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            standby.poll()
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            _ = standby.lag
    with open_standby(root, "kept", 0, copy, backend="sqlite") as standby:
        standby.poll()
        copied: Any = standby.read_only(include_stale=True)
        found = dict(copied.range())
    reader = PartitionReader(
        StateRoot.open(root).partition("kept", 0), SPECIFICATIONS["timestamped"]
    )
    rows = [row for batch in reader.rows() for row in batch.to_pylist()]

    assert {key: each.value for key, each in found.items()} == {r["key"]: r["value"] for r in rows}


@pytest.mark.spec("RSH-1", "RSH-7")
def test_a_task_opens_the_new_partitions(tmp_path: Path) -> None:
    """With its engines beside the changelogs, where it finds them again, and none of before.

    A changelog in fewer partitions is longer than each of before, whatever tasks have noted of
    those (TSK-16); and a task that has gone, and comes again, finds what it has now.
    """
    root = tmp_path / "root"
    StateRoot.create(root).add_store(ss.KeyValue("kept"), partitions=1)
    place = partitioner_by_name("murmur2").partition
    counts = (1, 3, 2, 1, 3)
    keys = [b"%d" % number for number in range(30)]
    for round_, partitions in enumerate(counts):
        reshard(root, "kept", partitions)
        for number in range(partitions):
            with open_task(root, f"0_{number}", ["kept"], backend="sqlite") as task:
                for key in keys:
                    if place(key, partitions) == number:
                        counted = task.store("kept").get(key) or b""
                        task.store("kept").put(key, counted + b"%d" % round_)
                task.commit({ss.TopicPartition("input", number): round_})
    home = root / "kept" / "generation-4"

    assert sorted(each.name for each in (root / "kept").iterdir()) == ["generation-4"]
    assert all((home / str(number) / "engine").is_dir() for number in range(3))
    assert dict(shown(root, ss.KeyValue("kept"))) == dict.fromkeys(keys, b"01234")


@pytest.mark.spec("RSH-7", "LAY-32")
@pytest.mark.parametrize("keep_old", [False, True])
def test_whoever_opened_the_root_before_is_told_or_reads_what_was(
    tmp_path: Path, random_source: random.Random, keep_old: bool
) -> None:
    """A reader sees the old partitions or an error, and a writer never writes into them."""
    root = tmp_path / "root"
    written = written_store(root, "key-value", random_source)
    stale, before = StateRoot.open(root), written.shown()
    specification = written.specification
    readers = [PartitionReader(stale.partition("kept", n), specification) for n in (0, 1)]
    reshard(root, "kept", 3, keep_old=keep_old)

    def read(reader: PartitionReader) -> list[Any]:
        return [
            row
            for batch in reader.rows()
            for row in map(tuple, map(dict.values, batch.to_pylist()))
        ]

    if keep_old:
        assert sorted([row for reader in readers for row in read(reader)], key=repr) == before
    for reader in [] if keep_old else readers:
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            read(reader)
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            next(reader.changes(0))
    with pytest.raises(StoreReshardedError, match="open the state root again"):
        ss.open_logged_store(stale, "kept", 0, backend="memory")
    staged = stage(root, specification, 3, "late", "one", [])
    with pytest.raises(StoreReshardedError, match="open the state root again"):
        publish(stale, "kept", "late", [staged])
    reshard(root, "kept", 3)  # as it is; but the old partitions go

    assert sorted(each.name for each in (root / "kept").iterdir()) == ["generation-1"]
    assert '"format": 2' in (root / "statestores.json").read_text()
    assert written.shown() == before


@pytest.mark.spec("RSH-6")
def test_a_change_feed_of_before_is_refused(tmp_path: Path, random_source: random.Random) -> None:
    """Also one that had read everything: it cannot know that nothing was between."""
    root = tmp_path / "root"
    written_store(root, "key-value", random_source)
    specification = SPECIFICATIONS["key-value"]
    end = PartitionReader(StateRoot.open(root).partition("kept", 0), specification).end_offset
    reshard(root, "kept", 3)
    reshard(root, "kept", 2)
    reader = PartitionReader(StateRoot.open(root).partition("kept", 0), specification)

    with pytest.raises(OffsetOutOfRangeError, match="has been resharded"):
        next(reader.changes(end))


@pytest.mark.spec("RSH-8")
def test_an_open_store_keeps_everybody_from_resharding_it(
    tmp_path: Path, random_source: random.Random
) -> None:
    """And the other way round: while it is resharded, nobody can open it."""
    root = tmp_path / "root"
    written = written_store(root, "key-value", random_source)
    with (
        ss.open_logged_store(root, "kept", 1, backend="sqlite"),
        pytest.raises(StoreLockedError, match="reshard of 'kept'"),
    ):
        reshard(root, "kept", 3, timeout_ms=0)
    refused: list[str] = []

    def write() -> None:
        with pytest.raises(StoreLockedError) as caught:
            ss.open_logged_store(root, "kept", 0, backend="sqlite")
        refused.append(str(caught.value))
        with pytest.raises(StoreLockedError, match="reshard of 'kept'"):
            reshard(root, "kept", 4, timeout_ms=0)

    arm("reshard.built", write)
    try:
        reshard(root, "kept", 3)
    finally:
        disarm()

    assert len(refused) == 1
    assert written.shown() == by_repr(written.model.shown())


@pytest.mark.spec("RSH-25")
def test_a_reshard_that_comes_next_keeps_its_files(
    tmp_path: Path, random_source: random.Random
) -> None:
    """The directory for scratch was removed when others had been let in, who have the same one.

    The next reshard, of another process, lost files that it had written there, and was refused; or
    a partition lost some while it was moved from there. Now it is empty before anybody may begin.
    """
    for name, to in (("in place", None), ("into another root", tmp_path / "other")):
        root = tmp_path / name
        content = written_store(root, "key-value", random_source, count=30).shown()
        begun, first_ended = Event(), Event()

        def stop(begun: Event = begun, first_ended: Event = first_ended) -> None:
            begun.set()
            assert first_ended.wait(60)

        with ThreadPoolExecutor(1) as pool:
            others: list[Future[Any]] = []

            def begin_another(at: Path = to or root, begun: Event = begun) -> None:
                disarm()
                arm("reshard.routed", stop)
                others.append(pool.submit(reshard, at, "kept", 5))  # noqa: B023  # of this round
                assert begun.wait(60)
                disarm()

            arm("reshard.noted", begin_another)
            try:
                reshard(root, "kept", 3, to=to, keep_old=True)
            finally:
                first_ended.set()
                disarm()
            [other] = others
            assert other.result().partitions == 5

        assert shown(to or root, SPECIFICATIONS["key-value"]) == content, name
        generation = StateRoot.open(to or root).store("kept").generation
        left = sorted(each.name for each in ((to or root) / "kept").iterdir())
        assert left == [f"generation-{generation}"], name


@pytest.mark.spec("RSH-25")
def test_what_a_refused_reshard_has_made_goes_before_its_lock(
    tmp_path: Path, random_source: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock went in the middle: whoever had it next could have lost what it moved there."""
    root, home = tmp_path / "root", tmp_path / "other" / "kept"
    written_store(root, "key-value", random_source, count=10)
    unlink, scandir, left = os.unlink, os.scandir, list[str]()

    def unlinking(path: Any, **at: Any) -> None:
        if Path(path).name == LOCK_FILE and (home / ".reshard" / LOCK_FILE).exists():
            left[:] = sorted(str(each.relative_to(home)) for each in home.rglob("*"))
        unlink(path, **at)

    def in_order(path: Any) -> Any:  # in which file systems name them is their own affair
        with scandir(path) as found:
            return nullcontext(sorted(found, key=lambda each: each.name))

    def refuse() -> None:
        monkeypatch.setattr(os, "unlink", unlinking)
        monkeypatch.setattr(os, "scandir", in_order)
        raise StorageError("it is refused")

    arm("reshard.built", refuse)
    try:
        with pytest.raises(StorageError, match="it is refused"):
            reshard(root, "kept", 3, to=tmp_path / "other")
    finally:
        disarm()
        monkeypatch.undo()

    assert left == [".reshard", f".reshard/{LOCK_FILE}"]
    assert not (tmp_path / "other").exists()


@pytest.mark.spec("LAY-32")
def test_a_store_may_have_the_name_of_a_generation(tmp_path: Path) -> None:
    """And a partition of a resharded store is found by its number."""
    root, name = tmp_path / "root", "generation-1"
    StateRoot.create(root).add_store(ss.KeyValue(name), partitions=1)
    with ss.open_logged_store(root, name, backend="memory") as opened:
        opened.store.put(b"k", b"v")
        opened.commit()
    found = locate(root / name / "0")
    assert isinstance(found, Partition)
    assert (found.root is not None, found.number) == (True, 0)
    reshard(root, name, 2)
    moved = locate(root / name / "1")

    assert isinstance(moved, Partition)
    assert moved.path == root / name / "generation-1" / "1"
    again = locate(moved.path)
    assert isinstance(again, Partition)
    assert (again.path, again.number) == (moved.path, 1)
    rows = [r for n in range(2) for b in reader_of(root, name, n).rows() for r in b.to_pylist()]
    assert rows == [{"key": b"k", "value": b"v"}]
    with pytest.raises(StoreNotFoundError):
        locate(root / name / "2")
