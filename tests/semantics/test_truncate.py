"""Truncating a store: nothing of before comes back, and nothing of after gets lost."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import CommitConflictError, StorageError, StoreCorruptedError
from statestores.failpoints import arm, disarm
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import TRUNCATING_ROW
from statestores.spi import Engine, WriteBatch
from statestores.spi.durability import Durability
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine
from statestores_memory import MemoryEngine

PARTITION = ss.TopicPartition("t", 0)
SPECIFICATION = ss.Versioned("s", history_retention_ms=10)


@pytest.fixture
def engine() -> Engine:
    """An engine in memory."""
    return load_backend("memory").open("unused")


@pytest.mark.spec("COM-18")
def test_stream_time_goes_with_the_content(engine: Engine) -> None:
    """A put after truncating was refused as late: the old stream time lived on in memory."""
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"k", b"old", 1_000)
        store.commit({PARTITION: 7})

        store.truncate()

        assert store.stream_time_ms is None
        assert store.put(b"k", b"new", 5).accepted
        assert store.committed_offset(PARTITION) is None
        assert store.get(b"k") == (b"new", 5, None)


@pytest.mark.spec("COM-18", "COM-42")
def test_after_a_failed_truncation_nothing_expires_by_the_time_before(engine: Engine) -> None:
    """The next commit ends it, and what that puts is younger than everything: nothing is left.

    A mutant kept the stream time until then, and the commit stored it: the value had expired.
    """
    faulty = FaultyEngine(engine)
    with open_on_engine(faulty, ss.TimestampedKeyValue("s", ttl_ms=10)) as store:
        store.put(b"old", b"v", 1_000)
        store.commit({})
        faulty.plan(Fault(call="apply", at=2))
        with pytest.raises(StorageError):
            store.truncate()
        faulty.plan(None)
        store.put(b"new", b"v", 5)
        store.commit({})

        assert store.stream_time_ms == 5
        assert store.read_only().get(b"new") == (b"v", 5)
        assert store.read_only().get(b"old") is None


@pytest.mark.spec("COM-42")
def test_a_commit_after_a_failed_truncation_survives_reopening(engine: Engine) -> None:
    """The mark of a truncation that had failed made the next opening delete later commits."""
    store = open_on_engine(engine, ss.KeyValue("s"))
    store.put(b"old", b"1")
    store.commit({})
    apply = engine.apply

    def fail_once(batch: WriteBatch, durability: Durability) -> None:
        if b"\x02old" in batch:
            engine.apply = apply  # type: ignore[method-assign]  # the second try succeeds
            raise StorageError("no space")
        apply(batch, durability)

    engine.apply = fail_once  # type: ignore[method-assign]  # a disk that is full for a moment
    with pytest.raises(StorageError):
        store.truncate()
    store.put(b"new", b"2")
    store.commit({PARTITION: 1})

    reopened = open_on_engine(engine, ss.KeyValue("s"))

    assert dict(reopened.range()) == {b"new": b"2"}
    assert reopened.committed_offset(PARTITION) == 1


@pytest.mark.spec("COM-18")
def test_an_interrupted_truncation_is_completed_by_the_next_opening(engine: Engine) -> None:
    """The mark is there and the rows half gone: opening finishes it."""
    store = open_on_engine(engine, ss.KeyValue("s"))
    store.put(b"old", b"1")
    store.commit({PARTITION: 3})
    engine.apply({b"\x00truncating": b""}, Durability.POWER_LOSS)

    reopened = open_on_engine(engine, ss.KeyValue("s"))

    assert list(reopened.range()) == []
    assert reopened.committed_offset(PARTITION) is None


def test_an_engine_that_deletes_nothing_ends_a_truncation() -> None:
    """It went on for ever: the rows that were left were deleted again and again."""

    class Forgetful(MemoryEngine):
        def apply(self, batch: WriteBatch, durability: Durability) -> None:
            super().apply({key: value for key, value in batch.items() if value}, durability)

    with open_on_engine(Forgetful.open("unused"), ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.commit({})

        with pytest.raises(StoreCorruptedError, match="still has the row"):
            store.truncate()


TIMED = [
    ss.Versioned("s", history_retention_ms=10),
    ss.Window("s", retention_ms=10, window_size_ms=1),
    ss.Session("s", retention_ms=10),
    ss.TimestampedKeyValue("s", ttl_ms=10),
]


@pytest.mark.spec("COM-18", "COM-42", "COM-47")
@for_each("specification", TIMED)
def test_a_truncation_that_failed_anywhere_leaves_nothing_of_before(
    specification: ss.Versioned[bytes, bytes],
) -> None:
    """The disk failed once in a truncation; puts were late for good, and reading began too late.

    The stream time of before was still in memory, judged the puts that followed, and was written
    with the commit that completed the truncation. A failure in its last read left the offsets.
    """
    for at in range(1, 100):
        engine = FaultyEngine(MemoryEngine.open("unused"))
        store = open_on_engine(engine, specification)
        put_at(store, 1_000)
        store.commit({PARTITION: 41})
        engine.plan(Fault(at=at))
        try:
            store.truncate()
        except StorageError:
            pass
        else:
            break
        engine.plan(None)
        put_at(store, 5)
        store.commit({})
        reopened = open_on_engine(engine, specification)

        for each in (store, reopened):
            seen: tuple[int | None, int | None]
            seen = (each.stream_time_ms, each.committed_offset(PARTITION))
            assert seen == (5, None), at
    assert at > 3


def put_at(store: Any, time_ms: int) -> None:
    """Put something with a time into a store of any kind, which has to take it."""
    if store.specification.kind == "session":
        accepted = store.put(b"k", time_ms, time_ms, b"v")
    else:
        accepted = store.put(b"k", b"v", time_ms)

    assert getattr(accepted, "accepted", accepted) is not False


READ_AND_COMMIT: list[tuple[Any, Any, Any]] = [
    (
        ss.KeyValue("s"),
        lambda store, key: store.put(key, b"v"),
        lambda store, key: store.get(key),
    ),
    (
        ss.TimestampedKeyValue("s", ttl_ms=10),
        lambda store, key: store.put(key, b"v", 1_000),
        lambda store, key: store.get(key),
    ),
    (
        ss.Versioned("s", history_retention_ms=10),
        lambda store, key: store.put(key, b"v", 1_000),
        lambda store, key: store.get(key),
    ),
    (
        ss.Window("s", retention_ms=10, window_size_ms=1),
        lambda store, key: store.put(key, b"v", 1_000),
        lambda store, key: store.fetch(key, 1_000),
    ),
    (
        ss.Session("s", retention_ms=10),
        lambda store, key: store.put(key, 1_000, 1_000, b"v"),
        lambda store, key: list(store.find_sessions(key, 0, 2_000)) or None,
    ),
]


@pytest.mark.spec("COM-18", "COM-42")
@for_each("case", READ_AND_COMMIT)
def test_what_was_read_of_a_truncation_that_failed_is_gone_with_it(
    case: tuple[Any, Any, Any],
) -> None:
    """The rows that were read before the next commit ended it stayed in memory, and were found."""
    specification, put, read = case
    keys = [b"%02d" % number for number in range(32)]
    engine = FaultyEngine(MemoryEngine.open("unused"))
    with open_on_engine(engine, specification) as store:
        for key in keys:
            put(store, key)
        store.commit({})
        engine.plan(Fault(call="apply", at=2))
        with pytest.raises(StorageError):
            store.truncate()
        engine.plan(None)
        assert None not in [read(store, key) for key in keys]
        assert not store.has_pending_writes
        store.commit({PARTITION: 1})

        assert {read(store, key) for key in keys} == {None}
        assert store.committed_offset(PARTITION) == 1


@pytest.mark.spec("COM-42")
def test_a_truncation_that_failed_can_be_tried_again() -> None:
    """As often as it takes; a commit is refused until somebody has decided what is to come."""
    engine = FaultyEngine(MemoryEngine.open("unused"))
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.commit({PARTITION: 1})
        engine.plan(Fault(call="apply", at=1, lasting=True))
        for _ in range(2):
            with pytest.raises(StorageError, match="the test has it so"):
                store.truncate()
        engine.plan(None)
        store.truncate()

        assert (store.get(b"k"), store.committed_offset(PARTITION)) == (None, None)


@pytest.mark.spec("COM-7", "COM-18")
def test_a_truncation_ends_a_rollback_that_was_interrupted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgets what is pending as well, and whoever empties a store need not roll back first."""

    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"forgotten")
        with monkeypatch.context() as patch:
            patch.setattr(store, "_forget_pending", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.rollback()
        with pytest.raises(CommitConflictError, match="roll back again"):
            store.commit({})
        store.truncate()
        store.commit({})

        assert store.get(b"k") is None


@pytest.mark.spec("LAY-12")
def test_the_mark_of_a_truncation_has_no_bytes(engine: Engine) -> None:
    """What another implementation finds there is nothing that it has to understand."""
    marks: list[bytes | None] = []
    arm("truncate.marked", lambda: marks.append(engine.get(TRUNCATING_ROW)))
    try:
        with open_on_engine(engine, ss.KeyValue("s")) as store:
            store.truncate()
    finally:
        disarm()

    assert marks == [b""]
