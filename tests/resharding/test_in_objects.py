"""Reshards in place on state roots in object stores."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from command_line import invoke
from dictionary import RETENTION_MS, SPECIFICATIONS, Written, by_repr, shown
from in_memory import INPUT, done_twice, names_in, new_url, owner, put

import statestores as ss
from statestores.errors import (
    CommitConflictError,
    OffsetOutOfRangeError,
    StorageError,
    StoreMismatchError,
    StoreReshardedError,
    UnsupportedFormatError,
)
from statestores.failpoints import arm, disarm
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.documents import Batch, End, unpack_root_entry
from statestores.object_log.driver import run
from statestores.object_log.generations.ending import find_end
from statestores.object_log.writes import commit_staged
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import ObjectPartition, place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.root_document import stores_in
from statestores.state_root import StateRoot
from statestores.storage import open_storage
from statestores.tasks.copying.object_source import ObjectSource
from statestores.verification import verify

T = TypeVar("T")
LITTLE_MEMORY = 20_000
_GENERATION = b'"generation":"00000000000000000004-ab"'
_GOLDEN_END = (
    b'72750a90\n{"before":2,"format":1,%b,"kind":"end","next":1004,"partitions":3}' % _GENERATION
)
_GOLDEN_CHECKPOINT = (
    b'2e067ffb\n{"batches":{"s":4},"begun":1004,"format":1,"former":[""],%b,"id":"c",'
    b'"kind":"checkpoint","log":"l","next":1004,"parts":{"0":{"begin":12,"closed":[],'
    b'"closed_from":1004,"end":12,"grant":null,"number":0,"owner":null,"position":[["in",0,7]],'
    b'"segments":[]}},"store_kind":"key-value","void_before":1004,"writes":[],"writes_from":1004}'
) % _GENERATION


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


@pytest.mark.spec("RSH-1", "RSH-2", "RSH-3", "RSH-4", "RSH-5", "RSH-18", "RSH-20", "OBJ-49")
def test_the_content_is_that_of_a_dictionary_and_engines_are_made_anew(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """For every kind, in one, three and two partitions, with writes in between, also by tasks.

    The engines on the local disk stay where they are: they are of the same log, and behind it.
    """
    for kind, specification in SPECIFICATIONS.items():
        with subtests.test(kind):
            source, place = random.Random(17), new_url()
            StateRoot.create(place).add_store(specification, partitions=2)
            written = Written(place, specification, "sqlite", tmp_path / kind)
            written.put(source, 40)
            for partitions, each in ((1, None), (3, done_twice), (2, done_twice)):
                reshard(place, "kept", partitions, memory_bytes=LITTLE_MEMORY, each=each)
                assert written.shown() == by_repr(written.model.shown())
                written.put(source, 12)
                assert written.shown() == by_repr(written.model.shown())
            state = StateRoot.open(place)
            log, needs = state.object_log("kept"), ("history_retention_ms", "retention_ms")
            log.compact(**{name: getattr(specification, name, None) for name in needs})
            log.vacuum()

            assert written.shown() == by_repr(written.model.shown())
            assert [each for each in verify(place) if each.is_failure] == []
            assert [name for name in names_in(state, "kept/") if "/scratch/" in name] == []
            written.put(source, 10)
            assert written.shown() == by_repr(written.model.shown())


class _Tasks:
    """Tasks whose first attempts die half-way, or are late; and what they have put, once read."""

    def __init__(self, root: StateRoot) -> None:
        self.root = root
        self.late: list[Callable[[], object]] = []
        self.sizes: list[int] = []
        self.harm: Callable[[str], None] | None = None

    def __call__(self, work: Sequence[Callable[[], T]]) -> Iterator[T]:
        storage = self.root.storage
        assert storage is not None
        found = [each for each in storage.list("kept/") if "/scratch/" in each.name]
        self.sizes += [each.size for each in found]
        if found and self.harm is not None:
            for piece in found:
                self.harm(piece.name)
        for each in work:
            arm("objects.reshard.exchanged", _die, at=2)
            with suppress(KeyboardInterrupt):
                each()
            disarm()
            yield each()
        self.late += work

    def passing(self) -> list[str]:
        """Return the objects in which rows pass."""
        return [name for name in names_in(self.root, "kept/") if "/scratch/" in name]


def _die() -> None:
    raise KeyboardInterrupt


@pytest.mark.spec("RSH-9", "RSH-13", "RSH-20", "OBJ-48", "OBJ-50")
def test_rows_that_pass_as_objects_count_once_and_go(
    root: StateRoot, url: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """What attempts leave that die half-way or come late is not read, and what is read is whole."""
    tasks, source, large = _Tasks(root), random.Random(17), 20_000
    with owner(root, 0, tmp_path / "0") as opened:
        opened.store.put(b"a", source.randbytes(large))
        for number in range(40):
            opened.store.put(next(_keys_of_0(number)), source.randbytes(200))
        opened.commit()
    before = shown(url, ss.KeyValue("kept"))
    storage, log = root.storage, root.object_log("kept")
    assert storage is not None

    def flip(name: str) -> None:
        found: Any = storage.read(name)
        storage.replace(name, found.data[:-9] + b"?" + found.data[-8:], found.tag)

    def shorten(name: str) -> None:
        found: Any = storage.read(name)
        storage.replace(name, found.data[:-9], found.tag)

    for harm, message in ((storage.delete, "is gone"), (flip, "damaged"), (shorten, "damaged")):
        with subtests.test(message):
            tasks.harm = harm
            with pytest.raises(StorageError, match=message):
                reshard(StateRoot.open(url), "kept", 3, memory_bytes=LITTLE_MEMORY, each=tasks)
            assert names_in(root, log.names.generations) == []
            assert shown(url, ss.KeyValue("kept")) == before
    with subtests.test("late"):
        tasks.harm, tasks.late, tasks.sizes = None, [], []
        state = StateRoot.open(url)
        reshard(state, "kept", 3, keep_old=True, memory_bytes=LITTLE_MEMORY, each=tasks)
        assert tasks.passing() == []
        limit = LITTLE_MEMORY // 8
        assert all(size <= limit or size > large for size in tasks.sizes)
        assert len(tasks.sizes) > 6
        tasks.late[0]()
        assert tasks.passing()
        assert StateRoot.open(url).object_log("kept").vacuum()
        assert tasks.passing() == []
        assert shown(url, ss.KeyValue("kept")) == before
    with subtests.test("expired"):
        place, window = new_url(), SPECIFICATIONS["window"]
        state = StateRoot.create(place)
        state.add_store(window, partitions=2)
        for number, key, time_ms in ((0, b"k5", 100), (1, b"k0", 100 + 2 * RETENTION_MS)):
            with owner(state, number, tmp_path / f"w{number}") as opened:
                opened.store.put(key, b"v", time_ms)
                opened.commit()
        # The first attempt has put the snapshot, and the second one reads nothing.
        with pytest.raises(StoreMismatchError, match="1 rows of 'kept' live in a partition"):
            reshard(place, "kept", 1, each=done_twice)
        assert reshard(place, "kept", 1, each=done_twice, drop_expired=True).expired == 1


def _keys_of_0(number: int) -> Iterator[bytes]:
    """Yield keys that belong to partition 0 of two."""
    place = partitioner_by_name("murmur2")
    keys = (b"%d-%d" % (number, again) for again in itertools.count())
    return (key for key in keys if place.partition(key, 2) == 0)


@pytest.mark.spec("RSH-4", "RSH-6", "RSH-7", "RSH-10", "OBJ-46", "OBJ-48", "OBJ-49")
def test_who_has_it_open_is_told_or_goes_on(root: StateRoot, url: str, tmp_path: Path) -> None:
    """Readers of the old log read on as long as it is there, and nobody writes it again."""
    put(root, tmp_path / "0", b"a", b"a")
    old = StateRoot.open(url)
    log, specification = old.object_log("kept"), old.store("kept").specification
    applied = run(commit_staged(log.names, "w", {}, batch=Batch("s", 4)), log.storage)
    assert applied == {}
    place = ObjectPartition(log, 0, log.view([0]).of(0), pinned=True)
    pinned, live = (
        PartitionReader(place, specification),
        PartitionReader(place_of(old, "kept", 0), specification),
    )
    copied = ObjectSource(log, 0)
    assert copied.lag(0).end_offset == live.end_offset == 2
    staged = log.begin_write("late")
    done = reshard(root, "kept", 3, keep_old=True)

    assert done.offset == 2
    assert done.position == {INPUT: 1}
    assert sum(batch.num_rows for batch in pinned.rows()) == 1
    for refused in (
        lambda: live.end_offset,
        lambda: copied.lag(0),
        lambda: owner(old, 0, tmp_path / "old"),
        log.fold,
        log.vacuum,
        lambda: log.release(0),
        lambda: log.begin_write("x"),
        lambda: run(commit_staged(log.names, "x", {}, batch=Batch("s", 5)), log.storage),
    ):
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            refused()
    # What was staged for the old log, and is committed to where the store is by now.
    new = StateRoot.open(url).object_log("kept")
    with pytest.raises(CommitConflictError, match="stage it anew"):
        run(commit_staged(new.names, staged, {0: ()}), new.storage)
    assert new.view([0]).batches == {"s": 4}
    assert new.log_id() == old.object_log("kept").log_id()
    reader = PartitionReader(place_of(StateRoot.open(url), "kept", 0), specification)
    assert (reader.beginning.offset, reader.end_offset) == (3, 3)
    with pytest.raises(OffsetOutOfRangeError, match="has been resharded"):
        list(reader.changes(0))
    with pytest.raises(OffsetOutOfRangeError):
        list(reader.rows(offset=0))
    # Now the old log goes: what is left of it is its end, a checkpoint, and the seals of owners.
    assert new.vacuum()
    left = [each for each in names_in(root, "kept/") if "/generations/" not in each]
    assert [each.split("/")[1] for each in left] == ["checkpoint", "own", "root"]
    with pytest.raises(StoreReshardedError):
        list(pinned.rows())
    with pytest.raises(StoreReshardedError):
        owner(old, 0, tmp_path / "old")
    assert new.vacuum() == 0
    # Without the snapshots that it began with, the store is not taken for an empty one.
    for name in names_in(root, new.names.all_snapshots):
        new.storage.delete(name)
    for number in range(3):
        reader = PartitionReader(place_of(StateRoot.open(url), "kept", number), specification)
        with pytest.raises(OffsetOutOfRangeError, match="begins at offset 3"):
            list(reader.rows())
        with pytest.raises(OffsetOutOfRangeError, match="begins at 3"):
            owner(StateRoot.open(url), number, tmp_path / f"new{number}")


@pytest.mark.spec("RSH-13", "OBJ-47")
def test_the_root_says_where_to_look(root: StateRoot, url: str, tmp_path: Path) -> None:
    """A reshard that dies right behind its commit point has nobody read the old log.

    Adding a store, or the next reshard, notes it; and an earlier release refuses the root.
    """
    put(root, tmp_path / "0", b"a")

    def die() -> None:
        raise KeyboardInterrupt

    def noted() -> int:
        found = open_storage(url).read("statestores.json")
        return int(found.data.split(b'"format": ')[1][:1])  # type: ignore[union-attr]

    for failpoint, partitions in (("objects.reshard.announced", 2), ("objects.reshard.ended", 3)):
        arm(failpoint, die, at=1)
        with pytest.raises(KeyboardInterrupt):
            reshard(url, "kept", 3)
        disarm()
        assert noted() == 3
        assert StateRoot.open(url).store("kept").partitions == partitions
    # What a release has put reads the same for ever.
    end = unpack_root_entry(_GOLDEN_END, "here")
    next_log = Checkpoint.unpack(_GOLDEN_CHECKPOINT, "here")
    assert isinstance(end, End)
    assert (end.pack(), next_log.pack()) == (_GOLDEN_END, _GOLDEN_CHECKPOINT)
    assert (end.generation, end.next) == (next_log.generation, next_log.begun)
    assert (next_log.part(0).begin, next_log.former) == (12, ("",))
    with pytest.raises(UnsupportedFormatError, match="format 4"):
        stores_in(_Later(), "here")  # type: ignore[arg-type]
    assert run(find_end(root.object_log("kept").names), open_storage(url)) is not None
    StateRoot.open(url).add_store(ss.KeyValue("more"), partitions=1)
    entry = StateRoot.open(url).store("kept")
    assert (entry.partitions, entry.generation, entry.may_have_ended) == (3, 1, False)
    done = invoke("reshard", url, "kept", "--partitions", 3, "--json")
    assert (done.exit_code, json.loads(done.stdout)["offset"]) == (0, None)
    assert names_in(root, "kept/own/0/")[1:] == []
    assert invoke("reshard", url, "kept", "--partitions", 2).exit_code == 0
    assert StateRoot.open(url).store("kept").partitions == 2
    assert [row[0] for row in shown(url, ss.KeyValue("kept"))] == [b"a"]


class _Later:
    """What a later release has written."""

    def integer(self, name: str) -> int:
        return 4
