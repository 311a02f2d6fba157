"""What an instance says of itself, as text and back, and whom others ask by it."""

import json
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError, StoreCorruptedError
from statestores.query.metadata import (
    ApplicationMetadata,
    Candidate,
    Host,
    InstanceMetadata,
    KeyMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
    choose,
)
from statestores.query.questions import Question
from statestores.query.read_terms import ReadTerms
from statestores_conformance.many_cases import for_each

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.mark.spec("SRV-1")
@pytest.mark.parametrize("host", [None, Host("h", 1)])
@pytest.mark.parametrize("http", [None, Host("::1", 2)])
def test_a_record_without_hosts_reads_as_it_was_written(
    host: Host | None, http: Host | None
) -> None:
    """One that serves nobody is known to the others all the same; a store may be one partition."""
    said = InstanceMetadata(
        instance="one",
        host=host,
        http=http,
        stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=1)},
    )
    data = json.dumps(said.as_json()).encode()

    assert InstanceMetadata.from_json(data, "a record") == said


@pytest.mark.spec("SRV-1")
@for_each(
    ("field", "value", "words"),
    [
        ("host", "nowhere", "host.*'name:port'"),
        ("http", "h:99999", "http.*'name:port'"),
        ("format", 2, "format.* 1"),
        ("partitions", {"s": {"0": {"role": "king"}}}, "role.*'active' or "),
    ],
)
def test_what_is_wrong_with_a_record_is_said(field: str, value: object, words: str) -> None:
    """And that it is the record: of a host that is none the error was that of a wrong argument.

    Whoever reads records catches `StoreCorruptedError`, as it is told.
    """
    data = json.dumps(InstanceMetadata(instance="one").as_json() | {field: value}).encode()

    with pytest.raises(StoreCorruptedError, match=words):
        InstanceMetadata.from_json(data, "a record")


@for_each(("name", "port"), [("h", "1"), (7, 1), (b"h", 1), ("h", True), (7, "1")])
def test_a_host_is_a_text_and_a_number(name: Any, port: Any) -> None:
    """Each of them by itself."""
    with pytest.raises(InvalidTypeError, match="a host is a name and a port number"):
        Host(name, port)


def test_a_host_is_a_host() -> None:
    """It is not read once more."""
    host = Host("h", 1)

    assert Host.of(host) is host


@pytest.mark.spec("SRV-2")
def test_a_partition_that_is_active_nowhere_has_copies() -> None:
    """Between a failure and the next assignment: the copies may be asked, and nobody is active."""
    copy = PartitionMetadata(role=Role.STANDBY, current_offset=1, end_offset=1)
    known = ApplicationMetadata(
        {
            "one": InstanceMetadata(
                instance="one",
                host=Host("h", 1),
                stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=1)},
                partitions={"counts": {0: copy}},
            )
        }
    )

    assert known.query_metadata_for_key(COUNTS, "word") == KeyMetadata(
        partition=0, active=None, standbys=(Host("h", 1),)
    )


def one(
    name: str,
    role: Role,
    *,
    lag: int | None = None,
    at: int | None = None,
    is_local: bool = False,
) -> Candidate:
    """Return a candidate."""
    return Candidate(
        instance=name,
        host=Host("h", 1),
        role=role,
        offset_lag=lag,
        current_offset=at,
        is_local=is_local,
    )


@pytest.mark.spec("SRV-4")
@for_each(
    ("candidates", "order"),
    [
        ([one("a", Role.ACTIVE), one("b", Role.ACTIVE, at=1)], "b a"),
        ([one("a", Role.ACTIVE, at=3), one("b", Role.ACTIVE, at=3, is_local=True)], "b a"),
        ([one("a", Role.STANDBY, lag=1), one("b", Role.STANDBY, lag=0)], "b a"),
        ([one("a", Role.STANDBY, lag=7), one("b", Role.STANDBY, lag=2)], "b a"),
        ([one("a", Role.STANDBY), one("b", Role.STANDBY, lag=9)], "b a"),
        ([one("a", Role.STANDBY, lag=2), one("b", Role.STANDBY, lag=2, is_local=True)], "b a"),
    ],
)
def test_who_is_furthest_is_asked_first(candidates: list[Candidate], order: str) -> None:
    """Then whoever needs no network; the name decides last of all."""
    choice = choose(candidates, include_stale=True)

    assert " ".join(each.instance for each in choice.order) == order


def test_a_question_has_its_terms_by_their_names() -> None:
    """Another instance is asked for just these."""
    terms = ReadTerms(include_stale=True, partition=3, max_lag=7)

    assert Question.on(terms, COUNTS).terms == {
        "include_stale": True,
        "partition": 3,
        "at_least": None,
        "max_lag": 7,
    }
