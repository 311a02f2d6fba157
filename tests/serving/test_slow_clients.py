"""Clients that take their time: what they hold is given back, and nobody else waits for them."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import plain_http
import pyarrow as pa
import pytest
from pyarrow import flight
from served_shop import COUNTS, SEEN, Shop

from statestores.errors import InvalidStateStoreError
from statestores.query.metadata.host import Host
from statestores.serving import FlightServer, FlightStores, HttpServer, Limits, limits
from statestores.serving.answers import _STALLED_TIMES
from statestores.serving.flight.server import _Stream
from statestores.serving.http.sparing_log import SparingLogger
from statestores.serving.http.timed_protocol import TimedProtocol
from statestores.serving.query import Query
from statestores.tasks import TaskId

_MOST_BATCHES = 2
"""How many a stream takes that nobody reads: gRPC has some 64 KiB of one, and holds the next."""
_SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
"""A client that takes what it reads: else gRPC measures, and on a slow machine takes 27 MiB."""
_HALF_A_HEAD = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: "


@contextmanager
def connected(server: HttpServer) -> Iterator[socket.socket]:
    """Connect to *server*, with little room for what comes."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.settimeout(30)
        one.connect((server.host.name, server.host.port))
        yield one


def wait_for(what: Callable[[], bool]) -> None:
    """Return when *what* is so."""
    for _ in range(6_000):
        if what():
            return
        time.sleep(0.005)
    pytest.fail("it never was so")


def ended(one: socket.socket) -> bool:
    """Read to the end, however the other side ends it."""
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.spec("SRV-18")
def test_half_a_request_is_not_waited_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred connections that said nothing closed the server to everybody, for ever.

    Neither uvicorn nor h11 has a limit for the head of a request, and the number of connections has
    one: beyond it even `/health` was 503. Now who says nothing is let go.
    """
    beginnings = (
        b"",
        _HALF_A_HEAD,
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" + _HALF_A_HEAD,
        b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nab",
    )
    with HttpServer(shop.served, limits=Limits(max_concurrent=1)) as server:
        with monkeypatch.context() as hurried:
            hurried.setattr(TimedProtocol, "head_s", 0.05)
            for beginning in beginnings:
                with connected(server) as one:
                    one.sendall(beginning)
                    assert ended(one)
            with ExitStack() as all_at_once:
                held = [all_at_once.enter_context(connected(server)) for _ in range(20)]
                assert all(ended(each) for each in held)
        wait_for(lambda: not server._server.server_state.connections)
        # At leisure: what is asked on a slow machine takes longer than 50 ms.
        assert plain_http.get(f"{server.url}/health", timeout=60).status_code == 200


@dataclass(slots=True)
class Clock:
    """The time by which answers are late, which a test moves."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Return it."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stop the clock of deadlines: however slow a machine is, nothing is late by itself."""
    clock = Clock()
    monkeypatch.setattr(limits, "time", clock)
    return clock


@pytest.mark.spec("SRV-16", "SRV-18")
@pytest.mark.usefixtures("clock")
def test_an_answer_that_nobody_reads_is_given_up(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for much and reads nothing held it in the server's memory, for ever."""
    _put_big(own_shop, 3)
    path = "/v1/stores/seen/rows?prefix=big&partition=0"
    with HttpServer(own_shop.served, limits=Limits(max_ms=300)) as server:
        with connected(server) as one:
            one.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            state = server._server.server_state
            wait_for(lambda: state.total_requests == 1)
            wait_for(lambda: not state.connections)
            assert ended(one)
        # At leisure: a slow machine does not send so much in 300 ms.
        protocol = server._server.config.http_protocol_class
        monkeypatch.setattr(protocol, "answer_s", 60)
        assert len(plain_http.get(server.url + path, timeout=60).content) > 8 << 20


def reading_nothing(host: Host) -> tuple[Any, Any]:
    """Ask for all that is large; return the client, and the stream that it does not read."""
    client = flight.connect(f"grpc://{host}", generic_options=_SMALL_WINDOW)
    try:
        ticket = flight.Ticket(Query(store="seen", read="range", partition=0).as_json())
        return client, client.do_get(ticket)
    except flight.FlightError:
        client.close()
        raise


def _put_big(shop: Shop, number: int) -> None:
    task = shop.manager.task(TaskId(0, 0))
    for each in range(number):
        task.store("seen").put(f"big{each}", "x" * (3 << 20), timestamp_ms=1)
    task.commit({})


@pytest.mark.spec("SRV-16", "SRV-18")
def test_a_stream_that_nobody_reads_keeps_nobody_out(own_shop: Shop, clock: Clock) -> None:
    """As many clients as may ask at once stopped in the middle: nobody else was heard any more.

    A Flight server cannot end a call, so it waited for them, at its own end too: an application
    with one frozen reader never ended. Now what has taken its time counts no more, and the
    connection is cut when the server is closed.
    """
    _put_big(own_shop, 9)
    few = Limits(max_ms=300, max_concurrent=1)
    with FlightStores(timeout_s=60) as remote:
        with FlightServer(own_shop.served, limits=few) as server:
            client, reader = reading_nothing(server.host)
            counts = remote.store(server.host, COUNTS)
            with pytest.raises(InvalidStateStoreError, match="try again"):
                counts.get("w07")
            clock.now += 1

            assert counts.get("w07") == 7
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            reader.read_all()
        client.close()


@pytest.mark.spec("SRV-16", "SRV-18")
def test_streams_that_nobody_reads_take_bounded_memory(
    own_shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server cannot end a call: nothing of it runs while gRPC waits for who reads nothing.

    So there are only so many, and each has only so much. One that is read on after its time ends.
    """
    _put_big(own_shop, 9)
    taken: dict[int, int] = {}
    following = _Stream.__next__

    def counted(stream: _Stream) -> object:
        taken[id(stream)] = taken.get(id(stream), 0) + 1
        return following(stream)

    monkeypatch.setattr(_Stream, "__next__", counted)
    stuck = []
    with FlightServer(own_shop.served, limits=Limits(max_ms=50, max_concurrent=1)) as server:
        for _ in range(_STALLED_TIMES):
            stuck.append(reading_nothing(server.host))
            clock.now += 1
        for _ in range(20):
            with pytest.raises(flight.FlightError, match="try again"):
                reading_nothing(server.host)
        wait_for(lambda: len(taken) == _STALLED_TIMES)

        assert max(taken.values()) <= _MOST_BATCHES
        with pytest.raises(flight.FlightError, match="took more than 50 ms"):
            stuck[0][1].read_all()
        stuck.append(reading_nothing(server.host))  # in the place that is free again
    for client, _ in stuck:
        client.close()


@pytest.mark.spec("SRV-18")
def test_a_batch_of_large_rows_is_small(own_shop: Shop) -> None:
    """Four thousand rows were one batch, of whatever size: so a stream took any memory."""
    _put_big(own_shop, 4)
    with FlightServer(own_shop.served) as server, FlightStores() as remote:
        query = Query(store="seen", read="range", first=b"big", last=b"bigz", partition=0)
        sizes = [batch.num_rows for batch in remote.batches(server.host, query)]

        assert sizes == [2, 2]
        assert len(list(remote.store(server.host, SEEN, partition=0).range("big", "bigz"))) == 4


@pytest.mark.spec("SRV-28")
def test_what_is_no_request_is_not_logged_each_time(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Uvicorn logged a warning for each: a stranger without a token could fill the disk.

    One is logged for a while, and the next one says how many were not.
    """
    told = SparingLogger("uvicorn.error", seconds=0)
    with HttpServer(shop.served) as server:
        for _ in range(20):
            with socket.create_connection((server.host.name, server.host.port)) as one:
                one.sendall(b"\x00\r\n\r\n")
                while one.recv(4096):
                    pass
    texts = [each.getMessage() for each in caplog.records if each.name == "uvicorn.error"]

    assert texts == ["Invalid HTTP request received."]
    caplog.clear()
    for _ in range(2):
        told.warning("once %s", "more")
    assert [each.getMessage() for each in caplog.records] == ["once more"] * 2


@pytest.mark.spec("SRV-28")
def test_a_warning_says_how_many_were_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And errors, which strangers do not cause, are logged each time."""
    now = [1_000.0]
    monkeypatch.setattr("statestores.serving.http.sparing_log.monotonic", lambda: now[0])
    logger = SparingLogger("uvicorn.error", seconds=60)
    for _ in range(5):
        logger.warning("strange")
        logger.error("ours")
    now[0] += 61
    logger.warning("strange")

    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "strange",
        "strange (4 further warnings were not logged)",
    ]
    assert [each.levelname for each in caplog.records].count("ERROR") == 5
