"""Queries of partitions that are elsewhere: order, bounds, retries, batches."""

from threading import Barrier
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidStateStoreError,
    NotUpToBoundError,
    StorageError,
    UnknownStateStoreError,
    UnreachableInstanceError,
)
from statestores.query import QueryableStores, RoutedStores
from statestores.query.metadata import (
    InstanceMetadata,
)
from statestores.tasks import TaskId

from .conftest import COUNTS, INPUT, PARTITIONS, WORDS, Application, home


@pytest.mark.spec("SRV-9", "SRV-7")
def test_a_store_is_read_wherever_it_is(app: Application, queries: RoutedStores) -> None:
    """One key goes to the instance that has it; ranges are merged over all of them."""
    counts = queries.store(COUNTS)

    assert [counts.get(word) for word in WORDS] == list(range(30))
    assert list(counts.range()) == sorted(zip(WORDS, range(30), strict=True))
    assert list(counts.range("w05", "w20", reverse=True)) == [
        (word, number) for number, word in reversed(list(enumerate(WORDS))) if 5 <= number <= 20
    ]
    assert queries.positions("counts") == {
        number: ss.Position({INPUT: 1}) for number in range(PARTITIONS)
    }
    assert sorted(queries.metadata.instances) == ["one", "two"]


@pytest.mark.spec("SRV-7")
def test_what_is_here_is_read_here(app: Application) -> None:
    """An instance asks the network only for what it does not have."""
    with RoutedStores(app, app, local=app.managers["one"], instance="one") as queries:
        counts = queries.store(COUNTS)
        assert [counts.get(word) for word in WORDS if home(word) == 0]
        assert app.asked == []

        assert list(counts.range()) == sorted(zip(WORDS, range(30), strict=True))
        assert counts.get_many(WORDS) == list(range(30))
        assert {name for name, _ in app.asked} == {"two"}


@pytest.mark.spec("SRV-8")
def test_a_batch_is_split_by_instance(app: Application, queries: RoutedStores) -> None:
    """Thirty keys in three partitions are two questions, and the answers are in order."""
    counts = queries.store(COUNTS)

    assert counts.get_many(["nobody", *reversed(WORDS)]) == [None, *reversed(range(30))]
    assert sorted(app.asked) == [("one", None), ("two", None)]


@pytest.mark.spec("SRV-24")
def test_instances_are_asked_side_by_side(app: Application, queries: RoutedStores) -> None:
    """Each question waits until the others are asked, too: one after another, none would end."""
    counts = queries.store(COUNTS)
    app.meeting = Barrier(2)
    assert counts.get_many(WORDS) == list(range(30))
    app.meeting = Barrier(PARTITIONS)
    assert len(list(counts.range())) == 30
    assert counts.approximate_num_entries() == 30
    assert len(queries.positions("counts")) == PARTITIONS

    app.meeting = None
    queries.close()  # what is asked after that is asked by the caller
    assert counts.get_many(WORDS) == list(range(30))


@pytest.mark.spec("SRV-8", "SRV-7")
def test_what_one_cannot_answer_of_a_batch_is_asked_of_others(
    app: Application, queries: RoutedStores
) -> None:
    """The copies of a dead instance answer, where that was asked for, and only for its share."""
    app.dead.add("two")

    assert queries.store(COUNTS, include_stale=True).get_many(WORDS) == list(range(30))
    with pytest.raises(UnreachableInstanceError):
        queries.store(COUNTS).get_many(WORDS)


@pytest.mark.spec("SRV-7")
def test_retryable_errors_are_asked_again_and_others_are_not(
    app: Application, queries: RoutedStores
) -> None:
    """A partition that moves is found; damage is reported at once."""
    counts = queries.store(COUNTS)
    word = next(word for word in WORDS if home(word) == 0)
    app.failures["one"] = [InvalidStateStoreError("moving"), UnreachableInstanceError("restarting")]
    assert counts.get(word) == WORDS.index(word)
    assert app.asked == [("one", None)] * 3
    app.asked.clear()
    app.failures["one"] = [StorageError("no disk")]

    with pytest.raises(StorageError, match="no disk"):
        counts.get(word)
    assert app.asked == [("one", None)]


@pytest.mark.spec("SRV-7")
def test_damage_that_one_reports_of_a_batch_is_not_asked_for_again(
    app: Application, queries: RoutedStores
) -> None:
    """Nor is anybody else: a mutant asked once more for its share, and answered."""
    app.failures["one"] = [StorageError("no disk")]
    with pytest.raises(StorageError, match="no disk"):
        queries.store(COUNTS).get_many(WORDS)

    assert [name for name, _ in app.asked].count("one") == 1


@pytest.mark.spec("SRV-7")
def test_a_membership_that_fails_ends_no_query(
    app: Application, queries: RoutedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that was to be asked again ended with the error of whoever says who is there.

    The look for a successor is a help: while a disk or a broker does not say who is there, those
    that were there are asked again, and one of them may answer.
    """
    counts = queries.store(COUNTS)
    word = next(word for word in WORDS if home(word) == 0)

    def fail() -> dict[str, InstanceMetadata]:
        raise StorageError("the directory of instances cannot be read")

    monkeypatch.setattr(app, "instances", fail)
    app.failures["one"] = [InvalidStateStoreError("moving"), InvalidStateStoreError("still")]

    assert counts.get(word) == WORDS.index(word)


@pytest.mark.spec("SRV-7")
def test_a_failover_is_followed(app: Application, queries: RoutedStores) -> None:
    """The active instance goes; its copy is promoted; the same handle goes on, and is no older."""
    counts = queries.store(COUNTS)
    word = next(word for word in WORDS if home(word) == 1)
    assert counts.get(word) == WORDS.index(word)
    app.managers["two"].assign([TaskId(0, 2)])
    with pytest.raises(InvalidStateStoreError):
        counts.get(word)
    app.managers["one"].assign([TaskId(0, 0), TaskId(0, 1)], [TaskId(0, 2)])

    assert counts.get(word) == WORDS.index(word)
    assert list(counts.range()) == sorted(zip(WORDS, range(30), strict=True))


@pytest.mark.spec("SRV-6")
def test_a_lag_is_judged_by_whoever_reads(app: Application, queries: RoutedStores) -> None:
    """What a copy published is old; it knows itself, and refuses what breaks the bound."""
    published = app.instances()
    word = next(word for word in WORDS if home(word) == 1)
    for number in (100, 101, 102):
        app.put({word: number}, number)
    app.dead.add("two")
    app.instances = lambda: published  # type: ignore[method-assign]
    queries.watch.look()

    assert queries.store(COUNTS, include_stale=True).get(word) == WORDS.index(word)
    assert queries.store(COUNTS, include_stale=True, max_lag=3).get(word) == WORDS.index(word)
    with pytest.raises(NotUpToBoundError, match="3 changes behind"):
        queries.store(COUNTS, include_stale=True, max_lag=2).get(word)
    with pytest.raises(NotUpToBoundError):
        queries.store(COUNTS, include_stale=True, at_least=ss.Position({INPUT: 100})).get(word)
    app.poll()
    assert queries.store(COUNTS, include_stale=True, max_lag=0).get(word) == 102


@pytest.mark.spec("SRV-6")
def test_a_lag_is_judged_for_every_read_here_too(app: Application) -> None:
    """The same bound holds for a process that reads its own copies."""
    stores = QueryableStores(app.managers["one"])
    counts = stores.store(COUNTS, include_stale=True, max_lag=0)
    assert len(list(counts.range())) == 30
    word = next(word for word in WORDS if home(word) == 1)
    app.put({word: 100}, 2)

    for read in (
        lambda: counts.get(word),
        lambda: counts.get_many([word]),
        lambda: list(counts.range()),
        lambda: list(counts.prefix_scan(b"")),
        counts.approximate_num_entries,
    ):
        with pytest.raises(NotUpToBoundError, match="1 changes behind"):
            read()
    with pytest.raises(InvalidArgumentError, match="max_lag"):
        stores.store(COUNTS, max_lag=-1)


def test_a_source_that_knows_no_ends_judges_no_lags(open_members: Any) -> None:
    """A bound that cannot be judged is refused, and never taken as kept."""
    members = open_members(ss.KeyValue("s"))

    with pytest.raises(CapabilityNotSupportedError, match="max_lag"):
        members.queries.store(ss.KeyValue("s"), max_lag=0)


@pytest.mark.spec("QRY-5")
def test_a_store_is_asked_for_by_what_it_is(app: Application, queries: RoutedStores) -> None:
    """Another type of values would be decoded into something that was never written."""
    for asked in (queries, QueryableStores(app.managers["one"])):
        with pytest.raises(UnknownStateStoreError, match="value"):
            asked.store(ss.KeyValue("counts", key=ss.utf8, value=ss.float64))
        with pytest.raises(UnknownStateStoreError, match="history_retention_ms"):
            asked.store(ss.Versioned("counts", history_retention_ms=1, key=ss.utf8, value=ss.int64))
        with pytest.raises(UnknownStateStoreError):
            asked.store(ss.KeyValue("other"))


@pytest.mark.spec("SRV-7")
def test_nobody_who_has_a_partition_is_an_error_with_reasons(
    app: Application, queries: RoutedStores
) -> None:
    """Nothing is missed because nobody was asked."""
    app.managers["two"].assign([TaskId(0, 1)])

    with pytest.raises(InvalidStateStoreError, match="one is standby"):
        list(queries.store(COUNTS).range())


@pytest.mark.spec("SRV-7")
def test_one_partition_is_asked_for_by_its_number(app: Application, queries: RoutedStores) -> None:
    """Whatever the partitioner would say: the instance that has it is asked, and no other."""
    word = next(word for word in WORDS if home(word) == 1)
    named, other = (queries.store(COUNTS, partition=number) for number in (1, 0))

    assert (named.get(word), other.get(word)) == (WORDS.index(word), None)
    assert named.get_many([word]) == [WORDS.index(word)]
    assert [name for name, _ in app.asked] == ["two", "one", "two"]


@pytest.mark.spec("SRV-7")
def test_an_instance_without_an_address_is_not_asked(
    app: Application, queries: RoutedStores
) -> None:
    """It may process and serve nobody: the error says so, and is no error of the network's."""
    app.hosts["two"] = None  # type: ignore[assignment]  # as one without a server publishes
    queries.watch.look()
    word = next(word for word in WORDS if home(word) == 1)

    with pytest.raises(InvalidStateStoreError, match="two answers no queries"):
        queries.store(COUNTS).get(word)
    assert "two" not in [name for name, _ in app.asked]
