"""What a store over an engine counts of itself, and how exactly."""

import gc
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import OffsetRegressionError, StorageError
from statestores.metrics import MetricSource
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment
from statestores_memory import MemoryEngine

Values = Callable[[MetricSource], dict[str, int | float]]

PARTITION = ss.TopicPartition("counts-changelog", 0)


@pytest.mark.spec("MET-6")
def test_puts_and_commits_are_counted_exactly(store: EngineKeyValueStore, values: Values) -> None:
    """Each record put counts, also an overwritten one; a commit counts its rows and bytes."""
    store.put(b"a", b"1")
    store.put(b"a", b"22")
    store.put(b"b", None)
    store.put_many([b"c", b"d"], [b"3", None])
    store.put_all([(b"e", b"4")])
    store.delete(b"c")
    store.commit({})
    store.put(b"f", b"55")
    measured = values(store)

    assert measured["put-total"] == 8
    assert measured["commit-total"] == 1
    assert measured["committed-rows-total"] == 5
    assert measured["committed-bytes-total"] == 12
    assert measured["uncommitted-bytes"] == 3
    assert measured["commit-latency-max"] >= measured["commit-latency-avg"] > 0
    assert measured["put-rate"] == 8.0


@pytest.mark.spec("MET-6", "COM-43")
@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_raised_counts_if_it_is_there(values: Values, moment: Moment) -> None:
    """It was not counted: fewer rows than the engine has been given."""
    engine = FaultyEngine(MemoryEngine())
    with open_on_engine(engine, ss.KeyValue("counts")) as store:
        engine.plan(Fault(call="apply", at=1, moment=moment))
        store.put(b"a", b"1")
        with pytest.raises(StorageError):
            store.commit({})
        measured = values(store)

        count = 1 if moment is Moment.AFTER else 0
        assert measured["committed-rows-total"] == count
        assert measured["committed-bytes-total"] == 2 * count
        assert measured["commit-total"] == count
        store.commit({PARTITION: 1})
        assert values(store)["commit-total"] == count + 1


@pytest.mark.spec("MET-6")
def test_reads_that_ask_the_engine_are_counted(store: EngineKeyValueStore, values: Values) -> None:
    """Those that the write buffer or the cache answers are not."""
    store.put_many([b"a", b"b"], [b"1", b"2"])
    store.get(b"a")
    store.get(b"missing")
    store.commit({})
    store.get(b"a")
    store.get_many([b"a", b"b", b"c"])
    store.put(b"a", b"3")
    store.get_many([b"a", b"b", b"c"])

    assert values(store)["engine-get-total"] == 1 + 1 + 1


@pytest.mark.spec("MET-4")
def test_one_read_after_a_commit_is_timed(store: EngineKeyValueStore, values: Values) -> None:
    """The others go to the engine's own method: the sample costs them nothing."""
    store.get(b"a")
    before = values(store)
    store.commit({})
    for _ in range(10):
        store.get(b"a")
    measured = values(store)

    assert "engine-get-latency-avg" not in before
    assert measured["engine-get-latency-avg"] == measured["engine-get-latency-max"] > 0
    assert store._meter.engine_gets.count == 1
    assert store._engine_get == store._engine.get


@pytest.mark.spec("MET-6")
def test_puts_and_reads_of_every_kind_are_counted(values: Values) -> None:
    """Each row once, by whichever method; and a read that the engine answers, not a pending one."""
    kinds: list[tuple[Any, Callable[[Any, bytes], object], Callable[[Any, bytes], object]]] = [
        (ss.KeyValue("s"), lambda s, k: s.put(k, b"1"), lambda s, k: s.get(k)),
        (ss.TimestampedKeyValue("s"), lambda s, k: s.put(k, b"1", 5), lambda s, k: s.get(k)),
        (
            ss.Versioned("s", history_retention_ms=10),
            lambda s, k: s.put(k, b"1", 5),
            lambda s, k: s.get(k),
        ),
        (
            ss.Window("s", window_size_ms=5, retention_ms=10),
            lambda s, k: s.put(k, b"1", 5),
            lambda s, k: s.fetch(k, 5),
        ),
        (
            ss.Session("s", retention_ms=10),
            lambda s, k: s.put(k, 5, 6, b"1"),
            lambda s, k: s.fetch_session(k, 5, 6),
        ),
    ]
    for specification, put, read in kinds:
        with open_on_engine(MemoryEngine(), specification) as store:
            for key in (b"a", b"b", b"a"):
                put(store, key)
            read(store, b"a")
            pending = values(store)
            for key in (b"c", b"d"):
                read(store, key)
            measured = values(store)

            counted = [each["put-total"] for each in (pending, measured)]
            counted += [each["engine-get-total"] for each in (pending, measured)]
            assert (specification.kind, counted) == (specification.kind, [3, 3, 0, 2])


@pytest.mark.spec("MET-6")
@pytest.mark.parametrize(
    ("specification", "delete"),
    [
        (ss.KeyValue("s"), lambda store: store.put(b"a", None)),
        (ss.TimestampedKeyValue("s"), lambda store: store.put(b"a", None)),
        (ss.Versioned("s", history_retention_ms=10), lambda store: store.put(b"a", None, 5)),
        (
            ss.Window("s", window_size_ms=5, retention_ms=10),
            lambda store: store.put(b"a", None, 5),
        ),
        (ss.Session("s", retention_ms=10), lambda store: store.remove(b"a", 5, 6)),
    ],
    ids=["key-value", "timestamped", "versioned", "window", "session"],
)
def test_a_deletion_is_a_put(values: Values, specification: Any, delete: Any) -> None:
    """As in Kafka, where it is a put of null; of whatever kind the store is."""
    with open_on_engine(MemoryEngine(), specification) as store:
        for number in range(1, 4):
            delete(store)

            assert values(store)["put-total"] == number


@pytest.mark.spec("MET-6")
def test_what_is_replayed_is_no_put(values: Values) -> None:
    """A restored store begins with no puts, of whatever kind it is."""
    changes = {
        ss.KeyValue("s"): ss.Changes([b"a"], [b"1"]),
        ss.TimestampedKeyValue("s"): ss.Changes([b"a"], [b"1"], timestamps_ms=[5]),
        ss.Versioned("s", history_retention_ms=10): ss.Changes([b"a"], [b"1"], [5]),
        ss.Window("s", window_size_ms=5, retention_ms=10): ss.Changes([b"a"], [b"1"], [5]),
        ss.Session("s", retention_ms=10): ss.Changes([b"a"], [b"1"], [5], end_times_ms=[6]),
    }
    for specification, replayed in changes.items():
        with open_on_engine(MemoryEngine(), specification) as store:
            store.replay(replayed)
            store.commit({})
            measured = values(store)

            assert (specification.kind, measured["put-total"]) == (specification.kind, 0)
            assert measured["committed-rows-total"] > 0


@pytest.mark.spec("MET-6")
def test_late_records_are_counted(values: Values) -> None:
    """What came after its time was put in vain, and the store says how often."""
    with open_on_engine(MemoryEngine(), ss.Versioned("v", history_retention_ms=10)) as versions:
        versions.put(b"a", b"1", 100)
        versions.put(b"a", b"0", 5)
        assert values(versions)["dropped-records-total"] == 1
        assert values(versions)["put-total"] == 1
        versions.replay(ss.Changes([b"a"], [b"0"], [5]))
        assert values(versions)["dropped-records-total"] == 1
        versions.put(b"a", b"2", 101)
        assert values(versions)["put-total"] == 2
    specification = ss.Window("w", window_size_ms=5, retention_ms=10)
    with open_on_engine(MemoryEngine(), specification) as windows:
        windows.put(b"a", b"1", 100)
        windows.put_many([b"a", b"b"], [b"0", b"1"], [5, 101])

        assert values(windows)["dropped-records-total"] == 1
        assert values(windows)["put-total"] == 2


@pytest.mark.spec("MET-7", "MET-4")
def test_iterators_are_open_until_they_end(store: EngineKeyValueStore, values: Values) -> None:
    """Exhausted, closed, let go: each of them ends an iterator, begun or not, anybody's."""
    store.put_many([b"a", b"b"], [b"1", b"2"])
    store.commit({})
    assert "oldest-iterator-open-since-ms" not in values(store)
    exhausted, let_go, never_begun = store.range(), store.range(), store.range()
    facade = store.read_only().range()
    uncommitted = store.read_only("read_uncommitted").prefix_scan(b"a")
    list(exhausted)
    next(let_go)
    opened = values(store)
    assert opened["num-open-iterators"] == 4
    assert opened["oldest-iterator-open-since-ms"] > 1_600_000_000_000
    del let_go, never_begun
    gc.collect()
    assert values(store)["num-open-iterators"] == 2
    list(facade)
    uncommitted.close()  # type: ignore[attr-defined]  # they are generators
    ended = values(store)

    assert ended["num-open-iterators"] == 0
    assert "oldest-iterator-open-since-ms" not in ended
    assert ended["iterators-opened-total"] == 5


@pytest.mark.spec("MET-7")
def test_the_iterators_of_every_kind_are_counted(values: Values) -> None:
    """And each of them once, though several generators work for it."""
    with open_on_engine(MemoryEngine(), ss.Versioned("v", history_retention_ms=10)) as versions:
        versions.put(b"a", b"1", 5)
        held = [versions.history(b"a"), versions.scan_as_of(), versions.read_only().scan_as_of()]
        assert values(versions)["num-open-iterators"] == len(held)
    with open_on_engine(MemoryEngine(), ss.TimestampedKeyValue("t")) as stamped:
        stamped.put(b"a", b"1", 5)
        pairs = [stamped.range(), stamped.read_only().range()]
        assert values(stamped)["num-open-iterators"] == len(pairs)
    specification = ss.Window("w", window_size_ms=5, retention_ms=10)
    with open_on_engine(MemoryEngine(), specification) as windows:
        windows.put(b"a", b"1", 5)
        found = [windows.fetch_all(), windows.read_only().fetch_range(b"a")]
        next(found[0])

        assert values(windows)["iterators-opened-total"] == len(found)


@pytest.mark.spec("MET-7")
def test_many_iterators_are_forgotten(store: EngineKeyValueStore, values: Values) -> None:
    """A store that is read for days keeps no list of what it was asked; one held is not lost."""
    store.put(b"a", b"1")
    held = store.range()
    for _ in range(1_000):
        list(store.range())
    measured = values(store)

    assert measured["iterators-opened-total"] == 1_001
    assert measured["num-open-iterators"] == 1
    assert len(store._meter.iterators._opened) <= 64
    assert list(held) == [(b"a", b"1")]


@pytest.mark.spec("MET-3")
def test_a_failed_commit_is_none(store: EngineKeyValueStore, values: Values) -> None:
    """What raises is not counted, and nothing goes back."""
    store.put(b"a", b"1")
    store.commit({PARTITION: 5})
    store.put(b"b", b"1")
    before = values(store)
    with pytest.raises(OffsetRegressionError):
        store.commit({PARTITION: 4})
    store.rollback()
    after = values(store)

    assert after["commit-total"] == before["commit-total"] == 1
    assert after["put-total"] == before["put-total"] == 2
    assert after["uncommitted-bytes"] == 0


@pytest.mark.spec("MET-1")
def test_collectors_and_readers_do_not_disturb_each_other(
    store: EngineKeyValueStore, values: Values
) -> None:
    """Facades open iterators, collectors count them, the owner writes: no error, no loss."""
    failures: list[BaseException] = []
    store.put_many([b"%d" % number for number in range(100)], [b"v"] * 100)
    store.commit({})

    def read() -> None:
        try:
            for _ in range(300):
                list(islice(store.read_only().range(), 5))
                assert values(store)["num-open-iterators"] >= 0
        except BaseException as error:  # noqa: BLE001  # the test shows it
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(300):
        store.put(b"%d" % number, b"w")
        store.commit({})
    for reader in readers:
        reader.join()

    assert failures == []
    assert values(store)["iterators-opened-total"] == 4 * 300
    assert values(store)["num-open-iterators"] == 0


@pytest.mark.spec("MET-1", "MET-3")
def test_a_typed_store_has_the_metrics_of_what_is_below(tmp_path: Path, values: Values) -> None:
    """A store is asked, whatever stands between it and its engine; closed, it keeps its totals."""
    with ss.open_store(
        tmp_path / "s", ss.KeyValue("s", key=ss.utf8, value=ss.int64), backend="memory"
    ) as store:
        store.put("a", 1)
        store.commit({})
        tags = {tuple(sorted(metric.tags.items())) for metric in store.metrics()}

        assert tags == {(("backend", "memory"), ("kind", "key-value"), ("state-id", "s"))}
    assert values(store)["put-total"] == 1
    assert values(store)["uncommitted-bytes"] == 0
