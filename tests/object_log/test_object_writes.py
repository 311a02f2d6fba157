"""Writes of several partitions in an object store: what tasks stage is the data, once named."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.changelog import change_schema
from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    StorageError,
    StoreLockedError,
)
from statestores.failpoints import arm, disarm
from statestores.object_log import ObjectLog, changelog
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.staging.object_write import ObjectWrite
from statestores.staging.staged_objects import ObjectStager, StagedObjects, stage_objects
from statestores.staging.write_intent import StreamBatch
from statestores.storage import Outcome
from statestores.storage.obstore_driver import ObstoreStorage

RATES = ss.Versioned("rates", history_retention_ms=1_000)
HITS = ss.Window("hits", window_size_ms=10, retention_ms=1_000, retain_duplicates=True)


@contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Do *action* when the next write is ready to be committed."""
    arm("objects.write.checked", action, at=1)
    try:
        yield
    finally:
        disarm()


def rows_of(kind: str, *rows: Mapping[str, Any]) -> pa.RecordBatch:
    """Return *rows* as changes."""
    return pa.RecordBatch.from_pylist(list(rows), schema=change_schema(kind))


class Store:
    """A store of one or two partitions in an object store."""

    def __init__(self, root: ss.StateRoot, specification: Any, partitions: int) -> None:
        self.specification = specification
        self.root = root
        root.add_store(specification, partitions=partitions)
        self.log: ObjectLog = root.object_log(specification.name)

    def task(self, *rows: Mapping[str, Any]) -> StagedObjects:
        """Stage *rows* as one task."""
        kind = self.specification.kind
        return stage_objects(self.log, self.specification, [rows_of(kind, *rows)])

    def commit(self, *staged: StagedObjects, **options: Any) -> bool:
        """Commit what tasks have staged."""
        return ObjectWrite(
            log=self.log, specification=self.specification, staged=staged, **options
        ).commit()

    def reader(self, number: int = 0) -> PartitionReader:
        """Return what reads a partition."""
        place = place_of(self.root, self.specification.name, number)
        return PartitionReader(place, self.specification)

    def rows(self, **options: Any) -> list[tuple[Any, ...]]:
        """Return the content of all partitions."""
        return [
            tuple(row.values())
            for number in range(self.log.partitions)
            for batch in self.reader(number).rows(typed=False, **options)
            for row in batch.to_pylist()
        ]

    def names(self, below: str) -> list[str]:
        """Return the objects *below* the store."""
        return [each.name for each in self.log.storage.list(f"{self.log.store}/{below}/")]


@pytest.fixture
def words(root: ss.StateRoot) -> Store:
    """A key-value store."""
    return Store(root, ss.KeyValue("words"), 2)


def word(key: str, value: str | None) -> dict[str, Any]:
    """Return a change."""
    return {"key": key.encode(), "value": None if value is None else value.encode()}


@pytest.mark.spec("OBJ-58", "OBJ-12")
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "lost"])
def test_a_write_behind_which_nothing_answers_is_in_doubt(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """The network went as a write was committed: the entry was there, and reading failed.

    That was a `StorageError`, of which it is said that nothing was committed; whoever wrote the
    rows again had duplicates of them. Now nobody can tell, and that is what the error says.
    """
    hits = Store(root, HITS, 1)
    task = hits.task({"key": b"a", "value": b"1", "window_start": 0, "sequence": 0})
    create, read, put = ObstoreStorage.create, ObstoreStorage.read, list[str]()

    def creating(self: Any, name: str, data: bytes) -> Outcome:
        done = create(self, name, data)
        if "/root/" not in name:
            return done
        put.append(name)
        return done if answered else Outcome.UNKNOWN

    def reading(self: Any, name: str, known_tag: str | None = None) -> Any:
        if put:
            raise StorageError("the network is down")
        return read(self, name, known_tag)

    monkeypatch.setattr(ObstoreStorage, "create", creating)
    monkeypatch.setattr(ObstoreStorage, "read", reading)
    with pytest.raises(CommitInDoubtError, match=r"was committed \(the network is down\)"):
        hits.commit(task)
    monkeypatch.undo()

    assert len(hits.rows()) == len(put) == 1


@pytest.mark.spec("OBJ-28", "OBJ-12")
def test_the_staged_objects_are_the_data(words: Store) -> None:
    """Rows of several tasks and partitions count with one put, in the order of the tasks.

    Nothing is copied, folding keeps it all, and what was staged and not named is nothing.
    """
    keys = [f"k{number}" for number in range(20)]
    first = words.task(*(word(key, "1") for key in keys))
    second = words.task(word("k3", "2"), word("k4", None))
    words.task(word("k5", "of an attempt that failed"))
    staged = words.names("data")
    assert words.rows() == []
    assert words.commit(first, second)

    assert words.names("data") == staged
    assert len(words.names("root")) == 1
    expected = {key.encode(): b"1" for key in keys} | {b"k3": b"2"}
    del expected[b"k4"]
    assert dict(words.rows()) == expected
    words.log.fold()
    assert dict(words.rows()) == expected
    assert words.commit(words.task(word("a", "1")), overwrite=True)
    assert words.rows() == [(b"a", b"1")]
    words.log.compact()
    assert words.rows() == [(b"a", b"1")]
    assert words.commit(overwrite=True)
    assert words.rows() == []


@pytest.mark.spec("OBJ-28")
def test_a_task_with_many_rows_stages_several_objects(words: Store) -> None:
    """Of some mebibytes each, so that whoever reads one holds no more."""
    stager = ObjectStager(words.log, words.specification, spill_bytes=1_000)
    for number in range(30):
        stager.add(rows_of("key-value", word(f"k{number % 7}", "x" * 200 + str(number))))
    staged = stager.finish()

    assert len({each.run for each in staged.objects}) > 3
    assert staged.rows == 30
    assert words.commit(staged)
    assert {row[0]: row[1][200:] for row in words.rows()} == {
        b"k%d" % (number % 7): b"%d" % number for number in range(23, 30)
    }


@pytest.mark.spec("OBJ-29")
def test_versions_are_applied_in_order_of_time(root: ss.StateRoot) -> None:
    """Whichever task has them, none makes another one too late."""

    def version(key: str, time_ms: int) -> dict[str, Any]:
        return {"key": key.encode(), "value": b"%d" % time_ms, "timestamp": time_ms}

    rates = Store(root, RATES, 1)
    late = rates.task(version("a", 50_000), version("a", 50_500))
    early = rates.task(version("b", 1_000), version("b", 1_200))
    before = rates.names("data")
    assert rates.commit(late, early)
    assert rates.names("data") == before
    mixed = [
        rates.task(version("c", 60_000), version("d", 51_000)),
        rates.task(version("c", 55_000), version("d", 50_800)),
    ]
    assert rates.commit(*mixed)
    assert len(rates.names("data")) == len(before) + 3
    times = [
        time
        for batch in rates.reader().changes(typed=False)
        for time in batch.column("timestamp").to_pylist()
    ]
    assert times == [1_000, 1_200, 50_000, 50_500, 50_800, 51_000, 55_000, 60_000]


@pytest.mark.spec("OBJ-29")
def test_duplicates_are_numbered_behind_those_that_are_there(root: ss.StateRoot) -> None:
    """By whoever commits, and anew when another write has come first."""

    def hit(value: str) -> dict[str, Any]:
        return {"key": b"a", "value": value.encode(), "window_start": 0, "sequence": None}

    hits = Store(root, HITS, 1)
    assert hits.commit(hits.task(hit("1"), hit("2")), hits.task(hit("3")))
    between = [hits.task(hit("4"))]

    def somebody_else() -> None:
        assert hits.commit(between.pop())

    with meanwhile(somebody_else):
        assert hits.commit(hits.task(hit("5")))

    changes = [row for batch in hits.reader().changes(typed=False) for row in batch.to_pylist()]
    assert [(row["value"], row["sequence"]) for row in changes] == [
        (b"1", 0),
        (b"2", 1),
        (b"3", 2),
        (b"4", 3),
        (b"5", 4),
    ]


@pytest.mark.spec("OBJ-29")
def test_duplicates_are_numbered_behind_those_of_before_a_reshard(
    url: str, root: ss.StateRoot
) -> None:
    """Each write that added some failed for good: the log "has lost offset 0", where it begins.

    After a reshard a log begins behind a snapshot, which has the numbers that came before.
    """

    def hit(value: bytes) -> dict[str, Any]:
        return {"key": b"a", "value": value, "window_start": 0, "sequence": None}

    def numbers() -> list[tuple[bytes, int]]:
        number = partitioner_by_name(HITS.partitioner).partition(b"a", 2)
        rows = [row for batch in hits.reader(number).rows() for row in batch.to_pylist()]
        return [(row["value"], row["sequence"]) for row in rows]

    hits = Store(root, HITS, 1)
    assert hits.commit(hits.task(hit(b"1"), hit(b"2")))
    reshard(root, "hits", 2)
    hits = Store(ss.StateRoot.open(url), HITS, 2)
    assert hits.commit(hits.task(hit(b"3")), hits.task(hit(b"4")))
    assert hits.commit(hits.task(hit(b"5")))
    assert numbers() == [(b"1", 0), (b"2", 1), (b"3", 2), (b"4", 3), (b"5", 4)]
    assert hits.commit(hits.task(hit(b"6")), overwrite=True)
    assert hits.commit(hits.task(hit(b"7")))
    assert numbers() == [(b"6", 0), (b"7", 1)]


@pytest.mark.spec("OBJ-30")
def test_a_write_follows_only_what_it_expects(words: Store, tmp_path: Path) -> None:
    """Between looking and the commit nothing comes; an owner of any partition is in the way."""
    seen: list[Mapping[int, int]] = []

    def accept(ends: Mapping[int, int]) -> None:
        seen.append(ends)
        if any(ends.values()):
            raise CommitConflictError(str(ends))

    other = words.task(word("b", "2"))
    with meanwhile(lambda: words.commit(other)), pytest.raises(CommitConflictError):
        words.commit(words.task(word("a", "1")), accept=accept)
    assert sorted(seen[0].values()) == [0, 1]
    assert words.rows() == [(b"b", b"2")]
    with (
        ss.open_logged_store(words.root, "words", 0, directory=tmp_path / "w", backend="memory"),
        pytest.raises(StoreLockedError, match="close its store"),
    ):
        words.commit(words.task(word("c", "3")), accept=lambda ends: None)
    assert words.commit(words.task(word("c", "3")), accept=lambda ends: None)


@pytest.mark.spec("OBJ-31")
def test_a_batch_of_a_stream_counts_once(words: Store) -> None:
    """Also one without rows, and after a fold: the checkpoint remembers."""
    batch = StreamBatch(stream="query", number=1)
    assert words.commit(words.task(word("a", "1")), batch=batch)
    assert not words.commit(words.task(word("a", "again")), batch=batch)
    words.log.fold()
    assert not words.commit(
        words.task(word("a", "again")), batch=StreamBatch(stream="query", number=0)
    )
    assert words.commit(words.task(word("b", "2")), batch=StreamBatch(stream="other", number=0))
    assert words.commit(batch=StreamBatch(stream="query", number=2))
    assert not words.commit(
        words.task(word("a", "again")), batch=StreamBatch(stream="query", number=2)
    )
    words.log.compact()

    assert dict(words.rows()) == {b"a": b"1", b"b": b"2"}


@pytest.mark.spec("OBJ-28")
def test_a_write_is_of_the_time_of_its_commit(
    words: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of when it was staged: who reads from a time on would never see it."""
    clock = {"ms": 1_000}
    for module in ("staged_objects", "object_write"):
        monkeypatch.setattr(f"statestores.staging.{module}.wall_clock_ms", lambda: clock["ms"])
    staged = words.task(word("a", "1"))
    clock["ms"] = 5_000
    words.commit(staged)
    number = next(n for n in range(2) if words.reader(n).end_offset)
    for _ in range(2):
        assert words.reader(number).offset_at(3_000) == 0
        assert words.reader(number).offset_at(5_001) == 1
        words.log.fold()


@pytest.mark.spec("OBJ-33", "OBJ-16")
def test_what_nobody_commits_is_voided_when_it_is_old(words: Store) -> None:
    """Work of the last day stays, and all that counts; who comes later still is told."""
    abandoned = words.task(word("a", "1"))
    words.commit(words.task(word("b", "2")))
    assert words.log.vacuum() == 0
    assert len(words.names("data")) == 2
    assert words.log.vacuum(abandoned_after_ms=-1_000) == 1

    assert len(words.names("data")) == 1
    with pytest.raises(CommitConflictError, match="voided by a vacuum"):
        words.commit(abandoned)
    assert words.rows() == [(b"b", b"2")]
    assert words.commit(words.task(word("c", "3")))


@pytest.mark.spec("OBJ-33")
def test_what_is_voided_is_not_called_damaged(root: ss.StateRoot) -> None:
    """Rows that the committer stages once more are read by then, and may have been removed.

    The write was told that they are "damaged; put back an earlier version", if a vacuum or a
    reshard had come before it.
    """
    version = {"key": b"a", "value": b"1", "timestamp": 5}
    hit = {"key": b"a", "value": b"1", "window_start": 0, "sequence": None}
    for specification, row in ((RATES, version), (HITS, hit)):
        store = Store(root, specification, 1)
        abandoned = [store.task(row), store.task(row)]
        assert store.commit(store.task(row))
        assert (store.log.vacuum(abandoned_after_ms=-1_000) or 0) >= len(abandoned)
        with pytest.raises(CommitConflictError, match="voided by a vacuum, or the store has been"):
            store.commit(*abandoned)


@pytest.mark.spec("OBJ-32")
def test_closing_gives_the_partition_back(
    words: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So that writes may go on; not from the next owner, and a failure is told, not raised."""

    def opened(name: str) -> Any:
        return ss.open_logged_store(
            words.root, "words", 0, directory=tmp_path / name, backend="memory"
        )

    opened("a").close()
    assert words.commit(words.task(word("a", "1")), accept=lambda ends: None)
    before, after = opened("b"), opened("c")
    before.close()
    after.store.put(b"z", b"1")
    after.commit()
    after.close()
    assert (b"z", b"1") in words.rows()

    died = opened("d")

    def fails(*_: object) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(changelog, "give_back", fails)
    with caplog.at_level(logging.WARNING):
        died.close()
    assert "could not be given back (no answer)" in caplog.text
    with pytest.raises(StoreLockedError, match=r"release\(0\)"):
        words.commit(words.task(word("a", "2")), accept=lambda ends: None)
    words.log.release(0)
    assert words.commit(words.task(word("a", "2")), accept=lambda ends: None)
