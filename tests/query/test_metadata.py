"""Who has what, and whom to ask: values and a table."""

import json
from typing import Any

import pytest
from known_instances import COUNTS, ONE, THREE, TWO

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    UnknownStateStoreError,
    UnreachableInstanceError,
)
from statestores.query.metadata import (
    ApplicationMetadata,
    Candidate,
    Host,
    InstanceMetadata,
    KeyMetadata,
    PartitionMetadata,
    Role,
    StaticMembership,
    choose,
)
from statestores_conformance.many_cases import for_each


@for_each("text", ["127.0.0.1:7070", "[::1]:1", "host-1.example:65535"])
def test_a_host_reads_as_it_is_written(text: str) -> None:
    """A host is a name or an address, and a port."""
    assert str(Host.of(text)) == text


@for_each("text", ["", "a", "a:0", "a:70000", "a b:1", "a:1/x", "a@b:1", "::1:80"])
def test_what_is_no_host_is_refused(text: str) -> None:
    """Nothing that could be a part of a URL gets into one."""
    with pytest.raises(InvalidArgumentError):
        Host.of(text)


def test_a_host_is_given_as_one_or_as_text() -> None:
    """A number is not taken for a port, nor a pair for a host."""
    wrong: Any = ("127.0.0.1", 7070)
    with pytest.raises(InvalidTypeError, match="name:port"):
        Host.of(wrong)


def test_an_instance_says_which_partitions_it_has_in_a_role() -> None:
    """Of one store, in the order of their numbers."""
    assert THREE.with_role("counts", Role.STANDBY, Role.RESTORING) == [0, 1]
    assert THREE.with_role("counts", Role.RESTORING) == [1]
    assert THREE.with_role("other", *Role) == []


@pytest.mark.spec("SRV-1")
def test_a_record_reads_as_it_was_written() -> None:
    """What an instance publishes is what the others know of it, restoring partitions included."""
    data = json.dumps(THREE.as_json()).encode()

    assert InstanceMetadata.from_json(data, "a record") == THREE


@pytest.mark.spec("SRV-1")
@for_each(
    "change",
    [
        {"format": 2},
        {"instance": ""},
        {"host": 7},
        {"partitions": {"counts": {"0": {"role": "king", "current_offset": 1, "end_offset": 1}}}},
        {"partitions": {"counts": {"-1": {"role": "active"}}}},
        {"stores": {"counts": {"specification": {}, "partitions": 0}}},
    ],
)
def test_a_record_of_something_else_is_refused(change: dict[str, Any]) -> None:
    """Nobody guesses at a record of another format."""
    data = json.dumps(ONE.as_json() | change).encode()

    with pytest.raises(StoreCorruptedError):
        InstanceMetadata.from_json(data, "a record")


@pytest.mark.spec("SRV-2")
def test_metadata_says_who_has_a_store_and_a_key() -> None:
    """Kafka's three questions, and the lag of each copy."""
    other = InstanceMetadata(instance="empty", host=Host("127.0.0.1", 7009))
    known = ApplicationMetadata({each.instance: each for each in (TWO, ONE, THREE, other)})
    key = next(
        word
        for word in map(str, range(50))
        if known.query_metadata_for_key(COUNTS, word).partition == 0
    )

    assert [each.instance for each in known.all_metadata()] == ["empty", "one", "three", "two"]
    assert known.all_metadata_for_store("counts") == (ONE, THREE, TWO)
    assert known.query_metadata_for_key(COUNTS, key) == KeyMetadata(
        partition=0,
        active=Host("127.0.0.1", 7001),
        standbys=(Host("127.0.0.1", 7003), Host("127.0.0.1", 7002)),
    )
    assert known.lags("counts")[1] == {"one": 30, "two": 0, "three": 90}
    with pytest.raises(UnknownStateStoreError):
        known.query_metadata_for_key(ss.KeyValue("other", key=ss.utf8), "a")
    wrong: list[Any] = [-1, 2, True, "0", None]
    for partition in wrong:
        with pytest.raises(InvalidArgumentError, match="has the partitions 0 to 1"):
            known.query_metadata_for_partition("counts", partition)


def test_the_same_metadata_are_one_in_a_set() -> None:
    """Whoever remembers what was known, to see what is new, keeps them so."""
    known = {ApplicationMetadata({"one": ONE}), ApplicationMetadata({"one": ONE})}

    assert len(known) == 1
    assert ApplicationMetadata({"one": TWO}) not in known


def test_a_lag_is_known_when_both_ends_are() -> None:
    """An instance that does not know one of them is not up to date, nor is it an error."""
    lags = [
        PartitionMetadata(role=Role.STANDBY, current_offset=current, end_offset=end).offset_lag
        for current, end in [(3, 5), (None, 5), (3, None), (None, None), (5, 3)]
    ]

    assert lags == [2, None, None, None, 0]


def of(name: str, role: Role, lag: int | None = 0, **also: Any) -> Candidate:
    """Return a candidate."""
    also.setdefault("host", Host("127.0.0.1", 7000))
    return Candidate(instance=name, role=role, offset_lag=lag, **also)


A = of("a", Role.ACTIVE)


S5 = of("s5", Role.STANDBY, 5)


S9 = of("s9", Role.STANDBY, 9)


UNKNOWN = of("unknown", Role.STANDBY, None)


PROMOTING = of("promoting", Role.PROMOTING, 1)


RESTORING = of("restoring", Role.RESTORING, 3)


MUTE = of("mute", Role.ACTIVE, host=None)


LOCAL = of("local", Role.STANDBY, 5, host=None, is_local=True)


ZOMBIE = of("zombie", Role.ACTIVE, current_offset=3)


NEWER = of("newer", Role.ACTIVE, current_offset=8)


@pytest.mark.spec("SRV-4")
@for_each(
    ("candidates", "options", "order"),
    [
        ([S5, A], {}, "a"),
        ([S5, UNKNOWN, PROMOTING], {}, ""),
        ([UNKNOWN, S9, S5, A], {"include_stale": True}, "a s5 s9 unknown"),
        ([S9, PROMOTING, S5], {"include_stale": True}, "promoting s5 s9"),
        ([S9, S5, A], {"include_stale": True, "max_lag": 5}, "a s5"),
        ([UNKNOWN, S9, S5], {"include_stale": True, "max_lag": 4}, "unknown"),
        ([RESTORING, S9], {"include_stale": True}, "s9"),
        ([MUTE, S9], {"include_stale": True}, "s9"),
        ([S5, LOCAL], {"include_stale": True}, "local s5"),
        ([ZOMBIE, NEWER], {}, "newer zombie"),
        ([S5, A], {"max_lag": 0}, "a"),
        ([], {"include_stale": True}, ""),
    ],
)
def test_whom_to_ask(candidates: list[Candidate], options: dict[str, Any], order: str) -> None:
    """The table of the specification."""
    choice = choose(candidates, **options)

    assert " ".join(each.instance for each in choice.order) == order
    assert len(choice.order) + len(choice.refused) == len(candidates)
    assert all(reason for _, reason in choice.refused)


@pytest.mark.spec("SRV-3")
def test_of_listed_hosts_those_are_there_that_answer() -> None:
    """A list knows hosts only: what they have, they are asked."""
    asked: list[str] = []

    def ask(host: Host) -> InstanceMetadata:
        asked.append(str(host))
        if host == TWO.host:
            return TWO
        raise UnreachableInstanceError(f"{host} does not answer")

    members = StaticMembership(["127.0.0.1:7001", "127.0.0.1:7002"], ask)
    assert members.instances() == {"two": TWO}
    members.publish(ONE)
    asked.clear()
    assert members.instances() == {"one": ONE, "two": TWO}
    assert asked == ["127.0.0.1:7002"]  # nobody asks itself
    members.leave("one")
    assert members.instances() == {"two": TWO}
