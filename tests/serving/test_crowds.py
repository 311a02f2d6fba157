"""Many who ask, and what is no question: each is told so, as everything else is told."""

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from select import select
from threading import Event
from typing import Any

import httpx
import plain_http
import pytest
from served_shop import Shop

from statestores.query import QueryableStores
from statestores.serving import HttpServer, Limits, Served

_HOST = b"host: localhost\r\n"
_READ = b"GET /v1/stores/counts/value?key=w01 HTTP/1.1\r\n" + _HOST + b"\r\n"
_ROWS = b"GET /v1/stores/counts/rows HTTP/1.1\r\n" + _HOST
_POST = b"POST /v1/stores/counts/values HTTP/1.1\r\n" + _HOST
_MOST = 50
"""More than the 40 threads that Starlette gives to all that is asked at the same time."""


@contextmanager
def asking(server: HttpServer, *parts: bytes) -> Iterator[socket.socket]:
    """Connect to *server*, and send *parts*."""
    with socket.create_connection((server.host.name, server.host.port), timeout=60) as one:
        for part in parts:
            one.sendall(part)
        yield one


def answer_of(one: socket.socket) -> httpx.Response:
    """Read the next answer of a connection, whose body ends it or is as long as it says."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = one.recv(1 << 16)
        assert more, "it ended without an answer"
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    while len(body) < int(headers["content-length"]):
        body += one.recv(1 << 16)
    return httpx.Response(int(lines[0].split()[1]), headers=headers, content=body)


class _Waiting(QueryableStores):
    """What waits for a disk, until a test lets it go on."""

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self.goes_on = Event()

    def store(self, *arguments: Any, **terms: Any) -> Any:
        assert self.goes_on.wait(60)
        return super().store(*arguments, **terms)


@pytest.mark.spec("SRV-15", "SRV-16")
def test_reads_that_wait_keep_nothing_else_waiting(shop: Shop) -> None:
    """Forty reads that waited for a disk took `/health` with them, and nobody was turned away.

    Each request had one of 40 threads, a look at `/health` too, and up to 64 reads may run: so with
    an object store that did not answer, the instance seemed to be dead, and was restarted. Those
    who came too many waited for a thread, too, where SRV-16 has them told to try again.
    """
    stores = _Waiting(shop.served)
    with (
        HttpServer(shop.served, limits=Limits(max_concurrent=_MOST), queries=stores) as server,
        ExitStack() as open_,
    ):
        asked = [open_.enter_context(asking(server, _READ)) for _ in range(_MOST)]
        try:
            web = open_.enter_context(plain_http.client(base_url=server.url))
            assert web.get("/health", timeout=30).json() == {"status": "up"}
            assert web.get("/ready", timeout=30).json() == {"ready": True}
            with asking(server, _READ) as one_more:
                # Of 51, one is turned away, whichever that is; and all others wait.
                asked.append(one_more)
                [refused], _, _ = select(asked, [], [], 60)
                answer = answer_of(refused)
                asked.remove(refused)
                assert answer.status_code == 503
                assert answer.json()["error"] == "InvalidStateStoreError"
                stores.goes_on.set()
                found = [answer_of(each).status_code for each in asked]
        finally:
            stores.goes_on.set()

    assert found == [200] * _MOST


@pytest.mark.spec("SRV-12", "SRV-15", "SRV-16")
def test_who_comes_by_too_many_connections_is_told_so(shop: Shop) -> None:
    """It was the words `Service Unavailable`, of uvicorn, also for `/health`.

    A client of ours, which reads documents, raised an error of another class for it, that nobody
    asks again for; and whoever looks at `/health` took the instance for dead.
    """
    with (
        HttpServer(shop.served, limits=Limits(max_concurrent=1)) as server,
        ExitStack() as open_,
    ):
        for _ in range(4):
            one = open_.enter_context(asking(server, b"GET /health HTTP/1.1\r\n", _HOST, b"\r\n"))
            assert answer_of(one).status_code == 200
        one = open_.enter_context(asking(server, _READ))
        answer = answer_of(one)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.json() == {
            "error": "InvalidStateStoreError",
            "message": "there are too many connections; try again",
            "retryable": True,
        }
        one.sendall(b"GET /health HTTP/1.1\r\n" + _HOST + b"\r\n")
        assert answer_of(one).json() == {"status": "up"}


@pytest.mark.spec("SRV-12", "SRV-18")
@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x00\xdc\x01\x00\x00\xd8\x03\x03",
        b"GET /\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /v1/stores/\xc3\xa9/about HTTP/1.1\r\n" + _HOST + b"\r\n",
        _POST + b"content-length: -1\r\n\r\n",
        _POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\nZZ\r\n",
    ],
    ids=["tls", "http-0.9", "no-host", "no-ascii", "length", "chunk"],
)
def test_what_is_no_request_is_refused_by_a_document(server: HttpServer, request_: bytes) -> None:
    """It was a text of uvicorn's, without the headers that every answer has."""
    with asking(server, request_) as one:
        answer = answer_of(one)
        assert one.recv(1) == b""

    assert answer.status_code == 400
    assert answer.json()["error"] == "InvalidArgumentError"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.spec("SRV-18")
@pytest.mark.parametrize(
    "request_", [_ROWS, b"HEAD /nothing HTTP/1.1\r\n" + _HOST], ids=["get", "head"]
)
def test_half_a_request_that_goes_wrong_is_no_failure(
    server: HttpServer, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that is none, behind a question that was answered, put a traceback into the log.

    Uvicorn began another answer there, a refusal, which h11 does not take; so anybody could fill
    the log of a server with "Fatal error". Now that connection ends.
    """
    with caplog.at_level(logging.ERROR):
        with asking(server, request_ + b"transfer-encoding: chunked\r\n\r\n") as one:
            head = b""
            while b"\r\n\r\n" not in head:
                head += one.recv(1)
            one.sendall(b"ZZ\r\n")
            while one.recv(1 << 16):
                pass
        with asking(
            server, b"HEAD / HTTP/1.1\r\n", _HOST, b"transfer-encoding: chunked\r\n\r\nZZ\r\n"
        ) as one:
            while one.recv(1 << 16):
                pass

    assert caplog.records == []
