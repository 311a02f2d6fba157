"""A rollback after a commit that raised, and is there: what it refuses, and until when."""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import commit_many, restore
from statestores.arrow.restoring.taking_back import take_back
from statestores.errors import CommitConflictError, StorageError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import sampled
from statestores.spi import Durability, TopicPartition
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment

PLAIN = ss.KeyValue("s")
INPUT = TopicPartition("input", 0)
MANY = 3_000
KEYS = [b"%04d" % number for number in range(MANY)]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way of many rows with fewer of them."""
    monkeypatch.setattr("statestores.arrow.restoring.bulk_put.LEAST_ROWS", MANY)


def open_faulty(path: Path, backend: str = "memory") -> tuple[Any, FaultyEngine]:
    """Open a store over an engine that fails when it is told to."""
    engine = FaultyEngine(load_backend(backend).open(path))
    return open_on_engine(engine, PLAIN, durability=Durability.PROCESS_CRASH), engine


def fail_next(engine: FaultyEngine, call: str, moment: Moment) -> None:
    """Have the next *call* fail."""
    engine.plan(Fault(call=call, at=1, moment=moment))


@pytest.mark.spec("COM-43", "COM-9")
@pytest.mark.parametrize(("kind", "call"), [("memory", "apply"), ("rocksdb", "ingest")])
def test_rows_in_bulk_that_are_there_are_not_rolled_back(
    tmp_path: Path, subtests: pytest.Subtests, kind: str, call: str
) -> None:
    """`commit_many` raised, the rows were there, and `rollback()` returned as if they were not.

    Whoever then put them again, of a count say, had them twice. Nobody had asked the engine: the
    rows were no pending writes that it could have been asked for. They are not there if it failed
    before, though many of them had been there, and their offset.
    """
    for offsets in ({}, {INPUT: 7}):
        for moment in Moment:
            with subtests.test(offsets=offsets, moment=moment):
                store, engine = open_faulty(tmp_path / f"{len(offsets)}{moment.value}", kind)
                commit_many(store, pa.table({"key": KEYS, "value": KEYS}), offsets)
                values = [*KEYS[:9], b"new", *KEYS[10:]]
                fail_next(engine, call, moment)
                with pytest.raises(StorageError):
                    commit_many(store, pa.table({"key": KEYS, "value": values}), offsets)

                is_there = moment is Moment.AFTER
                assert store.get(KEYS[9]) == (b"new" if is_there else KEYS[9])
                if is_there:
                    for _ in range(2):
                        with pytest.raises(CommitConflictError, match="and that stays"):
                            store.rollback()
                store.put(b"late", b"")
                store.rollback()
                store.rollback()
                assert store.get(b"late") is None
                assert store.get(KEYS[9]) == (b"new" if is_there else KEYS[9])
                store.close()


@pytest.mark.spec("COM-43")
def test_rows_are_asked_for_when_all_of_them_were_given() -> None:
    """An engine that was interrupted before the last one has none, whatever was there before."""
    rows = [(key, b"") for key in KEYS]
    sample: dict[bytes, bytes | None] = {}
    passed = sampled(rows, sample)
    for row in rows:
        assert next(passed) == row
    assert sample == {}
    assert next(passed, None) is None

    assert sample == dict([*rows[:1024], rows[1024], rows[2048]])


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize("is_logged", [False, True], ids=["plain", "logged"])
def test_a_later_commit_that_failed_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_logged: bool
) -> None:
    """One commit raised and was there; the next one failed, and was not.

    Its rollback was refused, "since the engine has the pending writes": it had not. That went on
    until a commit succeeded, which a full disk allows to none. A caller who has not heard of the
    commit that is there hears of it first: it would write that once more.
    """
    if is_logged:
        root = ss.StateRoot.create(tmp_path / "root")
        root.add_store(PLAIN, partitions=1)
        logged: Any = ss.open_logged_store(root, "s", 0, backend="memory")
        store, commit = logged.store, logged.commit
        engine = FaultyEngine(store._engine)
        monkeypatch.setattr(store, "_engine", engine)
    else:
        store, engine = open_faulty(tmp_path)

        def commit() -> None:
            store.commit({})

    def fail_after_it_was_there(key: bytes) -> None:
        store.put(key, b"")
        fail_next(engine, "apply", Moment.AFTER)
        with pytest.raises(StorageError):
            commit()

    def fail_before(key: bytes) -> None:
        store.put(key, b"")
        if is_logged:
            monkeypatch.setattr(store._journal, "append", _no_room)
        else:
            fail_next(engine, "apply", Moment.BEFORE)
        with pytest.raises(StorageError):
            commit()

    fail_after_it_was_there(b"there")
    with pytest.raises(CommitConflictError, match="the engine of 's' has what a commit that fail"):
        store.rollback()
    fail_before(b"not there")
    store.rollback()  # it was refused
    assert [key for key, _ in store.range()] == [b"there"]
    monkeypatch.undo()
    if is_logged:
        monkeypatch.setattr(store, "_engine", engine)
    fail_after_it_was_there(b"there too")
    fail_before(b"nor this")
    with pytest.raises(CommitConflictError, match="roll back once more to forget that alone"):
        store.rollback()
    assert store.get(b"nor this") == b""
    store.rollback()

    assert [key for key, _ in store.range()] == [b"there", b"there too"]
    monkeypatch.undo()
    (logged if is_logged else store).close()


def _no_room(*_: object) -> int:
    raise StorageError("no room")


@pytest.mark.spec("COM-43", "SNP-10")
def test_the_first_error_says_what_hinders_the_rollback(
    tmp_path: Path, make_changelog: Any
) -> None:
    """`commit_many` of a few rows raised what its own rollback raised, and not what had failed."""
    changelog = make_changelog(PLAIN.kind)
    live = open_on_engine(load_backend("memory").open(tmp_path), PLAIN)
    live.put_all([(b"a", b"1")])
    live.commit({TopicPartition("s-changelog", 0): changelog.record(live)})
    for step in (
        lambda store: commit_many(store, pa.table({"key": [b"a"], "value": [b"1"]})),
        lambda store: restore(store, changelog=changelog),
    ):
        store, engine = open_faulty(tmp_path)
        fail_next(engine, "apply", Moment.AFTER)
        with pytest.raises(StorageError, match="the test has it so") as raised:
            step(store)

        assert ["and that stays" in note for note in raised.value.__notes__] == [True]
        assert store.get(b"a") == b"1"
        assert not store.has_pending_writes
        with pytest.raises(CommitConflictError):
            store.rollback()


def test_a_note_is_made_once() -> None:
    """An operation that is taken back by two who both refuse it for one reason says so once."""
    store, _ = open_faulty(Path("unused"))
    refused = StorageError("the disk is full")

    class Refusing:
        is_open = True

        def rollback(self) -> None:
            raise refused

    error = ValueError("what was met first")
    for _ in range(2):
        take_back(cast("Any", Refusing()), error)
    store.close()
    take_back(store, error)  # a closed store has nothing to take back

    assert error.__notes__ == ["the disk is full"]
