"""Which partitions a query finds, and what it says of those that it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidStateStoreError,
    InvalidTypeError,
    MisplacedKeyError,
    StoreClosedError,
    UnknownStateStoreError,
)
from statestores.partitioning import murmur2_partitioner
from statestores.query import (
    LocalPartitions,
    QueryableStores,
    key_value_store,
    versioned_store,
)
from statestores.query.read_terms import ReadTerms
from statestores.query.store_types import read_as
from statestores.semantics.every_kind.facade import EngineFacade
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore

from .conftest import PARTITIONS, Kind, Members

COUNTS = ss.KeyValue("s", key=ss.utf8, value=ss.int64)


class Moving(Members):
    """A store of which some partitions are on their way."""

    moving: dict[int, str]

    def unready(self, name: str) -> dict[int, str]:
        """Return what each of them is doing."""
        return self.moving


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Moving]:
    """Have partitions 0 and 2; partition 1 is being restored."""
    made = Moving(tmp_path, COUNTS)
    made.here, made.moving = {0, 2}, {1: "restoring"}
    yield made
    made.close()


def found(members: Moving, partition: int | None = None) -> LocalPartitions[Any]:
    """Look for the store, or for one partition of it."""
    return LocalPartitions(members, "s", lambda _: True, ReadTerms(partition=partition))


@pytest.mark.spec("QRY-2")
def test_a_read_of_one_partition_does_not_wait_for_another(members: Moving) -> None:
    """What is here is found, whatever the others do."""
    assert sorted(found(members).find()) == [0, 2]
    assert sorted(found(members, 2).find_all()) == [2]


@pytest.mark.spec("QRY-2")
@pytest.mark.parametrize("partition", [None, 1])
def test_a_read_of_all_says_which_partition_is_missing(
    members: Moving, partition: int | None
) -> None:
    """It would be a short answer that looks complete."""
    with pytest.raises(InvalidStateStoreError, match="partition 1 of 's' is restoring here"):
        found(members, partition).find_all()


@pytest.mark.spec("QRY-2")
def test_what_became_ready_meanwhile_is_found(members: Moving) -> None:
    """The list of those that are moving may be older than what is here."""
    members.here = {0, 1, 2}

    assert sorted(found(members).find_all()) == [0, 1, 2]


@pytest.mark.spec("QRY-2")
def test_a_partition_that_is_nowhere_here_is_told_from_one_that_moves(members: Moving) -> None:
    """The first is looked for elsewhere, the second is worth another try."""
    members.here = set()
    with pytest.raises(InvalidStateStoreError, match="partition 1 of 's' is restoring here"):
        found(members, 1).find()
    with pytest.raises(InvalidStateStoreError, match="partition 0 of 's' is not here now"):
        found(members, 0).find()


@pytest.mark.spec("QRY-1")
def test_a_store_of_another_type_is_refused_where_it_is_found(members: Moving) -> None:
    """What is here may have been opened as something else than what is written down."""
    asked: LocalPartitions[Any] = LocalPartitions(members, "s", lambda _: False)
    with pytest.raises(UnknownStateStoreError, match="asked for as another type"):
        asked.find()


@pytest.mark.spec("QRY-1")
def test_a_composite_says_what_it_is_and_where_it_looks(members: Moving) -> None:
    """Whether anything is here changes while it is held."""
    store: Any = members.queries.store("s", key_value_store())
    if isinstance(store, DelegatingReadOnlyStore):
        store = store.store_of_bytes
    assert found(members).name == store.name == "s"
    assert store.specification == COUNTS
    assert (store.local_partitions, store.is_open) == ([0, 2], True)
    members.here = set()

    assert store.is_open is False


@pytest.mark.spec("QRY-2")
def test_a_store_that_is_nowhere_here_is_told_by_its_name(members: Moving) -> None:
    """Without a partition, where none was named."""
    members.here, members.moving = set(), {}
    with pytest.raises(InvalidStateStoreError, match=r"^'s' is not here now"):
        found(members).find()


@pytest.mark.spec("QRY-2", "QRY-4")
def test_a_key_is_told_to_be_where_it_is(members: Moving) -> None:
    """In a partition that is restored here, or in one that is elsewhere: the first comes soon."""
    store: Any = members.queries.store(COUNTS)
    with pytest.raises(InvalidStateStoreError, match="partition 1 of 's' is restoring here"):
        store.get(word_in(1))
    members.here = {2}
    with pytest.raises(InvalidStateStoreError, match="is in partition 0 of 's', which is not here"):
        store.get(word_in(0))


def word_in(partition: int) -> str:
    """Return a word that the partitioner gives to *partition*."""
    words = map("w{}".format, range(99))
    return next(
        word
        for word in words
        if murmur2_partitioner.partition(word.encode(), PARTITIONS) == partition
    )


@pytest.mark.spec("QRY-10")
def test_other_partitions_are_asked_after_a_miss_alone(members: Moving) -> None:
    """A hit is the answer, wherever else the key may be, and asks nobody once more."""
    members.here = {0, 1, 2}
    key = word_in(0).encode()
    asked: list[Any] = []

    def read_all(store: Any, rows: list[int]) -> list[bytes | None]:
        asked.append(store)
        return [b"found" for _ in rows]

    def read(store: Any) -> bytes:
        asked.append(store)
        return b"found"

    partitions = found(members)
    assert partitions.one(key, read) == b"found"
    assert partitions.many([key, key], read_all) == [b"found", b"found"]

    home = partitions.of_bytes(members.facades[0])
    assert asked == [home, home]


@pytest.mark.spec("QRY-10")
def test_the_partition_that_missed_a_key_is_not_asked_again(members: Moving) -> None:
    """A commit may bring it meanwhile, and then it would be called misplaced."""
    members.here = {0, 1, 2}
    asked: list[Any] = []

    def read(store: Any) -> bytes | None:
        asked.append(store)
        return b"a commit has brought it" if asked.count(store) > 1 else None

    partitions = found(members)
    assert partitions.one(word_in(0).encode(), read) is None

    assert asked == [partitions.of_bytes(members.facades[number]) for number in (0, 1, 2)]


@pytest.mark.spec("QRY-10")
@pytest.mark.parametrize("partition", [0, 2])
def test_whoever_names_a_partition_is_not_contradicted(members: Moving, partition: int) -> None:
    """Neither where the key is in another one, nor where it is in that one alone."""
    members.here, word = {0, 2}, word_in(0)
    members.stores[2].put(word, 7)
    members.stores[2].commit({})
    store: Any = members.queries.store(COUNTS, partition=partition)
    expected = 7 if partition == 2 else None

    assert (store.get(word), store.get_many([word])) == (expected, [expected])


@pytest.mark.spec("QRY-10")
@pytest.mark.parametrize("as_generator", [True, False])
def test_a_look_into_another_partition_is_over_when_it_is_known(
    members: Moving, *, as_generator: bool
) -> None:
    """What it had opened would stay open until the error is forgotten."""
    members.here = {0, 1, 2}
    home = found(members).of_bytes(members.facades[0])
    over: list[str] = []

    def items() -> Iterator[bytes]:
        try:
            yield b"first"
            yield b"second"
        finally:
            over.append("over")

    def read(store: Any) -> Iterator[bytes]:
        if store is home:
            return iter(())
        return items() if as_generator else iter([b"first", b"second"])

    with pytest.raises(MisplacedKeyError) as caught:
        list(found(members).iterate(word_in(0).encode(), read))

    assert over == (["over"] if as_generator else [])
    assert caught.value.__traceback__ is not None


@pytest.mark.spec("QRY-9")
def test_what_a_bounded_read_has_frozen_is_let_go(
    members: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a value at once, and of an iterator at its end: an engine keeps what it shows."""
    made: list[Any] = []
    at_one_commit = EngineFacade.at_one_commit

    def noted(facade: EngineFacade) -> Any:
        frozen, snapshot = at_one_commit(facade)
        made.append(snapshot)
        return frozen, snapshot

    monkeypatch.setattr(EngineFacade, "at_one_commit", noted)
    members.here, members.moving = {0, 1, 2}, {}
    store: Any = members.queries.store(COUNTS, at_least=ss.Position())
    store.get("word")
    assert made
    for snapshot in made:
        with pytest.raises(StoreClosedError):
            snapshot.get(b"k")
    made.clear()
    items = store.range()
    assert [snapshot.get(b"k") for snapshot in made] == [None] * 3
    list(items)
    for snapshot in made:
        with pytest.raises(StoreClosedError):
            snapshot.get(b"k")


@pytest.mark.spec("QRY-9")
def test_what_cannot_be_read_at_one_commit_has_no_bound(members: Moving) -> None:
    """A store of somebody else, for one: without a bound it is read."""
    members.here, members.moving = {0, 1, 2}, {}
    members.facades = dict(members.stores)
    plain: Any = members.queries.store(COUNTS)
    bounded: Any = members.queries.store(COUNTS, at_least=ss.Position())

    assert plain.get("word") is None
    with pytest.raises(CapabilityNotSupportedError, match="cannot be read at one commit"):
        bounded.get("word")


@pytest.mark.spec("COM-19")
def test_columns_of_sessions_are_of_one_length(open_members: Any) -> None:
    """As in a store: an error of Python's says nothing of which is too short."""
    sessions = ss.Session("s", retention_ms=1_000)
    store: Any = open_members(sessions).queries.store(sessions)
    for keys, starts_ms, ends_ms in (([b"k", b"l"], [1], [2, 2]), ([b"k"], [1, 1], [2])):
        with pytest.raises(InvalidArgumentError, match="columns must have equal length"):
            store.fetch_many(keys, starts_ms, ends_ms)


@pytest.mark.spec("QRY-1", "COM-19")
def test_what_is_asked_for_in_a_wrong_way_is_refused(members: Moving) -> None:
    """A path is no source, a number no name, and a text no type."""
    wrong: Any
    for wrong in ("path", None, 3):
        with pytest.raises(InvalidTypeError, match="stores come from a TaskManager"):
            QueryableStores(wrong)
        with pytest.raises(InvalidTypeError, match="store_type must be a QueryableStoreType"):
            members.queries.store("s", wrong)
    with pytest.raises(InvalidTypeError, match="named by a str"):
        members.queries.store(3, key_value_store())  # type: ignore[call-overload]  # as said
    with pytest.raises(InvalidTypeError, match="named by a str"):
        members.queries.positions(3)  # type: ignore[arg-type]  # as said


@pytest.mark.spec("QRY-5")
def test_how_a_store_is_read_is_told_beside_what_it_is(members: Moving) -> None:
    """The type that is given counts, and is refused if the store is none of it."""
    store: Any = members.queries.store
    with pytest.raises(UnknownStateStoreError, match="does not accept"):
        store(COUNTS, versioned_store())


@pytest.mark.spec("QRY-5")
@pytest.mark.parametrize(
    ("kept", "asked", "is_advised"),
    [
        (ss.TimestampedKeyValue("s"), ss.KeyValue("s"), True),
        (ss.KeyValue("s"), ss.TimestampedKeyValue("s"), False),
        (ss.KeyValue("s"), ss.KeyValue("s", key=ss.utf8), False),
    ],
)
def test_a_table_that_is_asked_for_as_plain_is_explained(
    open_members: Any, kept: Any, asked: Any, *, is_advised: bool
) -> None:
    """Whoever gave a topology a KeyValue did not write what it keeps; others are told less."""
    with pytest.raises(UnknownStateStoreError) as caught:
        open_members(kept).queries.store(asked)

    assert ("ask with a TimestampedKeyValue" in str(caught.value)) is is_advised


@pytest.mark.spec("QRY-1")
def test_a_store_of_bytes_is_read_as_what_it_is(open_members: Any, kinds: tuple[Kind, ...]) -> None:
    """One of another instance has no types of its own; keys and values get those of the store."""
    for kind in kinds:
        members = open_members(kind.specification)
        kind.put(members.stores[0], "word", 7)
        members.commit(0, {})
        facade = members.facades[0]
        typed = read_as(found(members).of_bytes(facade), kind.specification)
        for read in kind.one_key.values():
            assert read(typed, "word") == read(facade, "word")
            assert read(typed, "word") is not None
