"""Writes of all partitions into stores of a task that died in the middle of a commit."""

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

import statestores as ss
from statestores.changelog import change_schema
from statestores.errors import InvalidArgumentError
from statestores.failpoints import arm, disarm
from statestores.staging.staged_write import Mode, publishing, write_at_once
from statestores.tasks import open_task

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

STORES = ["counts", "seen"]
MORE = [pa.record_batch([[b"more"], [b"7"]], schema=change_schema("key-value"))]


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """Return a state root whose task has recorded a commit of two stores, and died."""
    root = ss.StateRoot.create(tmp_path / "state")
    for name in (*STORES, "others", "stores"):
        root.add_store(ss.KeyValue(name), partitions=1)
    task = open_task(root, "0_0", STORES, backend="memory")

    def die() -> None:
        raise KeyboardInterrupt

    for name in STORES:
        task.store(name).put(b"k", b"v")
    arm("task.recorded", die)
    try:
        with pytest.raises(KeyboardInterrupt):
            task.commit({})
    finally:
        disarm()
        task.close()
    return root


def content(root: ss.StateRoot) -> list[dict[bytes, bytes]]:
    """Open the task, which ends what is recorded; return what its stores hold."""
    with open_task(root, "0_0", STORES, backend="memory") as task:
        return [dict(task.store(name).range()) for name in STORES]


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_write_waits_for_a_commit_that_is_recorded(root: ss.StateRoot, mode: Mode) -> None:
    """A runner was killed, and rows were imported before it was started again.

    The import began where the record says that the commit goes on. So the task found other changes
    there, and was refused with `StoreCorruptedError` at each start from then on: neither the commit
    nor the task was to be had any more. The import is refused, until the task has been opened.
    """
    for name in STORES:
        with pytest.raises(InvalidArgumentError, match=r"recorded a commit.*open the task"):
            write_at_once(root, name, MORE, mode)
    assert content(root) == [{b"k": b"v"}, {b"k": b"v"}]
    write_at_once(root, "seen", MORE, mode)

    kept = {b"k": b"v"} if mode == "append" else {}
    assert content(root) == [{b"k": b"v"}, {**kept, b"more": b"7"}]


@pytest.mark.spec("TSK-10")
def test_a_record_keeps_nobody_from_other_stores(root: ss.StateRoot) -> None:
    """Not even from one that is called as the record calls something else."""
    for name in ("others", "stores"):
        write_at_once(root, name, MORE)
        with ss.open_logged_store(root, name, backend="memory") as written:
            assert dict(written.store.range()) == {b"more": b"7"}
    assert content(root) == [{b"k": b"v"}, {b"k": b"v"}]


@pytest.mark.spec("TSK-10")
def test_so_does_a_record_of_an_earlier_release(root: ss.StateRoot) -> None:
    """It is a directory, with one for each store."""
    record = root.path / "@tasks" / "0_0" / "commit"
    record.unlink()
    (record / "seen").mkdir(parents=True)
    with publishing(root, "counts"):
        pass
    with pytest.raises(InvalidArgumentError, match="recorded a commit"), publishing(root, "seen"):
        pass


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize("kept", [0, 14, 20, None])
def test_so_does_a_record_that_cannot_be_understood(root: ss.StateRoot, kept: int | None) -> None:
    """Nobody knows which stores it was of; the opening of its task says that it is damaged."""
    record = root.path / "@tasks" / "0_0" / "commit"
    data = record.read_bytes()
    record.write_bytes(data.replace(b'"stores"', b'"scores"') if kept is None else data[:kept])
    with pytest.raises(InvalidArgumentError, match="recorded a commit"), publishing(root, "others"):
        pass


@pytest.mark.spec("TSK-24")
@pytest.mark.parametrize("write", ["commit", "truncate"])
def test_a_store_that_is_opened_by_itself_waits_too(root: ss.StateRoot, write: str) -> None:
    """A script opened one of the task's stores after the crash and committed a correction.

    It stood where the record says that the commit goes on, and the task was refused with
    `StoreCorruptedError` from then on. The store can be read, snapshots be written, and the commit
    is refused, which says to open the task.
    """
    with ss.open_logged_store(root, "seen", backend="memory") as seen:
        seen.store.put(b"more", b"7")
        with pytest.raises(
            InvalidArgumentError, match=r"recorded a commit.*close this store, and open the task"
        ):
            seen.commit() if write == "commit" else seen.store.truncate()
        seen.store.rollback()
        seen.commit()
        assert dict(seen.store.range()) == {}
        seen.snapshot()
    assert content(root) == [{b"k": b"v"}, {b"k": b"v"}]

    with ss.open_logged_store(root, "seen", backend="memory") as seen:
        seen.store.put(b"more", b"7")
        seen.commit()
    assert content(root) == [{b"k": b"v"}, {b"k": b"v", b"more": b"7"}]


@pytest.mark.spec("TSK-24")
def test_a_store_that_waits_goes_on_when_the_record_is_moved_away(root: ss.StateRoot) -> None:
    """As the error of a record that cannot be read advises; and no other store waits."""
    record = root.path / "@tasks" / "0_0" / "commit"
    with (
        ss.open_logged_store(root, "seen", backend="memory") as seen,
        ss.open_logged_store(root, "others", backend="memory") as others,
    ):
        for each in (seen, others):
            each.store.put(b"more", b"7")
        others.commit()
        with pytest.raises(InvalidArgumentError, match="recorded a commit"):
            seen.commit()
        record.rename(record.with_name("kept"))
        seen.commit()
    with ss.open_logged_store(root, "seen", backend="memory") as again:
        assert dict(again.store.range()) == {b"more": b"7"}
