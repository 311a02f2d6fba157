"""Stores of another instance, asked by Flight: the same answers, and the same errors."""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from served_shop import COUNTS, MINUTES, PARTITIONS, RATES, SEEN, STORES, VISITS, WORDS, Shop

import statestores as ss
from statestores.errors import (
    AccessDeniedError,
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidStateStoreError,
    LimitExceededError,
    NotUpToBoundError,
    OffsetOutOfRangeError,
    StateStoreError,
    UnknownStateStoreError,
    UnreachableInstanceError,
)
from statestores.query import QueryableStores, Question, RoutedStores
from statestores.query.metadata import StaticMembership
from statestores.serving import Access, FlightServer, FlightStores, Limits
from statestores.serving.query import Query, query_from_json
from statestores_conformance.many_cases import for_each

READS: list[tuple[Any, Callable[[Any], Any]]] = [
    (COUNTS, lambda store: [store.get(word) for word in ("w00", "w07", "nobody")]),
    (COUNTS, lambda store: store.get_many([*WORDS, "nobody", "w00"])),
    (COUNTS, lambda store: store.get_many(["w03", "nobody"])),
    (COUNTS, lambda store: store.get_many([])),
    (COUNTS, lambda store: list(store.range())),
    (COUNTS, lambda store: list(store.range("w05", "w11", reverse=True))),
    (COUNTS, lambda store: list(store.prefix_scan(b"w1"))),
    (COUNTS, lambda store: list(store.range("x", "a"))),
    (COUNTS, lambda store: store.position),
    (SEEN, lambda store: [store.get(word) for word in ("w00", "nobody")]),
    (SEEN, lambda store: store.get_many(["w03", "nobody"])),
    (SEEN, lambda store: list(store.range())),
    (SEEN, lambda store: store.stream_time_ms),
    (RATES, lambda store: [store.get("w07"), store.get("w07", 1_500), store.get("nobody", 1)]),
    (RATES, lambda store: store.get_many(WORDS, 1_500)),
    (RATES, lambda store: store.get_many(["w07", "w07"], [1_500, 0])),
    (RATES, lambda store: list(store.history("w07"))),
    (RATES, lambda store: list(store.history("w07", 500, 1_500, reverse=True))),
    (RATES, lambda store: list(store.range_history("w03", "w05", 1_200))),
    (RATES, lambda store: list(store.scan_as_of(1_500, "w03", reverse=True))),
    (MINUTES, lambda store: [store.fetch("w07", 60_000), store.fetch("w07", 1)]),
    (MINUTES, lambda store: [*store.fetch_many(WORDS, 60_000), *store.fetch_many(["w07"], [1])]),
    (MINUTES, lambda store: list(store.fetch_range("w07", reverse=True))),
    (MINUTES, lambda store: list(store.fetch_all(61_000, None, "w03", "w05"))),
    (VISITS, lambda store: [store.fetch_session("w07", 100, 207), store.fetch_session("w", 1, 2)]),
    (VISITS, lambda store: store.fetch_many(["w07", "w"], [100, 1], [207, 2])),
    (VISITS, lambda store: list(store.find_sessions("w07", 150, 160))),
    (VISITS, lambda store: list(store.find_all_sessions(205, reverse=True))),
    (VISITS, lambda store: list(store.find_sessions_by_end(205, 210))),
    (VISITS, lambda store: store.stream_time_ms),
]


@pytest.fixture(scope="module")
def flying(shop: Shop) -> Iterator[FlightServer]:
    """Serve the shop by Flight."""
    with FlightServer(shop.served, instance="one") as server:
        yield server


@pytest.fixture(scope="module")
def asking() -> Iterator[FlightStores]:
    """Ask instances."""
    with FlightStores() as stores:
        yield stores


@pytest.fixture(scope="module")
def routed(flying: FlightServer, asking: FlightStores) -> Iterator[RoutedStores]:
    """Query from a process that has nothing, and knows one address."""
    members = StaticMembership([flying.host], asking.instance)
    with RoutedStores(members, asking, timeout_s=0.2) as stores:
        yield stores


def patiently(read: Callable[[], Any]) -> Any:
    """Return what *read* gives, once the place of another reader was given back."""
    for _ in range(1_000):
        try:
            return read()
        except InvalidStateStoreError:
            time.sleep(0.005)
    pytest.fail("the place of a reader was never given back")


@pytest.mark.spec("SRV-21", "SRV-9")
@for_each("number", range(len(READS)))
def test_every_read_gives_what_it_gives_there(
    shop: Shop, routed: RoutedStores, number: int
) -> None:
    """Typed, in order, and with what is missed in its place."""
    specification, read = READS[number]

    assert read(routed.store(specification)) == read(
        QueryableStores(shop.served).store(specification)
    )


@pytest.mark.spec("SRV-21")
def test_reads_of_one_partition_are_of_it(shop: Shop, routed: RoutedStores) -> None:
    """The caller knows where the data is."""
    here = QueryableStores(shop.served)
    for number in range(PARTITIONS):
        assert list(routed.store(COUNTS, partition=number).range()) == list(
            here.store(COUNTS, partition=number).range()
        )


@pytest.mark.spec("SRV-21", "SRV-14")
def test_changes_are_given_as_columns(
    shop: Shop, flying: FlightServer, asking: FlightStores
) -> None:
    """From an offset on, decoded by the asker's specification."""
    for specification in STORES:
        found = [
            row
            for batch in asking.changes(flying.host, specification, 1)
            for row in batch.to_pylist()
        ]
        offsets = [row["offset"] for row in found]
        assert offsets == list(range(len(found)))
        later = asking.changes(flying.host, specification, 1, from_offset=offsets[-2])
        assert [row for batch in later for row in batch.to_pylist()] == found[-2:]
    with pytest.raises(OffsetOutOfRangeError):
        asking.changes(flying.host, COUNTS, 1, from_offset=10_000)
    with pytest.raises(InvalidArgumentError, match="one partition"):
        asking.changes(flying.host, COUNTS, 9)


@pytest.mark.spec("SRV-12", "SRV-6")
def test_errors_are_those_of_a_local_read(
    flying: FlightServer, asking: FlightStores, routed: RoutedStores
) -> None:
    """Their class says whether asking again helps, so it must not get lost."""
    far = ss.Position({ss.TopicPartition("words", 0): 999})
    with pytest.raises(NotUpToBoundError, match="offset 999"):
        routed.store(COUNTS, at_least=far).get("w07")
    with pytest.raises(InvalidArgumentError):
        list(routed.store(RATES).history("w07", 5, 1))
    other = Question(specification=ss.KeyValue("other"))
    with pytest.raises(UnknownStateStoreError):
        asking.store(flying.host, other).get(b"a")  # type: ignore[attr-defined]
    # Two names of kinds were all that it said to whoever had given `count` a KeyValue.
    with pytest.raises(UnknownStateStoreError, match="ask with a TimestampedKeyValue"):
        routed.store(ss.KeyValue("seen", key=ss.utf8, value=ss.json))
    wrong = Question(specification=ss.Versioned("counts", history_retention_ms=1))
    with pytest.raises(InvalidArgumentError, match="takes no"):
        asking.store(flying.host, wrong).get(b"a", 5)  # type: ignore[attr-defined]
    with pytest.raises(CapabilityNotSupportedError):
        asking.store(flying.host, other).committed_offset(ss.TopicPartition("a", 0))


@pytest.mark.spec("SRV-7")
def test_an_instance_that_is_gone_is_unreachable(shop: Shop) -> None:
    """Which another one may not be: so it is retryable."""
    with FlightStores(timeout_s=60) as asking:
        with FlightServer(shop.served) as server:
            counts: Any = asking.store(server.host, Question(specification=COUNTS))
            assert counts.get(b"w07")
        for read in (lambda: counts.get(b"w07"), lambda: list(counts.range())):
            with pytest.raises(UnreachableInstanceError) as raised:
                read()
            assert raised.value.retryable


@pytest.mark.spec("SRV-16")
def test_a_stream_and_a_question_have_limits(shop: Shop) -> None:
    """What is too much is refused, and what runs at once is counted back."""
    limits = Limits(max_rows=10, max_stream_rows=15, max_request_bytes=400, max_concurrent=1)
    with FlightServer(shop.served, limits=limits) as server, FlightStores() as asking:
        counts: Any = asking.store(server.host, Question(specification=COUNTS))
        with pytest.raises(LimitExceededError, match="15 rows"):
            list(counts.range())
        assert len(list(counts.range(b"w05", b"w10"))) == 6
        with pytest.raises(InvalidArgumentError, match="list of up to 10"):
            counts.get_many([b"a"] * 11)
        with pytest.raises(LimitExceededError, match="400 bytes"):
            counts.get(b"a" * 1_000)
        for _ in range(5):  # a reader that stops, or that was refused, keeps nobody out
            patiently(lambda: next(counts.range(b"w05", b"w18")))
        assert patiently(lambda: counts.get(b"w07"))


@pytest.mark.spec("SRV-16")
def test_a_stream_gives_a_row_that_a_point_read_refuses(shop: Shop) -> None:
    """What is held in memory is bounded by bytes; the text said that a row of a stream was, too."""
    with FlightServer(shop.served, limits=Limits(max_bytes=5)) as server, FlightStores() as asking:
        counts: Any = asking.store(server.host, Question(specification=COUNTS))
        with pytest.raises(LimitExceededError, match="5 bytes"):
            counts.get(b"w07")
        with pytest.raises(LimitExceededError, match="5 bytes"):
            counts.get_many([b"w07", b"w08"])
        assert [key for key, _ in counts.range(b"w07", b"w08")] == [b"w07", b"w08"]


@pytest.mark.spec("SRV-17")
def test_who_has_no_token_is_not_heard(shop: Shop) -> None:
    """For every kind of call."""
    token = "a-token-for-flight"  # noqa: S105  # guards nothing
    with FlightServer(shop.served, access=Access(token=token)) as server:
        question = Question(specification=COUNTS)
        with FlightStores(token=token) as known:
            store: Any = known.store(server.host, question)
            assert store.get(b"w07")
        reads: list[Callable[[Any, FlightStores], Any]] = [
            lambda store, _: store.get(b"w07"),
            lambda store, _: list(store.range()),
            lambda _, unknown: unknown.instance(server.host),
            lambda _, unknown: list(unknown.changes(server.host, COUNTS, 0)),
        ]
        for wrong in (None, "something-else-here"):
            with FlightStores(token=wrong) as unknown:
                for read in reads:
                    with pytest.raises(AccessDeniedError):
                        read(unknown.store(server.host, question), unknown)


@pytest.mark.spec("SRV-17")
def test_flight_with_certificates_of_both(shop: Shop, authority: Any) -> None:
    """With mTLS, who has none is not heard."""
    access = Access(
        certificate=authority / "server.pem",
        private_key=authority / "server.key",
        client_authority=authority / "ca.pem",
    )
    ca = authority / "ca.pem"
    own = {"certificate": authority / "client.pem", "private_key": authority / "client.key"}
    with FlightServer(shop.served, access=access) as server:
        with FlightStores(authority=ca, **own) as known:
            store: Any = known.store(server.host, Question(specification=COUNTS))
            assert store.get(b"w07")
        with FlightStores(authority=ca) as unknown:
            store = unknown.store(server.host, Question(specification=COUNTS))
            with pytest.raises(StateStoreError):
                store.get(b"w07")


@pytest.mark.spec("SRV-18", "SRV-11")
@for_each(
    "ticket",
    [
        b"",
        b"\x80\x04\x95",
        b"[" * 50_000,
        b'{"store":"counts"}',
        b'{"store":"counts","read":"drop"}',
        b'{"store":"counts","read":"range","code":"x"}',
        b'{"store":"counts","read":"get","key":7}',
        b'{"store":"counts","read":"get","key":"*"}',
        b'{"store":"counts","read":"range","limit":-1}',
        b'{"store":"counts","read":"range","limit":1e400}',
        b'{"store":"counts","read":"range","as_of_ms":5}',
        b'{"store":"counts","read":"about","at_least":{"x":[]}}',
        b'{"store":"counts","read":"about","at_least":{"01":[]}}',
        b'{"store":"counts","read":"range","at_least":[["t",-1,5]]}',
        b'{"store":"counts","read":"range","at_least":[["t",0,5],["t",0,3]]}',
        b'{"store":"counts","read":"range","at_least":[[[],0,5]]}',
        b'{"store":"../counts","read":"range"}',
    ],
)
def test_a_hostile_ticket_is_a_plain_refusal(flying: FlightServer, ticket: bytes) -> None:
    """No traceback, no path, and the server is as it was."""
    client = flight.connect(f"grpc://{flying.host}")
    for call in (
        lambda: client.do_get(flight.Ticket(ticket)).read_all(),
        lambda: list(client.do_action(flight.Action("read", ticket))),
        lambda: list(client.do_action(flight.Action("about", ticket))),
    ):
        with pytest.raises((flight.FlightError, pa.ArrowException)) as raised:
            call()
        told = json.loads(raised.value.extra_info)
        assert told["error"] in {"InvalidArgumentError", "UnknownStateStoreError"}
        assert "Traceback" not in str(raised.value)
    client.close()


@pytest.mark.spec("SRV-18")
def test_nothing_can_be_written(flying: FlightServer) -> None:
    """There is no call that takes data."""
    client = flight.connect(f"grpc://{flying.host}")
    table = pa.table({"a": [1]})
    path = flight.FlightDescriptor.for_path("counts")
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError), match="only reads"):
        client.do_put(path, table.schema)[0].close()  # either of the two is told
    somewhere = flight.FlightDescriptor.for_command(b"counts")
    calls: list[Callable[[], Any]] = [
        lambda: list(client.do_action(flight.Action("delete", b"{}"))),
        lambda: list(client.list_flights()),
        lambda: client.get_flight_info(somewhere),
        lambda: client.get_schema(somewhere),
    ]
    for call in calls:
        with pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as raised:
            call()
        told = str(raised.value)
        assert re.search("there is no action|only reads", told), told
        assert "Traceback" not in told
    client.close()


@pytest.mark.spec("SRV-11")
def test_a_question_reads_as_it_was_written() -> None:
    """Whatever it asks."""
    bound = ss.Position({ss.TopicPartition("a", 1): 7, ss.TopicPartition("b", 0): 1})
    for query in (
        Query(store="s", read="get", key=b"\x00\xff", as_of_ms=0),
        Query(store="s", read="get_many", keys=(b"", b"a"), as_of_ms=(1, 2)),
        Query(store="s", read="range", first=b"", last=b"z", reverse=True, limit=5),
        Query(store="s", read="history", include_stale=True, max_lag=0, at_least=bound),
        Query(store="s", read="about", at_least={1: bound}, partition=0),
        Query(store="s", read="changes", partition=0, from_offset=0),
    ):
        assert query_from_json(query.as_json(), max_keys=5) == query
    long = json.dumps(
        {"store": "s", "read": "get_many", "keys": [base64.b64encode(b"a").decode()] * 6}
    )
    with pytest.raises(InvalidArgumentError):
        query_from_json(long.encode(), max_keys=5)


@pytest.mark.spec("SRV-21", "SRV-11")
def test_a_time_of_zero_is_one(own_shop: Shop) -> None:
    """The window that starts in 1970 was asked for, and the answer was that a start is needed.

    A field of 0 was taken for one that is not given: so a time as of 0, which a store without
    history does not take, was ignored as well.
    """
    for task in own_shop.manager.tasks.values():
        task.store("minutes").put("w07", 70, window_start_ms=0)
        task.store("visits").put("w07", 0, 0, 71)
        task.commit({})
    with FlightServer(own_shop.served) as server, FlightStores() as remote:

        def store(specification: Any) -> Any:
            return remote.store(server.host, Question(specification=specification))

        assert store(MINUTES).fetch(b"w07", 0) == ss.int64.encode(70)
        assert store(VISITS).fetch_session(b"w07", 0, 0) == ss.int64.encode(71)
        assert store(RATES).get(b"w07", 0).valid_from_ms == 0
        wrong = ss.Versioned("counts", history_retention_ms=1)
        with pytest.raises(InvalidArgumentError, match="takes no 'as_of_ms'"):
            store(wrong).get(b"w07", 0)
