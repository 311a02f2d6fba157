"""A store in other partitions: the same content, where readers and writers look for it."""

import random
from pathlib import Path

import pytest
from dictionary import SPECIFICATIONS, by_repr, positions
from stores_of_two import written_store

import statestores as ss
from statestores.changelog import ChangelogReader
from statestores.errors import (
    MissingDriverError,
)
from statestores.partitioning import partitioner_by_name
from statestores.registry import load_backend
from statestores.resharding import reshard
from statestores.state_root import StateRoot
from statestores.verification import verify

LITTLE_MEMORY = 20_000
"""So little that everything is spilled, in several runs and pieces."""

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.mark.spec("RSH-1", "RSH-2", "RSH-3", "RSH-5")
def test_the_content_is_that_of_a_dictionary_in_any_number_of_partitions(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """In one, three and 64 partitions and back, with writes in between, everything is as it was."""
    for kind in SPECIFICATIONS:
        with subtests.test(kind):
            _check_kind(tmp_path / kind, kind)


def _check_kind(root: Path, kind: str) -> None:
    random_source = random.Random(17)
    written = written_store(root, kind, random_source)
    for partitions in (1, 3, 7, 2):
        reshard(root, "kept", partitions, memory_bytes=LITTLE_MEMORY)

        assert written.shown() == by_repr(written.model.shown()), partitions
        if partitions < 10:
            written.put(random_source, 30)

            assert written.shown() == by_repr(written.model.shown()), partitions
    failures = [each for each in verify(root) if each.is_failure]

    assert failures == []


@pytest.mark.spec("RSH-1")
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "leveldb"])
def test_every_engine_is_made_anew(
    tmp_path: Path, random_source: random.Random, backend: str
) -> None:
    """An engine beside the old partitions, or elsewhere, is not needed, and a new one is made."""
    try:
        load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    written = written_store(
        tmp_path / "root", "versioned", random_source, backend=backend, count=60
    )
    reshard(tmp_path / "root", "kept", 3)
    written.put(random_source, 20)

    assert written.shown() == by_repr(written.model.shown())


@pytest.mark.soak
@pytest.mark.spec("RSH-1", "RSH-2")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_long_lives_with_many_reshards(tmp_path: Path, kind: str, seed: int) -> None:
    """The same for many contents and orders of numbers."""
    random_source = random.Random(seed)
    written = written_store(tmp_path / "root", kind, random_source, count=1_000)
    for partitions in random_source.choices([1, 2, 3, 5, 7, 64], k=8):
        reshard(tmp_path / "root", "kept", partitions, memory_bytes=LITTLE_MEMORY)

        assert written.shown() == by_repr(written.model.shown()), partitions
        written.put(random_source, 100, keys=200)

        assert written.shown() == by_repr(written.model.shown()), partitions


@pytest.mark.spec("RSH-2")
def test_each_key_is_where_its_partitioner_looks(
    tmp_path: Path, random_source: random.Random
) -> None:
    """By the engine of the one partition that the partitioner names."""
    written = written_store(tmp_path / "root", "crc32", random_source)
    reshard(tmp_path / "root", "kept", 5)
    partitioner = partitioner_by_name("crc32")
    for key, value in written.model.shown():
        place = partitioner.partition(key, 5)
        with ss.open_logged_store(tmp_path / "root", "kept", place, backend="memory") as opened:
            assert opened.store.get(key) == value


@pytest.mark.spec("RSH-4", "RSH-6")
def test_logs_begin_after_everything_that_was_and_keep_the_position(
    tmp_path: Path, random_source: random.Random
) -> None:
    """An offset of before is none of now, and the input is read on where it was."""
    root = tmp_path / "root"
    written_store(root, "key-value", random_source)
    state = StateRoot.open(root)
    before, ends = positions(root), []
    for number in range(2):
        with ChangelogReader.open(state.partition("kept", number).changelog, "key-value") as log:
            ends.append(log.end_offset)
    done = reshard(root, "kept", 3)

    assert done.offset == max(ends)
    least = {p: min(each[p] for each in before) for p in before[0]}
    assert positions(root) == [least] * 3
    assert done.behind == (ss.TopicPartition("input", 0),)
    state = StateRoot.open(root)
    for number in range(3):
        with ChangelogReader.open(state.partition("kept", number).changelog, "key-value") as log:
            assert (log.first_offset, log.end_offset) == (max(ends) + 1, max(ends) + 1)
        with ss.open_logged_store(root, "kept", number, backend="memory") as opened:
            assert opened.next_offset(ss.TopicPartition("input", 0)) == min(least.values()) + 1


@pytest.mark.spec("RSH-6")
def test_an_engine_elsewhere_that_is_from_before_is_made_anew(tmp_path: Path) -> None:
    """Its rows would be those of other keys: no offset that it has is one of the new changelog."""
    root, local = tmp_path / "root", tmp_path / "local"
    StateRoot.create(root).add_store(ss.KeyValue("kept"), partitions=2)
    partitioner = partitioner_by_name("murmur2")
    for number in range(100):
        key = b"%d" % number
        place = partitioner.partition(key, 2)
        with ss.open_logged_store(
            root, "kept", place, backend="sqlite", directory=local / str(place)
        ) as opened:
            opened.store.put(key, key)
            opened.commit()
    reshard(root, "kept", 3)
    found = []
    for place in range(3):
        with ss.open_logged_store(
            root, "kept", place, backend="sqlite", directory=local / str(place)
        ) as opened:
            found += [(key, place) for key, _ in opened.store.range()]

    assert sorted(found) == sorted(
        (key, partitioner.partition(key, 3)) for key in (b"%d" % number for number in range(100))
    )
