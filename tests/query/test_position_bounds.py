"""What a query knows of the inputs that it reflects: positions by partition, and bounds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    NotUpToBoundError,
)
from statestores.partitioning import murmur2_partitioner
from statestores.query import QueryableStores, key_value_store
from statestores.spi.offsets import Position
from statestores.spi.stores.store import Isolation
from statestores.tasks import TaskId, TaskManager

PARTITIONS = 3
SHARED = ss.TopicPartition("in", 0)
WORDS = {
    number: next(
        word
        for word in map(str, range(100))
        if murmur2_partitioner.partition(word.encode(), PARTITIONS) == number
    )
    for number in range(PARTITIONS)
}
"""A word for each partition."""


@pytest.mark.spec("QRY-8")
def test_a_position_never_says_more_than_the_partition_that_has_least(tmp_path: Path) -> None:
    """A user asked whether record 10 of the input had arrived, was told so, and did not find it.

    One partition had taken offset 10 of the input and the other offset 5, and the composite store
    answered with the higher of both. Now its position is the least, an input that a partition has
    seen nothing of is left out, and the positions by partition are there to be asked.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    alone = ss.TopicPartition("alone", 0)
    with TaskManager(root, {0: ["counts"]}, backend="memory") as manager:
        manager.assign([TaskId(0, 0), TaskId(0, 1)])
        for partition, position in ((0, {SHARED: 10, alone: 3}), (1, {SHARED: 5})):
            task = manager.task(TaskId(0, partition))
            task.store("counts").put("a", 1)
            task.commit(position)
        stores = QueryableStores(manager)
        counts = stores.store("counts", key_value_store())

        assert counts.position == Position({SHARED: 5})
        assert stores.positions("counts") == {
            0: Position({SHARED: 10, alone: 3}),
            1: Position({SHARED: 5}),
        }
        assert stores.store("counts", key_value_store(), partition=0).position == Position(
            {SHARED: 10, alone: 3}
        )


@pytest.mark.spec("QRY-8")
def test_an_offset_that_several_partitions_have_committed_is_the_least(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """It was the highest: the same early yes. Of a changelog only one partition has committed."""
    members = open_members(kinds[0].specification)
    changelog = ss.TopicPartition("s-changelog", 1)
    members.stores[1].commit({SHARED: 7, changelog: 40})
    members.stores[2].commit({SHARED: 4})
    store = members.queries.store("s", kinds[0].type)

    assert store.committed_offset(SHARED) == 4
    assert store.committed_offset(changelog) == 40


@pytest.mark.spec("QRY-9")
def test_every_read_of_every_kind_keeps_to_the_bound(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """A partition that lacks the input, or part of it, is an error that names it, never content."""
    for kind in kinds:
        members = open_members(kind.specification)
        for number, offset in enumerate((10, 9, None)):
            kind.put(members.stores[number], WORDS[number], number)
            members.commit(number, {} if offset is None else {SHARED: offset})
        bounded = members.queries.store("s", kind.type, at_least=Position({SHARED: 10}))
        for name, read in kind.one_key.items():
            assert read(bounded, WORDS[0]) is not None, (kind.name, name)
            for number, has in ((1, "offset 9"), (2, "nothing")):
                with pytest.raises(
                    NotUpToBoundError,
                    match=rf"partition {number} of 's' has {has} of in-0, and offset 10",
                ) as caught:
                    read(bounded, WORDS[number])
                assert caught.value.retryable
        for name, read in kind.all_keys.items():
            with pytest.raises(NotUpToBoundError, match="partition 1 of 's'"):
                read(bounded, "")
            members.here = {0}
            assert read(bounded, "") is not None, (kind.name, name)
            members.here = {0, 1, 2}
        members.commit(1, {SHARED: 10})
        members.commit(2, {SHARED: 12})
        for read in (*kind.one_key.values(), *kind.all_keys.values()):
            assert read(bounded, WORDS[2]) is not None


@pytest.mark.spec("QRY-9")
def test_each_partition_can_have_a_bound_of_its_own(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """Inputs are often split like the store: partition 1 never sees the first partition's input.

    Such a bound is a mapping, and what one query has read is the bound of the next.
    """
    kind = kinds[0]
    members = open_members(kind.specification)
    inputs = [ss.TopicPartition("in", number) for number in range(PARTITIONS)]
    for number, source in enumerate(inputs):
        kind.put(members.stores[number], WORDS[number], number)
        members.commit(number, {source: 5})
    queries = members.queries
    seen = queries.positions("s")

    assert len(list(queries.store("s", kind.type, at_least=seen).range())) == PARTITIONS
    later = {2: Position({inputs[2]: 6})}
    bounded = queries.store("s", kind.type, at_least=later)
    assert bounded.get(WORDS[1]) == 1
    with pytest.raises(NotUpToBoundError, match="partition 2 of 's' has offset 5 of in-2"):
        list(bounded.range())
    everywhere = queries.store("s", kind.type, at_least=Position({inputs[0]: 5}))
    assert everywhere.get(WORDS[0]) == 0
    with pytest.raises(NotUpToBoundError, match="partition 1 of 's' has nothing of in-0"):
        everywhere.get(WORDS[1])


@pytest.mark.spec("QRY-9")
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "leveldb", "sqlite"])
def test_position_and_content_are_of_one_commit(
    open_members: Callable[..., Any], kinds: Any, backend: str
) -> None:
    """The writer empties the store, position included, between the judgement and the read.

    What is read is the commit that was judged. Two reads one after the other would have said that
    the bound is reached, and have given the content of a store that has not reached it.
    """
    for kind in kinds:
        members = open_members(kind.specification, backend)
        for number, word in WORDS.items():
            kind.put(members.stores[number], word, 0)
            members.commit(number, {SHARED: 10})
        for name, read in {**kind.one_key, **kind.all_keys}.items():
            expected = read(members.queries.store("s", kind.type), WORDS[0])
            bounded = members.queries.store("s", kind.type, at_least=Position({SHARED: 10}))
            untouched = dict(members.facades)
            for number, store in members.stores.items():
                members.facades[number] = _Truncating(untouched[number], store).facade

            assert read(bounded, WORDS[0]) == expected, (kind.name, name)
            members.facades = untouched
            for number, word in WORDS.items():
                kind.put(members.stores[number], word, 0)
                members.commit(number, {SHARED: 10})


class _Truncating:
    """Empties a store as soon as the position of a facade of it has been read."""

    def __init__(self, facade: Any, store: Any) -> None:
        inner = facade.store_of_bytes
        position = type(inner).position

        def position_and_then(self: Any) -> Position:
            reached: Position = position.fget(self)
            store.truncate()
            return reached

        torn = type(type(inner).__name__, (type(inner),), {"position": property(position_and_then)})
        self.facade = type(facade)(_copied(inner, torn), facade.specification)


def _copied(facade: Any, cls: type[Any]) -> Any:
    """Return a copy of *facade* of another class."""
    copied = object.__new__(cls)
    copied.__dict__.update(facade.__dict__)
    return copied


@pytest.mark.spec("QRY-9")
def test_an_iterator_stays_at_the_commit_that_was_judged(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """And gives its snapshot back at the end, or when it is let go before anything was asked."""
    kind = kinds[0]
    members = open_members(kind.specification)
    for number, word in WORDS.items():
        kind.put(members.stores[number], word, number)
        members.commit(number, {SHARED: 1})
    bounded = members.queries.store("s", kind.type, at_least=Position({SHARED: 1}))
    expected = sorted((word, number) for number, word in WORDS.items())
    found = bounded.range()
    unused = bounded.range()
    first = next(found)
    for number, word in WORDS.items():
        members.stores[number].delete(word)
        members.commit(number, {SHARED: 2})

    assert [first, *found] == expected
    unused.close()
    assert list(bounded.range()) == []


@pytest.mark.spec("QRY-9")
def test_bounds_that_cannot_be_judged_are_refused(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """When the store is asked for; and where pending writes are seen, which are of no commit."""
    kind = kinds[0]
    members = open_members(kind.specification)
    wrong: Any
    for wrong in ({SHARED: 5}, 5, {0: {SHARED: 5}}, {True: Position()}):
        with pytest.raises(InvalidTypeError, match="at_least is a Position, or a mapping"):
            members.queries.store("s", kind.type, at_least=wrong)
    with pytest.raises(InvalidArgumentError, match="the partition 3 of 's'"):
        members.queries.store("s", kind.type, at_least={3: Position()})
    members.facades[0] = members.stores[0].read_only(Isolation.READ_UNCOMMITTED)
    bounded = members.queries.store("s", kind.type, at_least=Position({SHARED: 1}))
    with pytest.raises(CapabilityNotSupportedError, match="sees pending writes"):
        bounded.get(WORDS[0])
