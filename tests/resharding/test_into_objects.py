"""Reshards into state roots in object stores, from directories and from object stores."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from dictionary import RETENTION_MS, SPECIFICATIONS, Written, by_repr, shown
from in_memory import done_twice, new_url

import statestores as ss
from statestores.errors import (
    CommitInDoubtError,
    InvalidArgumentError,
    MisplacedKeyError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.failpoints import arm, disarm
from statestores.object_log.documents import Batch
from statestores.object_log.driver import run
from statestores.object_log.writes import commit_staged
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import plan_reshard, reshard
from statestores.state_root import StateRoot
from statestores.storage import Found, Outcome, open_storage
from statestores.storage.obstore_driver import ObstoreStorage
from statestores.verification import verify


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


def everything(url: str) -> dict[str, bytes]:
    """Return all objects of a root."""
    storage = open_storage(url)
    found = {each.name: storage.read(each.name) for each in storage.list("")}
    return {name: each.data for name, each in found.items() if isinstance(each, Found)}


@pytest.mark.spec("RSH-1", "RSH-2", "RSH-4", "RSH-5", "RSH-20", "RSH-22")
def test_the_content_is_that_of_a_dictionary_wherever_it_goes(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """For every kind: a directory, two object stores, and a directory again, written in between."""
    for kind, specification in SPECIFICATIONS.items():
        with subtests.test(kind):
            source, place = random.Random(17), tmp_path / kind / "first"
            StateRoot.create(place).add_store(specification, partitions=2)
            written = Written(place, specification, "memory")
            written.put(source, 25)
            steps: tuple[tuple[Path | str, int, bool], ...] = (
                (new_url(), 3, False),
                (new_url(), 3, True),
                (tmp_path / kind / "last", 2, False),
            )
            for to, partitions, by_tasks in steps:
                kept, before = written.root, written.shown()
                each = done_twice if by_tasks else None
                done = reshard(kept, "kept", partitions, to=to, memory_bytes=20_000, each=each)
                assert done.partitions == partitions
                assert shown(kept, specification) == before
                written.root = to
                written.engines = None if isinstance(to, Path) else tmp_path / kind / to[9:]
                assert written.shown() == by_repr(written.model.shown())
                written.put(source, 12)

                assert written.shown() == by_repr(written.model.shown())
                assert [each for each in verify(to) if each.is_failure] == []


@pytest.mark.spec("RSH-4", "RSH-10", "RSH-22", "OBJ-18")
def test_it_is_a_log_of_its_own_behind_all_that_was(tmp_path: Path) -> None:
    """Positions and batches of streams come along; those of operators, which stay, do not."""
    url, to = new_url(), new_url()
    root = StateRoot.create(url)
    root.add_store(ss.KeyValue("kept"), partitions=2)
    with ss.open_logged_store(root, "kept", 0, backend="memory", directory=tmp_path) as opened:
        opened.store.put(b"a", b"v")
        opened.commit({ss.TopicPartition("input", 0): 4})
    log = root.object_log("kept")
    for number, stream in enumerate(("s", "@stateful/words", "@stateful/words/fence")):
        batch = Batch(stream, number)
        assert run(commit_staged(log.names, f"w{number}", {}, batch=batch), log.storage) == {}
    done = reshard(url, "kept", 3, to=to)
    copy = StateRoot.open(to)

    assert copy.object_log("kept").view([0]).batches == {"s": 0}
    assert copy.object_log("kept").log_id() != log.log_id()
    reader = PartitionReader(place_of(copy, "kept", 1), copy.store("kept").specification)
    assert done.offset is not None
    assert (reader.beginning.offset, reader.end_offset) == (done.offset + 1, done.offset + 1)
    assert done.position == reader.position == {ss.TopicPartition("input", 0): 4}
    assert copy.add_store(ss.KeyValue("kept"), partitions=3) == copy.store("kept")
    # What is done in place goes on from there.
    assert reshard(to, "kept", 2).partitions == 2
    assert reshard(to, "kept", 3).partitions == 3
    assert [row[0] for row in shown(to, ss.KeyValue("kept"))] == [b"a"]


@pytest.mark.spec("RSH-9", "RSH-11", "RSH-12", "RSH-14", "RSH-22")
def test_what_is_refused_leaves_nothing_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Neither a state root where there was none, nor an object in one that there was."""
    misplaced, expiring, others = tmp_path / "misplaced", tmp_path / "expiring", new_url()
    StateRoot.create(misplaced).add_store(ss.KeyValue("kept"), partitions=3)
    with ss.open_logged_store(misplaced, "kept", 2) as opened:
        opened.store.put(b"last", b"v")
        opened.commit()
    StateRoot.create(expiring).add_store(SPECIFICATIONS["window"], partitions=2)
    for place, key, time_ms in ((0, b"k5", 100), (1, b"k0", 100 + 2 * RETENTION_MS)):
        with ss.open_logged_store(expiring, "kept", place, backend="memory") as window:
            window.store.put(key, b"v", time_ms)
            window.commit()
    StateRoot.create(others).add_store(ss.KeyValue("other"), partitions=1)
    for source, error in ((misplaced, MisplacedKeyError), (expiring, StoreMismatchError)):
        for to in (new_url(), others):
            with subtests.test(error.__name__, to=to):
                before = everything(to)
                with pytest.raises(error):
                    reshard(source, "kept", 1 if source == expiring else 2, to=to)
                assert everything(to) == before
    with subtests.test("there is one"):
        StateRoot.open(others).add_store(ss.KeyValue("kept"), partitions=1)
        before = everything(others)
        with pytest.raises(StoreMismatchError, match="'kept' already; reshard into another"):
            reshard(misplaced, "kept", 2, to=others)
        assert everything(others) == before
    for to, message in ((others, "is the state root"), (f"{others}/kept/x", "is inside it")):
        with subtests.test(message), pytest.raises(InvalidArgumentError, match=message):
            reshard(others, "kept", 2, to=to)
    with subtests.test("options"), pytest.raises(InvalidArgumentError, match="to is none"):
        reshard(misplaced, "kept", 2, to=tmp_path / "to", to_storage_options={})
    assert plan_reshard(misplaced, "kept", 2, to=new_url()).before == 3


@pytest.mark.spec("RSH-11", "RSH-22")
def test_who_comes_second_is_refused_and_who_dies_leaves_nothing_that_counts(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that bring a store, or add one, one has the name. What dies goes with the next."""
    source, specification = tmp_path / "root", ss.KeyValue("kept")
    StateRoot.create(source).add_store(specification, partitions=2)
    Written(source, specification, "memory").put(random.Random(17), 20)
    rows = shown(source, specification)

    def die() -> None:
        raise KeyboardInterrupt

    def come_first(other: Callable[[str], object], to: str) -> None:
        disarm()
        other(to)

    with subtests.test("dies"):
        to = new_url()
        for _ in range(2):
            arm("reshard.built", die, at=1)
            monkeypatch.setattr("statestores.resharding.into_objects.remove_made", lambda _: None)
            with pytest.raises(KeyboardInterrupt):
                reshard(source, "kept", 3, to=to)
            monkeypatch.undo()
            disarm()
            with pytest.raises(StoreNotFoundError):
                StateRoot.open(to)
        reshard(source, "kept", 3, to=to)
        assert shown(to, specification) == rows
        assert len({name.split("/")[2] for name in everything(to) if name[:5] == "kept/"}) == 1
    others: tuple[Callable[[str], object], ...] = (
        lambda to: reshard(source, "kept", 4, to=to),
        lambda to: StateRoot.create(to).add_store(specification, partitions=4),
    )
    for number, other in enumerate(others):
        with subtests.test("second", number=number):
            to = new_url()
            arm("reshard.built", partial(come_first, other, to), at=1)
            with pytest.raises(StoreMismatchError, match="'kept' already"):
                reshard(source, "kept", 3, to=to)
            assert StateRoot.open(to).store("kept").partitions == 4
            assert shown(to, specification) == ([] if number else rows)
    with subtests.test("no answer"):
        to = new_url()
        storage = type(open_storage(to))
        answered = storage.create

        def lost(self: object, name: str, data: bytes) -> Outcome:
            return Outcome.UNKNOWN if name == "statestores.json" else answered(self, name, data)  # type: ignore[arg-type]

        monkeypatch.setattr(storage, "create", lost)
        with pytest.raises(CommitInDoubtError, match="nobody can tell whether"):
            reshard(source, "kept", 3, to=to)
        assert any(name.endswith("/checkpoint") for name in everything(to))


@pytest.mark.spec("RSH-23")
def test_a_copy_that_was_resharded_at_once_keeps_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the put by which the copy counts was lost, and somebody resharded it.

    The copy then took the store for another one of the name, said so, and removed what it had made,
    the end of the log that had counted with it: no vacuum got past that any more.
    """
    to = new_url()
    StateRoot.create(to)
    root = StateRoot.create(tmp_path / "source")
    root.add_store(ss.KeyValue("kept"), partitions=1)
    replace = ObstoreStorage.replace
    lost: list[str] = []

    def lose_one(storage: ObstoreStorage, name: str, data: bytes, tag: str) -> Outcome:
        outcome = replace(storage, name, data, tag)
        if name == "statestores.json" and not lost:
            lost.append(name)
            reshard(to, "kept", 3)
            return Outcome.UNKNOWN
        return outcome

    monkeypatch.setattr(ObstoreStorage, "replace", lose_one)

    assert reshard(root, "kept", 2, to=to).partitions == 2
    assert lost
    assert StateRoot.open(to).store("kept").partitions == 3
    assert StateRoot.open(to).object_log("kept").vacuum() is not None
    assert [each for each in verify(to) if each.is_failure] == []
