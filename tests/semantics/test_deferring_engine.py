"""An engine that gets commits later answers as one that got them at once, also when it fails."""

from collections.abc import Callable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import StorageError, StoreClosedError
from statestores.failpoints import arm, disarm
from statestores.semantics.every_kind import deferring_engine
from statestores.semantics.every_kind.deferring_engine import DeferringEngine
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import DATA, OFFSETS
from statestores.semantics.rows.namespaced_rows import NamespacedRows
from statestores.spi import Durability, Engine
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.spi.specification import KeyValue
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment
from statestores_memory.engine import MemoryEngine

CRASH = Durability.PROCESS_CRASH
OFFSET = OFFSETS + b"log"
COMMITS, ROWS, PUT_BYTES, LAYERS = 5, 30, 100, 2
THREADED_COMMITS, KEYS = 300, 20

Rows = dict[bytes, bytes | None]
Look = Callable[[], object]

commits = st.tuples(
    st.dictionaries(
        st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e"]),
        st.none() | st.binary(max_size=2),
        max_size=6,
    ),
    st.sampled_from(["view", "rows", "at once"]),
    st.integers(0, PUT_BYTES + 10),
)
looks = st.sampled_from(
    ["nothing", "get_many", "first", "last", "scan", "scan_ahead", "snapshot", "count", "write"]
)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have little wait, so that all bounds are met."""
    monkeypatch.setattr(deferring_engine, "MOST_COMMITS", COMMITS)
    monkeypatch.setattr(deferring_engine, "MOST_ROWS", ROWS)
    monkeypatch.setattr(deferring_engine, "MOST_BYTES", PUT_BYTES)
    monkeypatch.setattr(deferring_engine, "MOST_LAYERS", LAYERS)


def content(engine: Engine) -> dict[bytes, bytes]:
    """Return all rows of *engine*."""
    return dict(engine.scan(b""))


def batch_of(rows: Rows, number: int, *, is_view: bool) -> CommitBatch:
    """Return the batch of a commit of *rows* as kinds make it, its number in it."""
    batch: CommitBatch
    batch = NamespacedRows(rows) if is_view else {DATA + key: row for key, row in rows.items()}
    batch[OFFSET] = b"%d" % number
    return batch


@pytest.mark.spec("LGS-15")
@given(steps=st.lists(st.tuples(commits, looks), max_size=25))
def test_every_read_is_that_of_an_engine_that_waits_for_nothing(
    steps: list[tuple[tuple[Rows, str, int], str]],
) -> None:
    """Whatever waits; and the engine behind has the first commits, each of them whole."""
    behind = MemoryEngine.open("")
    engine, model = DeferringEngine(behind), MemoryEngine.open("")
    states, waited = [content(model)], 0
    for number, ((rows, way, put_bytes), look) in enumerate(steps):
        model.apply(batch_of(rows, number, is_view=False), CRASH)
        states.append(content(model))
        if way == "at once":
            engine.apply(batch_of(rows, number, is_view=False), CRASH)
        else:
            engine.defer(batch_of(dict(rows), number, is_view=way == "view"), put_bytes)
        has = states.index(content(behind))
        waited = max(waited, len(states) - 1 - has)
        for key in (DATA, DATA + b"a", DATA + b"e", OFFSET, b"\xff"):
            assert engine.get(key) == model.get(key)
        assert _look(engine, look) == _look(model, look)
        if look not in ("nothing", "get_many"):
            assert content(behind) == states[-1]
    assert waited <= COMMITS

    engine.close()
    assert not behind.is_open


def _look(engine: Engine, how: str) -> object:
    """Return what *engine* has, asked in one way."""
    keys = [DATA + b"b", OFFSET, b"\xff", DATA + b"b", DATA]
    ways: dict[str, Look] = {
        "nothing": lambda: None,
        "get_many": lambda: engine.get_many(keys),
        "first": lambda: engine.first(DATA),
        "last": lambda: engine.last(b"", DATA + b"d"),
        "scan": lambda: list(engine.scan(DATA, reverse=True)),
        "scan_ahead": lambda: list(engine.scan_ahead(b"", None, 2)[0]),
        "snapshot": lambda: _of_snapshot(engine),
        "count": lambda: engine.approximate_num_keys(b""),
        "write": lambda: engine.write_waiting() if isinstance(engine, DeferringEngine) else None,
    }
    return ways[how]()


def _of_snapshot(engine: Engine) -> list[tuple[bytes, bytes]]:
    with engine.snapshot() as snapshot:
        return list(snapshot.scan(b""))


@pytest.mark.spec("LGS-15")
@pytest.mark.parametrize("moment", Moment)
def test_what_could_not_be_written_goes_on_waiting(moment: Moment) -> None:
    """Whoever had it written is told, reads of keys see it, and nothing overtakes it."""
    behind = MemoryEngine.open("")
    faulty = FaultyEngine(behind)
    engine = DeferringEngine(faulty)
    for number in range(COMMITS):
        engine.defer(batch_of({b"a": b"%d" % number}, number, is_view=True), 1)
    later = batch_of({b"b": b"later"}, COMMITS, is_view=True)

    faulty.plan(Fault(at=1, call="apply", moment=moment, lasting=True))
    for refused in (
        lambda: engine.scan(b""),
        lambda: engine.apply({b"other": b""}, CRASH),
        lambda: engine.defer(later, 1),  # there is no room for it
    ):
        with pytest.raises(StorageError):
            refused()
        assert engine.get_many([DATA + b"a", DATA + b"b", OFFSET]) == [b"4", None, b"4"]
        assert behind.get(b"other") is None

    faulty.plan(None)
    engine.defer(later, 1)
    assert behind.get(OFFSET) == b"4"
    assert dict(engine.scan(DATA)) == {DATA + b"a": b"4", DATA + b"b": b"later"}

    engine.defer(batch_of({b"c": b"last"}, 6, is_view=True), 1)
    faulty.plan(Fault(at=1, call="apply", lasting=True))
    with pytest.raises(StorageError):
        engine.close()
    assert not behind.is_open
    engine.close()  # the log has what could not be written
    faulty.plan(None)
    with pytest.raises(StoreClosedError):
        engine.get(DATA + b"c")
    with pytest.raises(StoreClosedError):
        engine.defer(later, 1)


@pytest.mark.spec("LGS-15", "ENG-11")
def test_others_read_whole_commits_meanwhile() -> None:
    """Scans of another thread, each of which has written what waits, see all of a commit."""
    engine = DeferringEngine(MemoryEngine.open(""))
    seen: list[set[bytes]] = []
    done = False

    def read() -> None:
        while not done:
            seen.append({row for _, row in engine.scan(DATA)})

    reader = Thread(target=read)
    reader.start()
    for number in range(THREADED_COMMITS):
        row = b"%d" % number
        rows: Rows = dict.fromkeys((b"%d" % key for key in range(KEYS)), row)
        engine.defer(NamespacedRows(rows), 1)
        assert engine.get_many([DATA + b"0", DATA + b"19"]) == [row, row]
    done = True
    reader.join()
    engine.close()

    assert all(len(rows) <= 1 for rows in seen)


class _Log(Journal):
    """A journal that takes everything."""

    def __init__(self) -> None:
        self._end = 0

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition("log", 0)

    @property
    def end_offset(self) -> int:
        return self._end

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        self._end += len(changes)
        return self._end - 1

    def append_clear(self, durability: Durability) -> int:
        raise NotImplementedError


@pytest.mark.spec("LGS-15", "COM-43")
def test_writes_after_an_interrupted_commit_are_not_among_those_that_wait() -> None:
    """What waits is the pending rows themselves, so that a commit copies none of them.

    A commit was interrupted when the engine had it, and the engine could not be asked whether it
    had. The writes stayed pending, as they must; another put went into the very rows that waited,
    was read as committed, and would have reached the engine without its log.
    """
    faulty = FaultyEngine(MemoryEngine.open(""))
    store = EngineKeyValueStore(DeferringEngine(faulty), KeyValue("counts"), CRASH)
    store.attach_journal(_Log())
    store.put(b"a", b"first")

    def interrupt() -> None:
        faulty.plan(Fault(at=1, call="get_many"))
        raise KeyboardInterrupt

    arm("commit.apply.after", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.commit({})
    disarm()
    faulty.plan(None)
    store.put(b"a", b"later")
    store.put(b"b", b"later")

    assert store.get(b"a") == b"later"
    committed = store.read_only()
    assert committed.get_many([b"a", b"b"]) == [b"first", None]
    assert dict(committed.range()) == {b"a": b"first"}
    store.commit({})
    assert committed.get_many([b"a", b"b"]) == [b"later", b"later"]
    store.close()


@pytest.mark.spec("LGS-15")
@pytest.mark.parametrize("durability", Durability)
def test_what_the_log_has_durably_waits_for_no_disk(durability: Durability) -> None:
    """The engine behind gets it with others, later. A mutant gave it each commit at once."""
    behind = FaultyEngine(MemoryEngine.open(""))
    store = EngineKeyValueStore(DeferringEngine(behind), KeyValue("counts"), durability)
    store.attach_journal(_Log())
    behind.plan(None)
    store.put(b"a", b"1")
    store.commit({})
    before = behind.calls["apply"]
    found = store.read_only().get(b"a")
    store.close()

    assert (before, found) == (0, b"1")
    assert behind.calls["apply"] > 0


@pytest.mark.spec("LGS-15")
def test_few_layers_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read joins what waits: a key that nobody changes was looked for in every commit."""
    monkeypatch.setattr(deferring_engine, "MOST_COMMITS", 100)
    engine = DeferringEngine(MemoryEngine.open(""))
    for number in range(20):
        engine.defer(batch_of({b"a": b"%d" % number, b"%d" % number: b""}, number, is_view=True), 1)

    assert engine.get(DATA + b"a") == b"19"
    assert len(engine._waiting.layers) == 1  # nothing else shows it
    assert engine.get(DATA + b"0") == b""
    engine.close()


@pytest.mark.spec("ENG-19")
def test_it_is_open_as_long_as_the_engine_behind_it() -> None:
    """Whoever asks decides by it whether to open the engine again."""
    engine = DeferringEngine(MemoryEngine.open(""))
    before = engine.is_open
    engine.close()

    assert (before, engine.is_open) == (True, False)
