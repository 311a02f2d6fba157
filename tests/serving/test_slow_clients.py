"""Clients that take their time: what they hold is given back, and nobody else waits for them."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from served_shop import Shop

from statestores.serving import HttpServer, Limits
from statestores.serving.http.timed_protocol import TimedProtocol
from statestores.tasks import TaskId

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
    task = own_shop.manager.task(TaskId(0, 0))
    task.store("seen").put("big", "x" * (8 << 20), timestamp_ms=1)
    task.commit({})
    path = "/v1/stores/seen/value?key=big&partition=0"
    with HttpServer(own_shop.served, limits=Limits(max_ms=300)) as server:
        with connected(server) as one:
            one.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            connections = server._server.server_state.connections
            wait_for(lambda: bool(connections))
            wait_for(lambda: not server._server.server_state.connections)
            assert ended(one)
        assert len(httpx.get(server.url + path, trust_env=False).content) > 8 << 20
