"""When an engine gets the commits that wait for it, and who waits for whom meanwhile."""

import os
from collections.abc import Iterable
from os import PathLike
from threading import Thread

import pytest

from statestores.semantics.every_kind import deferring_engine
from statestores.semantics.every_kind.deferring_engine import DeferringEngine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spi import Durability, KeyValue, WriteBatch
from statestores_memory.engine import MemoryEngine

CRASH = Durability.PROCESS_CRASH
COMMITS, ROWS, PUT_BYTES = 5, 30, 100


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have little wait, so that all bounds are met."""
    monkeypatch.setattr(deferring_engine, "MOST_COMMITS", COMMITS)
    monkeypatch.setattr(deferring_engine, "MOST_ROWS", ROWS)
    monkeypatch.setattr(deferring_engine, "MOST_BYTES", PUT_BYTES)


class _Behind(MemoryEngine):
    """The engine behind: it remembers what it was given."""

    taken: list[object]

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        self.taken.append(batch)

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.taken.append(list(pairs))

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.taken.append(os.fspath(path))


@pytest.fixture
def behind() -> _Behind:
    """Return an engine that was given nothing."""
    engine = _Behind.open("")
    engine.taken = []
    return engine


def some_rows(count: int, first: int = 0) -> dict[bytes, bytes | None]:
    """Return so many rows, with other keys for another *first*."""
    return {b"%d" % number: b"" for number in range(first, first + count)}


@pytest.mark.spec("LGS-15")
@pytest.mark.parametrize(
    ("commits", "waiting"),
    [
        ([(1, 1)] * COMMITS, COMMITS),
        ([(1, 1)] * (COMMITS + 1), 1),
        ([(1, 50), (1, 50)], 2),
        ([(1, 50), (1, 50), (1, 1)], 1),
        ([(1, 51), (1, 50)], 1),
        ([(1, 100)], 1),
        ([(1, 101)], 0),
        ([(30, 1)], 1),
        ([(31, 1)], 0),
        ([(15, 1), (15, 1)], 2),
        ([(15, 1), (16, 1)], 1),
        ([(10, 1), (10, 1), (10, 1), (1, 1)], 1),
    ],
)
def test_as_much_waits_as_may(
    behind: _Behind, commits: list[tuple[int, int]], waiting: int
) -> None:
    """Not a commit, a byte or a row more, which is memory; nor less, which is time.

    Each commit is its rows, with keys of its own, and the bytes that were put for it.
    """
    engine = DeferringEngine(behind)
    for number, (rows, put_bytes) in enumerate(commits):
        engine.defer(some_rows(rows, 100 * number), put_bytes)
    written = sum(rows for rows, _ in commits[: len(commits) - waiting])

    assert len(list(behind.scan(b""))) == written
    assert len(behind.taken) == (1 if written else 0)
    engine.close()


@pytest.mark.spec("LGS-15")
def test_rows_that_are_changed_again_are_one_row_each(behind: _Behind) -> None:
    """They are joined before they are written for want of room: the same rows wait on."""
    engine = DeferringEngine(behind)
    for _ in range(4):
        engine.defer(some_rows(10), 1)
    before = list(behind.taken)
    engine.defer(some_rows(21, 100), 1)

    assert (before, behind.taken) == ([], [some_rows(10)])
    engine.close()


@pytest.mark.spec("LGS-15")
def test_a_commit_that_waited_alone_is_not_copied(behind: _Behind) -> None:
    """There is nothing to be joined, and its rows are as many as a commit may have."""
    engine = DeferringEngine(behind)
    rows = some_rows(ROWS)
    engine.defer(rows, 1)
    engine.write_waiting()

    assert [each is rows for each in behind.taken] == [True]
    engine.close()


@pytest.mark.spec("LGS-15")
def test_few_layers_are_not_joined(behind: _Behind) -> None:
    """Joining takes a commit longer than it takes a read to look into two."""
    engine = DeferringEngine(behind)
    for number in range(2):
        engine.defer(some_rows(1, number), 1)

    assert engine.get_many([b"0", b"1", b"2"]) == [b"", b"", None]
    assert len(engine._waiting.layers) == 2  # nothing else shows it
    engine.close()


@pytest.mark.spec("LGS-15")
def test_a_read_of_keys_waits_for_no_write(behind: _Behind) -> None:
    """What waits is joined by whoever has the time: a write takes as long as the disk does."""
    engine = DeferringEngine(behind)
    for number in range(4):
        engine.defer(some_rows(1, number), 1)
    found: list[list[bytes | None]] = []
    reader = Thread(target=lambda: found.append(engine.get_many([b"3", b"4"])), daemon=True)
    with engine._lock:
        reader.start()
        reader.join(10)
        in_time = list(found)
    reader.join()

    assert in_time == [[b"", None]]
    engine.close()


@pytest.mark.spec("LGS-15", "ENG-35")
def test_what_waits_is_there_before_rows_are_loaded_or_files_copied(behind: _Behind) -> None:
    """A copy without it would lack commits; rows that are loaded would come before it."""
    engine = DeferringEngine(behind)
    engine.defer(some_rows(1), 1)
    engine.ingest([(b"z", b"")])
    engine.defer(some_rows(2), 1)
    engine.checkpoint("elsewhere")

    assert behind.taken == [some_rows(1), [(b"z", b"")], some_rows(2), "elsewhere"]
    engine.close()


@pytest.mark.spec("LGS-15")
def test_it_is_called_as_the_engine_behind(behind: _Behind) -> None:
    """Whoever asks for a name, or for what is promised, means that one."""
    engine = DeferringEngine(behind)
    assert (engine.name, engine.capabilities) == (behind.name, behind.capabilities)
    assert engine.behind is behind
    with pytest.raises(NotImplementedError):
        DeferringEngine.open("")
    engine.close()


@pytest.mark.spec("LGS-15")
def test_a_close_after_the_engine_behind_was_closed_writes_nothing(behind: _Behind) -> None:
    """What waits is in the log, and the next opening replays it."""
    engine = DeferringEngine(behind)
    engine.defer(some_rows(1), 1)
    behind.close()
    engine.close()

    assert behind.taken == []


@pytest.mark.spec("ENG-43")
def test_a_forked_child_waits_for_no_thread_of_its_parent(
    behind: _Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that had the lock is not there; what it was writing is written again."""
    renewed: list[object] = []
    monkeypatch.setattr(deferring_engine, "renew_after_fork", renewed.append)
    engine = DeferringEngine(behind)
    engine.defer(some_rows(1), 1)
    engine._lock.acquire()
    engine.renew_after_fork()  # as the child does
    engine.write_waiting()

    assert renewed == [engine]
    assert behind.taken == [some_rows(1)]
    engine.close()


@pytest.mark.spec("LGS-15")
def test_a_copy_of_the_engine_is_opened_as_the_engine_behind(behind: _Behind) -> None:
    """What defers has no files: a snapshot that has the engine's is of the engine behind."""
    deferring = EngineKeyValueStore(DeferringEngine(behind), KeyValue("counts"), CRASH)
    plain = EngineKeyValueStore(MemoryEngine.open(""), KeyValue("counts"), CRASH)
    deferring.close()
    plain.close()

    assert (deferring.engine_class, plain.engine_class) == (_Behind, MemoryEngine)
