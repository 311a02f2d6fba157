"""What a processor is given of a task's stores: everything but what tears a commit apart."""

from pathlib import Path
from typing import Any, assert_type

import pyarrow as pa
import pytest

import statestores as ss
from statestores import arrow
from statestores.errors import CapabilityNotSupportedError, InvalidTypeError, StoreClosedError
from statestores.metrics import set_recording_level
from statestores.serdes.typed_stores.processor_store import OWNER_VERBS, for_processors
from statestores.spi.specification import StoreSpecification
from statestores.tasks import Task, open_task

INPUT = ss.TopicPartition("words", 0)

PUTS: dict[StoreSpecification[Any, Any], tuple[object, ...]] = {
    ss.KeyValue("plain"): (b"k", b"v"),
    ss.KeyValue("typed", key=ss.utf8, value=ss.int64): ("k", 1),
    ss.TimestampedKeyValue("stamped"): (b"k", b"v", 5),
    ss.Versioned("versions", history_retention_ms=10): (b"k", b"v", 5),
    ss.Versioned("rates", history_retention_ms=10, key=ss.utf8, value=ss.int64): ("k", 1, 5),
    ss.Window("windows", retention_ms=10, window_size_ms=2, key=ss.utf8): ("k", b"v", 5),
    ss.Session("sessions", retention_ms=10, key=ss.utf8): ("k", 1, 5, b"v"),
}
"""A put into a store of each kind, with serdes and without."""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Return a task with a store of every kind."""
    root = ss.StateRoot.create(tmp_path / "kinds")
    for specification in PUTS:
        root.add_store(specification, partitions=1)
    return open_task(root, "0_0", root.stores, backend="memory")


@pytest.mark.spec("TSK-11")
def test_a_processor_cannot_tear_a_commit(root: ss.StateRoot) -> None:
    """A user's processor committed its store after each record, and the process was killed.

    The count was in, the position was not, so the record was counted twice. A store's own commit
    is refused now, and says who commits.
    """
    with open_task(root, "0_0", ["counts", "rates"], backend="sqlite") as task:
        counts = task.store("counts")
        counts.put("tea", 1)
        with pytest.raises(CapabilityNotSupportedError, match=r"'commit' of .* by `Task.commit`"):
            counts.commit({})
    with open_task(root, "0_0", ["counts", "rates"], backend="sqlite") as task:
        assert task.store("counts").get("tea") is None
        task.store("counts").put("tea", 1)
        task.commit({INPUT: 0})
    with open_task(root, "0_0", ["counts", "rates"], backend="sqlite") as task:
        assert task.store("counts").get("tea") == 1
        assert task.position == {INPUT: 0}


@pytest.mark.spec("TSK-11")
def test_every_kind_refuses_what_is_the_runtimes_and_has_the_rest(task: Task) -> None:
    """The other methods are the whole store's own, so they cost what they cost there."""
    for specification, arguments in PUTS.items():
        name = specification.name
        whole, store = task.logged_store(name).store, task.store(name)
        for verb in OWNER_VERBS:
            with pytest.raises(
                CapabilityNotSupportedError, match=f"'{verb}' of the store '{name}'"
            ):
                getattr(store, verb)()
        with pytest.raises(CapabilityNotSupportedError, match="'close'"), store:
            pass
        store.put(*arguments)

        assert store.is_open
        assert store.uncommitted_bytes > 0
        assert store.put == whole.put
        assert (store.name, store.specification) == (whole.name, whole.specification)
        kinds = {
            kind for kind in type(whole).__mro__ if kind.__module__.startswith("statestores.spi")
        }
        assert kinds <= set(type(store).__mro__)
    task.commit({INPUT: 1})
    for specification in PUTS:
        store = task.store(specification.name)
        assert store.position == {INPUT: 1}
        assert store.read_only().position == {INPUT: 1}
        assert store.uncommitted_bytes == 0
    stores = {specification.name: task.store(specification.name) for specification in PUTS}
    task.close()
    for specification, arguments in PUTS.items():
        with pytest.raises(StoreClosedError):
            stores[specification.name].put(*arguments)
        assert not stores[specification.name].is_open


@pytest.mark.spec("TSK-11")
def test_whole_columns_are_put_and_read_but_not_committed(task: Task) -> None:
    """What commits on its own is refused before it has put anything."""
    rows = pa.table({"key": ["a", "b"], "value": [1, 2]})
    with task:
        store = task.store("typed")
        for commits in (arrow.commit_many, arrow.bulk_load):
            with pytest.raises(CapabilityNotSupportedError, match="'commit'"):
                commits(store, rows)
        with pytest.raises(CapabilityNotSupportedError, match="'commit'"):
            arrow.restore(store)
        assert store.uncommitted_bytes == 0
        assert arrow.put_many(store, rows) == 2
        task.commit()
        assert arrow.get_many(store, pa.array(["a", "b"])).to_pylist() == [1, 2]
        assert arrow.bulk_load(store, rows, commit=task.commit) == 2


@pytest.mark.spec("TSK-11")
def test_calls_are_recorded_of_the_whole_store(task: Task) -> None:
    """A processor's store says so, instead of recording nothing."""
    with task:
        with pytest.raises(InvalidTypeError, match="record the whole store"):
            set_recording_level(task.store("plain"), "DEBUG")
        set_recording_level(task.logged_store("plain").store, "DEBUG")
        task.store("plain").put(b"a", b"b")
        names = {metric.name for metric in task.metrics()}

        assert "put-latency-max" in names


def test_a_processors_store_has_the_type_of_the_whole_one(tmp_path: Path) -> None:
    """So a type checker knows its keys and values."""
    specification = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    with ss.open_store(tmp_path, specification, backend="memory") as whole:
        store = for_processors(whole, "the test commits")

        assert_type(store, ss.KeyValueStore[str, int])
        assert isinstance(store, ss.KeyValueStore)
        assert_type(store.get("a"), int | None)
