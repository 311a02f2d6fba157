"""Arguments of the wrong type, or swapped: an error of our tree, when the thing is made.

``KeyValue("counts", key="utf8")`` was made, and the first put said that a ``str`` has no attribute
``encode_array``. ``TaskManager(root, ["counts"])`` raised ``AttributeError``, a task of ``"0_1"``
was unknown, and a value nested 100,000 deep ended in ``RecursionError``. Each row is such a call.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import list_snapshots, read_snapshot, write_snapshot
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    SerializationError,
)
from statestores.tasks import LocalDirectory, TaskId, TaskManager, open_standby, open_task

Foreign = namedtuple("Foreign", "topic partition")  # noqa: PYI024  # as other libraries have it

DEPTH = 100_000

EXPECTED = (InvalidTypeError, InvalidArgumentError, InvalidOptionError, SerializationError)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    """Return a store of bytes."""
    with ss.open_store(tmp_path / "one", ss.KeyValue("one"), backend="memory") as opened:
        yield opened


def test_a_wrong_argument_is_refused_by_name(tmp_path: Path, store: Any) -> None:
    """Each call raises an error of our tree that shows the value, and none goes through."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("counts"), partitions=2)
    wrong = []
    for name, call in _calls(root, store):
        try:
            call()
        except EXPECTED as error:
            if len(str(error)) > 2_000:
                wrong.append(f"{name}: {len(str(error))} characters")
        except Exception as error:  # noqa: BLE001  # to tell of all of them
            wrong.append(f"{name}: {error!r}"[:200])
        else:
            wrong.append(f"{name}: no error")

    assert wrong == []


def test_a_task_is_named_by_text_wherever_it_is_named(tmp_path: Path) -> None:
    """`open_task` took ``"0_1"``, and `TaskManager.assign` said that there is no such task."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("counts"), partitions=2)
    with TaskManager(root, {0: ["counts"]}, backend="sqlite") as manager:
        manager.assign(["0_1"])

        assert list(manager.tasks) == [TaskId(0, 1)]


def _deep() -> Any:
    value: Any = []
    for _ in range(DEPTH):
        value = [value]
    return value


def _calls(  # noqa: PLR0915  # a table
    root: ss.StateRoot, store: Any
) -> Iterator[tuple[str, Callable[[], object]]]:
    any_: Any = ss  # so that the checker lets wrong calls pass
    tasks: Any = TaskManager
    foreign = Foreign("t", 0)
    kinds = {
        "KeyValue": lambda **given: any_.KeyValue("s", **given),
        "TimestampedKeyValue": lambda **given: any_.TimestampedKeyValue("s", **given),
        "Versioned": lambda **given: any_.Versioned("s", history_retention_ms=1, **given),
        "Window": lambda **given: any_.Window("s", retention_ms=9, window_size_ms=1, **given),
        "Session": lambda **given: any_.Session("s", retention_ms=1, **given),
    }
    for kind, make in kinds.items():
        for field in ("key", "value"):
            for serde in ("utf8", type(ss.utf8), 7, object()):
                yield (f"{kind}({field}={serde!r})", lambda m=make, f=field, s=serde: m(**{f: s}))  # type: ignore[misc]
        partitioners: list[Any] = [None, 7, [], print]
        for partitioner in partitioners:
            yield (
                f"{kind}(partitioner={partitioner!r})",
                lambda m=make, p=partitioner: m(partitioner=p),  # type: ignore[misc]
            )
    counts = ss.KeyValue("counts")
    place = root.path / "x"
    yield "KeyValue(7)", lambda: any_.KeyValue(7)
    yield "KeyValue(ttl_ms='1')", lambda: any_.KeyValue("s", ttl_ms="1")
    yield "KeyValue(ttl_clock=7)", lambda: any_.KeyValue("s", ttl_ms=1, ttl_clock=7)
    yield "Versioned(1.5)", lambda: any_.Versioned("s", history_retention_ms=1.5)
    yield "Window('1')", lambda: any_.Window("s", retention_ms="1", window_size_ms=1)
    yield "Session(None)", lambda: any_.Session("s", retention_ms=None)
    yield "open_store swapped", lambda: any_.open_store(counts, place)
    yield "open_store name", lambda: any_.open_store(place, "counts")
    yield "open_store class", lambda: any_.open_store(place, ss.KeyValue)
    yield "open_store backend", lambda: any_.open_store(place, counts, backend=7)
    yield "open_store backend class", lambda: any_.open_store(place, counts, backend=type(store))
    yield "open_store options", lambda: any_.open_store(place, counts, options=["a=b"])
    yield "open_store option", lambda: any_.open_store(place, counts, options={7: 1})
    yield "open_store durability", lambda: any_.open_store(place, counts, durability="never")
    yield "open_existing", lambda: any_.open_existing(root)
    yield "open_existing options", lambda: any_.open_existing(place, options="a")
    yield "open_logged_store swapped", lambda: any_.open_logged_store("counts", root)
    yield "open_logged_store spec", lambda: any_.open_logged_store(root, counts)
    yield "open_logged_store partition", lambda: any_.open_logged_store(root, "counts", "0")
    yield "open_logged_store list", lambda: any_.open_logged_store(root, ["counts"])
    yield "open_logged_store root", lambda: any_.open_logged_store(None, "counts")
    yield "add_store name", lambda: root.add_store(any_and("counts"), partitions=1)
    yield "add_store partitions", lambda: root.add_store(counts, partitions=any_and("1"))
    yield "StateRoot.store", lambda: root.store(any_and(["counts"]))
    yield "StateRoot.partition", lambda: root.partition("counts", any_and("0"))
    yield "MemoryBudget", lambda: any_.MemoryBudget("1 GiB", stores=3)
    yield "MemoryBudget stores", lambda: any_.MemoryBudget(1 << 30, stores=None)
    yield "Position tuple", lambda: any_.Position({("t", 0): 1})
    yield "Position foreign", lambda: any_.Position({foreign: 1})
    yield "Position list", lambda: any_.Position([1])
    yield "Position text", lambda: any_.Position("t")
    yield "Position offset", lambda: any_.Position({ss.TopicPartition("t", 0): "1"})
    yield "Position partition", lambda: any_.Position({any_.TopicPartition("t", "0"): 1})
    yield "committed_offset tuple", lambda: store.committed_offset(("t", 0))
    yield "committed_offset foreign", lambda: store.committed_offset(foreign)
    yield "committed_offset text", lambda: store.committed_offset("t")
    yield "commit foreign", lambda: store.commit({foreign: 1})
    yield "commit list", lambda: store.commit([1])
    yield "commit int", lambda: store.commit(7)
    yield "advance_position foreign", lambda: store.advance_position({foreign: 1})
    yield "advance_position int", lambda: store.advance_position(7)
    yield "put deep", lambda: store.put(b"k", _deep())
    yield "get deep", lambda: store.get(_deep())
    yield "json deep", lambda: ss.json.encode(_deep())
    yield "msgpack deep", lambda: ss.msgpack.encode(_deep())
    yield "utf8 deep", lambda: ss.utf8.encode(_deep())
    yield "json bytes deep", lambda: ss.json.decode(b"[" * DEPTH + b"]" * DEPTH)
    yield "msgpack bytes deep", lambda: ss.msgpack.decode(b"\x91" * DEPTH + b"\x01")
    yield "TaskId", lambda: any_and(TaskId)("0", 1)
    yield "TaskManager list", lambda: tasks(root, ["counts"])
    yield "TaskManager text", lambda: tasks(root, {0: "counts"})
    yield "TaskManager key", lambda: tasks(root, {"0": ["counts"]})
    yield "TaskManager names", lambda: tasks(root, {0: [7]})
    yield "TaskManager nested", lambda: tasks(root, {0: [["counts"]]})
    yield "TaskManager root", lambda: tasks(None, {0: ["counts"]})
    yield "TaskManager threads", lambda: tasks(root, {0: ["counts"]}, restore_threads="2")
    yield "TaskManager interval", lambda: tasks(root, {0: ["counts"]}, follow_interval_s="2")
    yield "TaskManager corruption", lambda: tasks(root, {0: ["counts"]}, on_corruption=7)
    yield "TaskManager local", lambda: tasks(root, {0: ["counts"]}, local_directory=7)
    for active in (7, "0_1", [7], [("0", 1)], [(0, 1)], ["x"], [None]):
        yield f"assign({active!r})", lambda a=active: tasks(root, {0: ["counts"]}).assign(a)  # type: ignore[misc]
    yield "open_task int", lambda: open_task(root, any_and(0), ["counts"])
    yield "open_task text", lambda: open_task(root, "0_0", "counts")
    yield "open_task stores", lambda: open_task(root, "0_0", any_and([7]))
    yield "open_task swapped", lambda: open_task(any_and("0_0"), any_and(root), ["counts"])
    yield "open_standby", lambda: open_standby(root, any_and(7), 0, root.path / "y")
    yield "open_standby partition", lambda: open_standby(root, "counts", any_and("0"), place)
    yield "LocalDirectory", lambda: LocalDirectory(any_and(7))
    yield "write_snapshot", lambda: write_snapshot(store, any_and(7))
    yield "write_snapshot swapped", lambda: write_snapshot(any_and(place), any_and(store))
    yield "read_snapshot", lambda: read_snapshot(any_and(7))
    yield "list_snapshots", lambda: list_snapshots(any_and(None))


def any_and(value: object) -> Any:
    """Return *value* as a type that the checker lets pass."""
    return value
