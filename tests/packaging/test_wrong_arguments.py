"""Arguments of the wrong type, or swapped: an error of our tree, when the thing is made.

``KeyValue("counts", key="utf8")`` was made, and the first put said that a ``str`` has no attribute
``encode_array``. ``TaskManager(root, ["counts"])`` raised ``AttributeError``, a task of ``"0_1"``
was unknown, and a value nested 100,000 deep ended in ``RecursionError``. Each row is such a call.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import list_snapshots, read_snapshot, restore, write_snapshot
from statestores.changelog import changelog_partition
from statestores.errors import StateStoreError
from statestores.query import QueryableStores, key_value_store
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.tasks import LocalDirectory, TaskId, TaskManager, open_standby, open_task

Foreign = namedtuple("Foreign", "topic partition")  # noqa: PYI024  # as other libraries have it

DEPTH = 100_000

KINDS = (
    ss.KeyValue("s"),
    ss.TimestampedKeyValue("s"),
    ss.Versioned("s", history_retention_ms=9),
    ss.Window("s", retention_ms=9, window_size_ms=1),
    ss.Session("s", retention_ms=9),
)


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
        except StateStoreError as error:
            if len(str(error)) > 2_000:
                wrong.append(f"{name}: {len(str(error))} characters")
        except Exception as error:  # noqa: BLE001  # to tell of all of them
            wrong.append(f"{name}: {error!r}"[:200])
        else:
            wrong.append(f"{name}: no error")

    assert not wrong, "\n".join(wrong)


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
    stamped = any_.TimestampedKeyValue
    yield "TimestampedKeyValue(ttl_ms='1')", lambda: stamped("s", ttl_ms="1")
    yield "TimestampedKeyValue(ttl_clock=7)", lambda: stamped("s", ttl_ms=1, ttl_clock=7)
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
    other = ss.KeyValue("counts", value=ss.int64)
    yield "open_logged_store spec", lambda: any_.open_logged_store(root, other)
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
    for serde in (ss.utf8, ss.int64, ss.int64_sorted, ss.float64, ss.json, ss.msgpack):
        some: list[Any] = [7, None, "text", [], memoryview(b"12345678abc")[::2]]
        for data in some:
            yield f"{serde.name} decode {data!r}", lambda s=serde, d=data: s.decode(any_and(d))  # type: ignore[misc]
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
    yield from _calls_with_paths(root, store)
    yield from _calls_of_tasks(root)
    for each in KINDS:
        yield from _calls_of_kind(each)


def _calls_with_paths(root: ss.StateRoot, store: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Paths that no file system takes, and logs and snapshots in the wrong place."""
    any_: Any = ss
    counts = ss.KeyValue("counts")
    for backend in ("memory", "sqlite", "rocksdb", "leveldb"):
        for name, path in (("surrogate", "\udcff"), ("bytes", b"\xff"), ("NUL", "a\0b")):
            yield (
                f"open_store {backend} {name}",
                lambda p=path, b=backend: any_.open_store(  # type: ignore[misc]
                    root.path / p if isinstance(p, str) and p else p, counts, backend=b
                ),
            )
            if backend != "memory":  # it has no directory
                yield (
                    f"{backend} open {name}",
                    lambda p=path, b=backend: load_backend(b).open(p),  # type: ignore[misc]
                )
    yield "StateRoot surrogate", lambda: ss.StateRoot.create(root.path / "\udcff")
    for given in (7, "memory", [("a", 1)], {"segment_bytes": 1}):
        yield (
            f"changelog_options={given!r}",
            lambda g=given: any_.open_logged_store(root, "counts", changelog_options=g),  # type: ignore[misc]
        )
    yield "restore path", lambda: any_and(restore)(root.path, snapshot=None, changelog=None)
    yield "restore snapshot", lambda: restore(store, snapshot=any_and("x"))
    yield "restore changelog", lambda: restore(store, changelog=any_and(root.path))
    yield "changelog_partition", lambda: changelog_partition(any_and(7), 0)
    yield "changelog_partition text", lambda: changelog_partition("counts", any_and("0"))


def _calls_of_tasks(root: ss.StateRoot) -> Iterator[tuple[str, Callable[[], object]]]:
    tasks: Any = TaskManager
    groups = {0: ["counts"]}
    local = LocalDirectory(root.path / "local")
    for age in ("x", float("nan"), -1, None):
        yield f"clean_up({age!r})", lambda a=age: local.clean_up((), root, older_than_ms=any_and(a))  # type: ignore[misc]
    for place in ("..", "a/b", 7, None):
        yield f"partition({place!r})", lambda p=place: local.partition(any_and(p), 0)  # type: ignore[misc]
    for name, wrong in (
        ("backend", 7),
        ("backend", "no such backend"),
        ("backend", []),
        ("options", 7),
        ("options", {7: 1}),
        ("durability", "never"),
        ("durability", []),
        ("listener", 7),
        ("on_corruption", []),
        ("changelog_options", 7),
    ):
        yield (
            f"TaskManager {name}={wrong!r}",
            lambda n=name, w=wrong: tasks(root, groups, **{n: w}),  # type: ignore[misc]
        )
    lists: list[Any] = [7, [7], "0_1", [[]]]
    for standbys in lists:
        yield (
            f"assign standbys {standbys!r}",
            lambda s=standbys: tasks(root, groups, backend="memory").assign([], s),  # type: ignore[misc]
        )
    yield "manager.task", lambda: tasks(root, groups, backend="memory").task(any_and([]))
    root.add_store(ss.KeyValue("own"), partitions=1)
    with open_task(root, "0_0", ["own"], backend="memory") as task:
        yield "task.store", lambda: task.store(any_and([]))
        yield "task.logged_store", lambda: task.logged_store(any_and([]))
        yield "task.commit", lambda: task.commit(any_and([1]))
    queries = QueryableStores(tasks(root, groups, backend="memory"))
    yield "QueryableStores", lambda: QueryableStores(any_and(7))
    for of_type in (7, None, "key-value", ss.KeyValueStore):
        yield f"queries.store({of_type!r})", lambda t=of_type: queries.store("counts", any_and(t))  # type: ignore[misc]
    yield "queries.store name", lambda: queries.store(any_and([]), key_value_store())
    yield "queries.positions name", lambda: queries.positions(any_and([]))
    standby = open_standby(root, "own", 0, root.path / "standby", backend="memory")
    for interval in (None, "1", float("nan"), -1):
        yield f"follow({interval!r})", lambda i=interval: standby.follow(any_and(i))  # type: ignore[misc]
    standby.close()


def _calls_of_kind(specification: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """What each kind of store is given, by its owner and by its readers."""
    store: Any = open_on_engine(load_backend("memory").open(""), specification)
    facades = [store.read_only(isolation) for isolation in ss.Isolation]
    kind = specification.kind
    for wrong in (7, None, [], object()):
        yield f"{kind} replay {wrong!r}", lambda w=wrong: store.replay(w)  # type: ignore[misc]
        yield f"{kind} load {wrong!r}", lambda w=wrong: store.load(w, stream_time_ms=None)  # type: ignore[misc]
    for reader in (store, *facades):
        for name in (
            "range",
            "prefix_scan",
            "history",
            "scan_as_of",
            "fetch",
            "fetch_all",
            "fetch_range",
            "find_sessions",
            "find_all_sessions",
            "find_sessions_by_end",
        ):
            method = getattr(reader, name, None)
            if method is None:
                continue
            keys = (
                [b"k"] if name in {"prefix_scan", "history", "find_sessions", "fetch_range"} else []
            )
            if "reverse" not in signature(method).parameters:
                continue
            reverses: list[Any] = [2, None, "yes", []]
            for reverse in reverses:
                yield (
                    f"{type(reader).__name__}.{name} reverse={reverse!r}",
                    lambda m=method, k=keys, r=reverse: list(m(*k, reverse=r)),  # type: ignore[misc]
                )


def any_and(value: object) -> Any:
    """Return *value* as a type that the checker lets pass."""
    return value
