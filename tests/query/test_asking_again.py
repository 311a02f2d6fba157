"""When an instance is asked again, whom a query asks then, and what it has found out before."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    UnknownStateStoreError,
    UnreachableInstanceError,
)
from statestores.query import RoutedStores, key_value_store, routed_partitions
from statestores.query.local_partitions import LocalPartitions
from statestores.query.metadata import (
    Host,
    InstanceMetadata,
    MetadataWatch,
    PartitionMetadata,
    Role,
    StoreMetadata,
)
from statestores.tasks import TaskId

from .conftest import COUNTS, PARTITIONS, WORDS, Application, Kind, Members, home

_PATIENCE_SECONDS = 30.0


class HandTime:
    """The time of a query that waits: it goes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 50.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let it go on."""
        self.pauses.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def hand_time(monkeypatch: pytest.MonkeyPatch) -> HandTime:
    """Have queries go by a clock of ours."""
    clock = HandTime()
    monkeypatch.setattr(
        routed_partitions, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    )
    return clock


@pytest.mark.spec("SRV-7")
def test_pauses_grow_up_to_a_quarter_of_a_second(app: Application, hand_time: HandTime) -> None:
    """And the last one ends when the time is over; who has the key is asked after each of them."""
    app.dead = {"two"}
    word = next(word for word in WORDS if home(word) == 1)
    with (
        RoutedStores(app, app, timeout_s=1.0) as queries,
        pytest.raises(UnreachableInstanceError, match="two does not answer"),
    ):
        queries.store(COUNTS).get(word)

    assert hand_time.pauses == [0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.19]
    assert len(app.asked) == len(hand_time.pauses) + 1


@pytest.mark.spec("SRV-7")
def test_whoever_has_the_key_by_then_is_asked(app: Application, hand_time: HandTime) -> None:
    """The query looks itself: the thread that watches may look a quarter of a second later."""
    word = next(word for word in WORDS if home(word) == 1)
    with RoutedStores(app, app, timeout_s=1.0) as queries:
        counts = queries.store(COUNTS)
        queries.watch.close()
        app.managers["two"].assign([TaskId(0, 2)])
        app.managers["one"].assign([TaskId(0, 0), TaskId(0, 1)])

        assert counts.get(word) == WORDS.index(word)
        assert hand_time.pauses[:1] == [0.01]


@pytest.mark.spec("SRV-8")
def test_a_batch_of_no_keys_asks_nobody(app: Application, queries: RoutedStores) -> None:
    """It is no error either."""
    assert queries.store(COUNTS).get_many([]) == []
    assert app.asked == []


@pytest.mark.spec("SRV-7", "SRV-8")
def test_a_batch_of_which_nobody_has_a_part_is_an_error_with_reasons(
    app: Application, hand_time: HandTime
) -> None:
    """Not a miss, and not an error of Python's."""
    app.managers["two"].assign([TaskId(0, 1)])
    with (
        RoutedStores(app, app, timeout_s=0.1) as queries,
        pytest.raises(InvalidStateStoreError, match="no instance can be asked for partition 2"),
    ):
        queries.store(COUNTS).get_many(WORDS)


@pytest.mark.spec("SRV-7")
def test_reads_of_one_partition_ask_for_it_alone(app: Application, queries: RoutedStores) -> None:
    """A range of it, and its position."""
    counts = queries.store(COUNTS, partition=1)

    assert [word for word, _ in counts.range()] == [word for word in WORDS if home(word) == 1]
    assert app.asked == [("two", 1)]


@pytest.mark.spec("SRV-7")
def test_numbers_and_ranges_of_what_is_here_are_read_here(app: Application) -> None:
    """An empty partition among them gives nothing."""
    with RoutedStores(app, app, local=app.managers["one"], instance="one") as queries:
        counts = queries.store(COUNTS, partition=0)
        assert counts.approximate_num_entries() == sum(home(word) == 0 for word in WORDS)
        assert list(counts.range("x", "z")) == []
        assert app.asked == []
        assert sorted(queries.positions("counts")) == list(range(PARTITIONS))


@pytest.mark.spec("SRV-7", "SRV-8")
def test_a_copy_that_is_here_answers_for_an_instance_that_fails(app: Application) -> None:
    """Each of the keys of a batch, in its place."""
    app.dead = {"two"}
    with RoutedStores(app, app, local=app.managers["one"], instance="one") as queries:
        counts = queries.store(COUNTS, include_stale=True)

        assert counts.get_many(["nobody", *reversed(WORDS)]) == [None, *reversed(range(30))]


def test_what_is_here_has_a_name() -> None:
    """By it an instance knows itself among the others: it would ask itself over the network."""
    wrong: Any
    for wrong in ({"local": object()}, {"instance": "one"}):
        with pytest.raises(InvalidArgumentError, match="give local and instance together"):
            RoutedStores(_Nobody(), _Nobody(), **wrong)


class _Nobody:
    """A membership, and a way of asking, that count who looks; whoever is there comes later."""

    def __init__(self) -> None:
        self.there: dict[str, InstanceMetadata] = {}
        self.looks = 0

    def instances(self) -> dict[str, InstanceMetadata]:
        """Return whoever is there."""
        self.looks += 1
        return self.there

    def publish(self, instance: InstanceMetadata) -> None:
        """Know it."""

    def leave(self, instance: str) -> None:
        """Know nothing less."""

    def store(self, host: object, question: object) -> Any:
        """Have no store."""
        raise NotImplementedError


def _some() -> dict[str, InstanceMetadata]:
    """Return an instance that has a partition of counts."""
    return {
        "one": InstanceMetadata(
            instance="one",
            stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=PARTITIONS)},
            partitions={
                "counts": {0: PartitionMetadata(role=Role.ACTIVE, current_offset=0, end_offset=0)}
            },
        )
    }


@pytest.fixture
def nobody() -> Iterator[tuple[_Nobody, RoutedStores]]:
    """Have the queries of an application of which nobody is there, and a watch that is over."""
    members = _Nobody()
    with RoutedStores(members, members) as stores:
        stores.watch.close()
        yield members, stores


@pytest.mark.spec("SRV-2")
def test_whoever_is_there_at_the_beginning_is_known_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that looks may begin a moment later."""
    members = _Nobody()
    members.there = _some()
    monkeypatch.setattr(MetadataWatch, "start", lambda watch: None)
    with RoutedStores(members, members) as stores:
        assert set(stores.metadata.instances) == {"one"}


@pytest.mark.spec("SRV-2")
def test_whoever_goes_is_known_to_be_gone_without_a_question() -> None:
    """A quarter of a second later, or so."""
    members = _Nobody()
    members.there = _some()
    with RoutedStores(members, members) as stores:
        members.there = {}
        end = time.monotonic() + _PATIENCE_SECONDS
        while stores.metadata.instances and time.monotonic() < end:
            time.sleep(0.01)

        assert stores.metadata.instances == {}


@pytest.mark.spec("SRV-2")
def test_a_store_is_found_as_soon_as_somebody_has_it(
    nobody: tuple[_Nobody, RoutedStores],
) -> None:
    """While nobody is known each question looks, and none does once somebody is."""
    members, stores = nobody
    with pytest.raises(UnknownStateStoreError, match="no instance knows a store 'counts'"):
        stores.store(COUNTS)
    members.there = _some()
    stores.store(COUNTS)
    before = members.looks
    stores.store(COUNTS)

    assert members.looks == before


def test_what_is_elsewhere_judges_no_lag_here(nobody: tuple[_Nobody, RoutedStores]) -> None:
    """The instances that are asked do; nothing of it is on its way here."""
    _, stores = nobody
    elsewhere: Any = stores._source

    assert (elsewhere.unready("counts"), elsewhere.local_stores("counts")) == ({}, {})
    with pytest.raises(UnknownStateStoreError, match="'counts' is not here"):
        elsewhere.changelog_end("counts", 0)


def test_what_asks_beside_the_caller_ends_with_the_queries(app: Application) -> None:
    """The thread that looks, and those that ask; the caller asks alone then."""
    routed = RoutedStores(app, app)
    counts: Any = routed.store("counts", key_value_store())
    list(counts.range())
    before = _threads()
    routed.close()
    routed.close()
    end = time.monotonic() + _PATIENCE_SECONDS
    while _threads() and time.monotonic() < end:
        time.sleep(0.01)

    assert {"metadata-watch", "ask"} <= before
    assert _threads() == set()
    assert len(list(counts.range())) == len(WORDS)


def _threads() -> set[str]:
    """Return the names of those that queries have, without their numbers."""
    names = {each.name.partition("_")[0] for each in threading.enumerate()}
    return names & {"metadata-watch", "ask"}


class _Elsewhere(_Nobody):
    """An application of which another instance has all partitions of a store."""

    def __init__(self, kind: Kind, members: Members) -> None:
        super().__init__()
        self._kind, self._members = kind, members
        part = PartitionMetadata(role=Role.ACTIVE, current_offset=0, end_offset=0)
        description = kind.specification.describe()
        self.there = {
            "one": InstanceMetadata(
                instance="one",
                host=Host("h", 1),
                stores={"s": StoreMetadata(description=description, partitions=PARTITIONS)},
                partitions={"s": dict.fromkeys(range(PARTITIONS), part)},
            )
        }

    def store(self, host: object, question: Any) -> Any:
        """Return the store of *question*, of bytes, as the network would give it."""
        partitions: LocalPartitions[Any] = LocalPartitions(
            self._members, "s", lambda _: True, question
        )
        return partitions.of_bytes(self._kind.type.create(partitions))


@pytest.mark.spec("SRV-7", "SRV-9")
def test_each_read_of_each_kind_is_the_same_elsewhere(
    open_members: Any, kinds: tuple[Kind, ...]
) -> None:
    """Reads of one key, of several, of all of them, and those that are drained bit by bit."""
    for kind in kinds:
        members = open_members(kind.specification)
        for number, word in enumerate(WORDS):
            kind.put(members.stores[home(word)], word, number)
        for partition in range(PARTITIONS):
            members.commit(partition, {})
        there = _Elsewhere(kind, members)
        here: Any = members.queries.store(kind.specification)
        with RoutedStores(there, there) as queries:
            of_any_kind: Any = queries
            elsewhere = of_any_kind.store(kind.specification)
            for read in (*kind.one_key.values(), *kind.all_keys.values()):
                found = read(elsewhere, WORDS[0])
                assert found == read(here, WORDS[0])
                assert found is not None
            for iterate in kind.iterators.values():
                assert list(iterate(elsewhere, WORDS[0])) == list(iterate(here, WORDS[0]))
