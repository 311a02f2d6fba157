"""State roots in object stores: the same stores, opened anywhere, and refused by name elsewhere."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from counted_words import INPUT, Counts, put

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    FencedError,
    InvalidArgumentError,
    StateStoreError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.object_log import ObjectLog
from statestores.resharding import reshard
from statestores.storage import open_storage


@pytest.mark.spec("LGS-15", "LGS-6")
def test_an_engine_behind_its_log_is_brought_up_to_it(root: ss.StateRoot, tmp_path: Path) -> None:
    """The files as a crash leaves them lack whole commits, which are replayed; after a close none.

    Until then the commits are read from what waits: of single keys, and of ranges, which write it.
    """
    counts: Counts
    with ss.open_logged_store(
        root, "counts", 0, backend="sqlite", directory=tmp_path / "a"
    ) as counts:
        put(counts, ("a", 1), ("b", 2))
        assert dict(counts.store.range()) == {"a": 1, "b": 2}
        put(counts, ("a", 3), ("c", 4))
        shutil.copytree(tmp_path / "a", tmp_path / "crashed")
        assert [counts.store.get(key) for key in "abc"] == [3, 2, 4]
        assert counts.committed_offset == 3
    with ss.open_logged_store(root, "counts", 0, directory=tmp_path / "a") as counts:
        assert counts.restored.changelog_rows == 0
    with ss.open_logged_store(root, "counts", 0, directory=tmp_path / "crashed") as counts:
        assert counts.restored.changelog_rows == 2
        assert dict(counts.store.range()) == {"a": 3, "b": 2, "c": 4}
        assert counts.position.get(INPUT) == 4


@pytest.mark.spec("OBJ-20", "LGS-6", "OBJ-17")
@pytest.mark.parametrize("backend", ["sqlite", "rocksdb", "memory"])
def test_a_store_goes_on_elsewhere(root: ss.StateRoot, tmp_path: Path, backend: str) -> None:
    """Whether its engine is there, is gone, or was of another machine: all of it, and no more."""
    counts: Counts
    with ss.open_logged_store(
        root, "counts", 0, backend=backend, directory=tmp_path / "a"
    ) as counts:
        put(counts, ("a", 1), ("b", 2), ("a", 3))
        counts.store.put("lost", 4)
    if backend != "memory":
        shutil.copytree(tmp_path / "a", tmp_path / "kept")
    url = root.storage.url if root.storage is not None else ""
    with ss.open_logged_store(
        url, "counts", 0, directory=tmp_path / "b", backend="sqlite"
    ) as counts:
        assert counts.restored.changelog_rows == 3
        put(counts, ("c", 5))
    root.object_log("counts").compact()
    for directory, rows in (("a", 1), ("kept", 1), ("new", 3)):
        with ss.open_logged_store(
            url, "counts", 0, directory=tmp_path / directory, backend=backend
        ) as counts:
            if backend != "memory":
                assert counts.restored.changelog_rows == rows
            assert dict(counts.store.range()) == {"a": 3, "b": 2, "c": 5}
            assert counts.position == {INPUT: 5}
            assert counts.committed_offset == 3
            assert counts.changelog.end_offset == 4


@pytest.mark.spec("OBJ-10", "LGS-2")
def test_opening_fences_whoever_has_it(root: ss.StateRoot, tmp_path: Path) -> None:
    """The old owner's commit raises, nothing of it counts, and what it has is pending still."""
    old: Counts = ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "a", backend="sqlite"
    )
    put(old, ("a", 1))
    new: Counts = ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "b", backend="sqlite"
    )
    old.store.put("a", 100)
    with pytest.raises(FencedError, match="nothing of this commit was written"):
        old.commit({INPUT: 100})
    assert old.store.get("a") == 100
    old.store.rollback()
    assert old.store.get("a") == 1
    put(new, ("b", 2))
    old.close()
    new.close()

    with ss.open_logged_store(root, "counts", 0, directory=tmp_path / "a") as old:
        assert dict(old.store.range()) == {"a": 1, "b": 2}


@pytest.mark.spec("OBJ-10")
def test_an_engine_that_cannot_be_opened_fences_nobody(root: ss.StateRoot, tmp_path: Path) -> None:
    """Everything on this machine is looked at before the partition is taken."""
    counts: Counts
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "a", backend="sqlite"
    ) as counts:
        put(counts, ("a", 1))
        for directory, backend in ((tmp_path / "a", None), (tmp_path / "b", "no-backend")):
            with pytest.raises(StateStoreError):
                ss.open_logged_store(root, "counts", 0, directory=directory, backend=backend)
        put(counts, ("a", 2))


@pytest.mark.spec("OBJ-18")
def test_the_engine_of_another_log_is_refused(root: ss.StateRoot, tmp_path: Path, url: str) -> None:
    """An offset alone does not say of which log it is."""
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "a", backend="sqlite"
    ) as counts:
        put(counts, ("a", 1))
    other = ss.StateRoot.create(f"{url}/other")
    other.add_store(root.store("counts").specification, partitions=2)
    with ss.open_logged_store(
        other, "counts", 0, directory=tmp_path / "b", backend="sqlite"
    ) as counts:
        put(counts, ("z", 1), ("z", 2))
    for state, partition in ((other, 0), (root, 1)):
        with pytest.raises(StoreMismatchError, match="another directory"):
            ss.open_logged_store(state, "counts", partition, directory=tmp_path / "a")
    (tmp_path / "a" / "changelog.json").unlink()
    with pytest.raises(StoreMismatchError, match=r"no changelog\.json"):
        ss.open_logged_store(root, "counts", 0, directory=tmp_path / "a")


@pytest.mark.spec("LGS-12", "OBJ-20")
def test_a_truncation_goes_along(root: ss.StateRoot, tmp_path: Path) -> None:
    """The clear is in the log, and empties what is restored."""
    counts: Counts
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "a", backend="sqlite"
    ) as counts:
        put(counts, ("a", 1), ("b", 2))
        counts.store.truncate()
        put(counts, ("c", 3))
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "b", backend="sqlite"
    ) as counts:
        assert dict(counts.store.range()) == {"c": 3}
        assert counts.position == {INPUT: 3}


def _stamped(store: Any, now: int) -> None:
    store.put(b"k%d" % (now % 3), b"%d" % now, timestamp_ms=now)


def _window(store: Any, now: int) -> None:
    store.put(b"k", b"%d" % now, window_start_ms=now // 10 * 10)


def _session(store: Any, now: int) -> None:
    store.put(b"k%d" % (now % 2), now - 3, now, b"%d" % now)


KINDS: dict[str, tuple[Any, Callable[[Any, int], None], Callable[[Any], list[Any]], str]] = {
    "timestamped": (ss.TimestampedKeyValue("s"), _stamped, lambda s: list(s.range()), ""),
    "versioned": (
        ss.Versioned("s", history_retention_ms=50),
        _stamped,
        lambda s: [list(s.history(b"k%d" % i)) for i in range(3)],
        "history_retention_ms",
    ),
    "duplicates": (
        ss.Window("s", retention_ms=60, window_size_ms=10, retain_duplicates=True),
        _window,
        lambda s: list(s.fetch_all()),
        "retention_ms",
    ),
    "session": (
        ss.Session("s", retention_ms=60),
        _session,
        lambda s: list(s.find_all_sessions()),
        "retention_ms",
    ),
}


@pytest.mark.spec("OBJ-20", "OBJ-23", "LOG-30")
@pytest.mark.parametrize("kind", KINDS)
def test_stores_of_every_kind(url: str, tmp_path: Path, kind: str) -> None:
    """What one machine shows, another one shows, from the whole log and from the compacted one."""
    specification, write, show, retention = KINDS[kind]
    root = ss.StateRoot.create(url)
    root.add_store(specification, partitions=1)
    with ss.open_logged_store(root, "s", 0, directory=tmp_path / "a", backend="sqlite") as logged:
        for number in range(40):
            write(logged.store, 100 + 3 * number)
            logged.commit({INPUT: number})
        shown, stream_time_ms = show(logged.store), logged.store.stream_time_ms
    assert shown
    for place in ("b", "c"):
        with ss.open_logged_store(
            root, "s", 0, directory=tmp_path / place, backend="sqlite"
        ) as logged:
            assert show(logged.store) == shown
            assert logged.store.stream_time_ms == stream_time_ms
            assert logged.position == {INPUT: 39}
        report = root.object_log("s").compact(
            **({retention: getattr(specification, retention)} if retention else {})
        )
        assert report.changes_after <= report.changes_before


@pytest.mark.spec("OBJ-17")
def test_stores_are_noted_once_and_checked(root: ss.StateRoot, url: str) -> None:
    """As in a directory: the same again is welcome, and another one of the name is not."""
    again = ss.StateRoot.create(url)
    assert again.stores == root.stores
    again.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    again.add_store(ss.TimestampedKeyValue("ttl", ttl_ms=5), partitions=1)
    root.add_store(ss.TimestampedKeyValue("ttl", ttl_ms=9), partitions=1)  # may be changed
    for specification, partitions in ((ss.KeyValue("counts"), 2), (ss.KeyValue("ttl"), 1)):
        with pytest.raises(StoreMismatchError):
            again.add_store(specification, partitions=partitions)

    opened = ss.StateRoot.open(url)
    assert sorted(opened.stores) == ["counts", "ttl"]
    assert opened.store("ttl").specification == ss.TimestampedKeyValue("ttl", ttl_ms=9)
    with pytest.raises(StoreNotFoundError, match="no state root"):
        ss.StateRoot.open(f"{url}/else")
    storage = open_storage(f"{url}/else")
    storage.create("statestores.json", b'{"format": 2}')
    with pytest.raises(StateStoreError):
        ss.StateRoot.open(f"{url}/else")
    storage.delete("statestores.json")
    storage.create("statestores.json", b"nothing")
    with pytest.raises(StoreCorruptedError):
        ss.StateRoot.open(f"{url}/else")


@pytest.mark.spec("OBJ-22")
def test_what_is_not_there_yet_is_refused_by_name(
    root: ss.StateRoot, url: str, tmp_path: Path
) -> None:
    """With what to do instead, and nothing made anywhere."""
    for call in (
        lambda: root.path,
        lambda: root.partition("counts", 0),
    ):
        with pytest.raises(CapabilityNotSupportedError, match="open_logged_store"):
            call()
    with pytest.raises(InvalidArgumentError, match="directory of this machine"):
        ss.open_logged_store(root, "counts", 0)
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 1"):
        ss.open_logged_store(root, "counts", 2, directory=tmp_path / "b")
    for directory in (url, "s3://bucket/engine"):
        with pytest.raises(InvalidArgumentError, match="URL"):
            ss.open_logged_store(root, "counts", 0, directory=directory)
    with pytest.raises(InvalidArgumentError, match="open already"):
        ss.open_logged_store(root, "counts", 0, directory=tmp_path / "b", storage_options={})
    with pytest.raises(InvalidArgumentError, match="storage_options"):
        ss.StateRoot.open(tmp_path, storage_options={})
    local = ss.StateRoot.create(tmp_path / "root")
    local.add_store(ss.KeyValue("counts"), partitions=1)
    with pytest.raises(CapabilityNotSupportedError, match="directory"):
        local.object_log("counts")
    outcome = invoke("orphans", url)
    assert outcome.exit_code != 0
    assert "docs/object-stores.md" in outcome.stderr


def test_a_log_is_made_once(log: ObjectLog) -> None:
    """Making it again changes nothing."""
    before = log.reader(0).log_id
    log.create()
    assert log.reader(0).log_id == before


@pytest.mark.spec("OBJ-54", "LAY-11")
def test_a_root_and_a_store_of_another_do_not_lie_in_each_other(url: str, tmp_path: Path) -> None:
    """A root `outer/a` was made in the root `outer`, which had a store `a`, and took `segments`.

    The vacuum of `a` then deleted the checkpoint and all segments of the store `segments`, as
    garbage of its own; after a reshard, stores named `data` and `snapshots` went as well.
    """
    outer = ss.StateRoot.create(f"{url}/outer")
    outer.add_store(ss.KeyValue("a"), partitions=1)
    for inside in ("a", "a/segments"):
        with pytest.raises(StoreMismatchError, match=r"belongs to the store 'a'.*give"):
            ss.StateRoot.create(f"{url}/outer/{inside}")
    for beside in ("aa", "b", "c/d"):
        ss.StateRoot.create(f"{url}/outer/{beside}").add_store(ss.KeyValue("a"), partitions=1)
    for store, at in (("b", "b"), ("c", "c/d")):
        with pytest.raises(StoreMismatchError, match=rf"outer/{at}' is a state root.*another name"):
            outer.add_store(ss.KeyValue(store), partitions=1)
    assert outer.add_store(ss.KeyValue("a"), partitions=1).partitions == 1
    assert set(ss.StateRoot.create(f"{url}/outer").stores) == {"a"}
    local = ss.StateRoot.create(tmp_path)
    ss.StateRoot.create(tmp_path / "a")
    with pytest.raises(StoreMismatchError, match=r"is a state root.*another name"):
        local.add_store(ss.KeyValue("a"), partitions=1)
    # A copy that a reshard brings is a store that is added, and its root one that is made.
    source = ss.StateRoot.create(tmp_path / "source")
    source.add_store(ss.KeyValue("b"), partitions=1)
    for target, why in ((f"{url}/outer", "is a state root"), (f"{url}/outer/a", "belongs to")):
        with pytest.raises(StoreMismatchError, match=why):
            reshard(source, "b", 2, to=target)
    assert list(open_storage(f"{url}/outer/a/generations").list("")) == []
