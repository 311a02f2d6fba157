"""Clients that take their time: what they hold is given back, and nobody else waits for them."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight
from served_shop import COUNTS, SEEN, Shop

from statestores.errors import InvalidStateStoreError
from statestores.serving import FlightServer, FlightStores, HttpServer, Limits
from statestores.serving.answers import _STALLED_TIMES
from statestores.serving.flight.server import _Stream
from statestores.serving.http.timed_protocol import TimedProtocol
from statestores.serving.query import Query
from statestores.tasks import TaskId

_MOST_BATCHES = 4
"""How many a stream takes that nobody reads: gRPC has some 64 KiB of one, and holds the next."""
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
    monkeypatch.setattr(TimedProtocol, "head_s", 0.05)
    with HttpServer(shop.served, limits=Limits(max_concurrent=1)) as server:
        for beginning in (
            b"",
            _HALF_A_HEAD,
            b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" + _HALF_A_HEAD,
            b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nab",
        ):
            with connected(server) as one:
                one.sendall(beginning)
                assert ended(one)
        held = [socket.create_connection((server.host.name, server.host.port)) for _ in range(20)]
        wait_for(lambda: not server._server.server_state.connections)
        for each in held:
            each.close()
        assert httpx.get(f"{server.url}/health", trust_env=False).status_code == 200


@pytest.mark.spec("SRV-16", "SRV-18")
def test_an_answer_that_nobody_reads_is_given_up(own_shop: Shop) -> None:
    """Whoever asks for much and reads nothing held it in the server's memory, for ever."""
    _put_big(own_shop, 3)
    path = "/v1/stores/seen/rows?prefix=big&partition=0"
    with HttpServer(own_shop.served, limits=Limits(max_ms=300)) as server:
        with connected(server) as one:
            one.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            connections = server._server.server_state.connections
            wait_for(lambda: bool(connections))
            wait_for(lambda: not server._server.server_state.connections)
            assert ended(one)
        assert len(httpx.get(server.url + path, trust_env=False).content) > 8 << 20


def _put_big(shop: Shop, number: int) -> None:
    task = shop.manager.task(TaskId(0, 0))
    for each in range(number):
        task.store("seen").put(f"big{each}", "x" * (3 << 20), timestamp_ms=1)
    task.commit({})


@pytest.mark.spec("SRV-16", "SRV-18")
def test_a_stream_that_nobody_reads_keeps_nobody_out(own_shop: Shop) -> None:
    """As many clients as may ask at once stopped in the middle: nobody else was heard any more.

    A Flight server cannot end a call, so it waited for them, at its own end too: an application
    with one frozen reader never ended. Now what has taken its time counts no more, and the
    connection is cut when the server is closed.
    """
    _put_big(own_shop, 9)
    limits = Limits(max_ms=300, max_concurrent=1)
    with FlightStores() as remote:
        with FlightServer(own_shop.served, limits=limits) as server:
            client = flight.connect(f"grpc://{server.host}")
            query = Query(store="seen", read="range", partition=0)
            reader = client.do_get(flight.Ticket(query.as_json()))
            counts = remote.store(server.host, COUNTS)

            def is_answered() -> bool:
                try:
                    return counts.get("w07") == 7
                except InvalidStateStoreError:
                    return False

            wait_for(is_answered)
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            reader.read_all()
        client.close()


@pytest.mark.spec("SRV-16", "SRV-18")
def test_streams_that_nobody_reads_take_bounded_memory(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
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
    ticket = flight.Ticket(Query(store="seen", read="range", partition=0).as_json())
    stuck = []
    with FlightServer(own_shop.served, limits=Limits(max_ms=50, max_concurrent=1)) as server:

        def is_full() -> bool:
            client = flight.connect(f"grpc://{server.host}")
            try:
                stuck.append((client, client.do_get(ticket)))
            except flight.FlightError:
                client.close()
            return len(stuck) == _STALLED_TIMES

        wait_for(is_full)
        with flight.connect(f"grpc://{server.host}") as late:
            for _ in range(20):
                with pytest.raises(flight.FlightError, match="try again"):
                    late.do_get(ticket)

        assert len(taken) == _STALLED_TIMES
        assert max(taken.values()) <= _MOST_BATCHES
        with pytest.raises(flight.FlightError, match="took more than 50 ms"):
            stuck[0][1].read_all()
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
