"""Who is let in, and what hostile requests get."""

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import plain_http
import pytest
from served_shop import Shop

from statestores.errors import AccessDeniedError, InvalidArgumentError, StorageError
from statestores.serving import Access, HttpServer
from statestores_conformance.many_cases import for_each

TOKEN = "a-token-for-tests-0123"  # noqa: S105  # guards nothing
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.spec("SRV-17")
@for_each("address", ["0.0.0.0", "::", "10.1.2.3", "example.org"])  # noqa: S104  # refused
def test_an_address_that_others_reach_wants_encryption_and_a_credential(address: str) -> None:
    """Nobody serves a store to the world by leaving something out."""
    pem: dict[str, Any] = {"certificate": "c.pem", "private_key": "k.pem"}
    for lacking in (Access(), Access(token=TOKEN), Access(**pem)):
        with pytest.raises(InvalidArgumentError, match="other machines"):
            lacking.check_address(address)
    for enough in (
        Access(insecure=True),
        Access(**pem, token=TOKEN),
        Access(**pem, client_authority="ca.pem"),
    ):
        enough.check_address(address)
    for here in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        Access().check_address(here)


@pytest.mark.spec("SRV-17")
@for_each(
    "wrong",
    [
        {"certificate": "c.pem"},
        {"client_authority": "ca.pem"},
        {"token": "short"},
        {"token": "line\nbreak-in-a-token"},
    ],
)
def test_half_an_access_is_refused(wrong: dict[str, Any]) -> None:
    """A setting that protects nothing is not taken for one that does."""
    with pytest.raises(InvalidArgumentError):
        Access(**wrong)


@pytest.mark.spec("SRV-17")
@for_each("header", [None, "", TOKEN, "Bearer", f"Basic {TOKEN}", "Bearer \xff"])
def test_another_token_is_refused(header: str | None) -> None:
    """Whatever it looks like."""
    with pytest.raises(AccessDeniedError):
        Access(token=TOKEN).check_header(header)
    Access(token=TOKEN).check_header(f"Bearer {TOKEN}")
    assert TOKEN not in repr(Access(token=TOKEN))


@pytest.mark.spec("SRV-17")
def test_without_the_token_nothing_of_a_store_is_said(shop: Shop) -> None:
    """The page itself is open: it asks for the token, and has nothing before."""
    with (
        HttpServer(shop.served, access=Access(token=TOKEN)) as server,
        plain_http.client(base_url=server.url) as web,
    ):
        for path in ("/v1/stores", "/metrics", "/openapi.json", "/v1/stores/counts/value?key=a"):
            answer = web.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "counts" not in answer.text
            assert web.get(path, headers=BEARER).status_code == 200
        for path in ("/health", "/ready", "/"):
            answer = web.get(path)
            assert answer.status_code == 200
            assert "counts" not in answer.text


@pytest.mark.spec("SRV-18")
def test_only_reads_are_answered(web: httpx.Client) -> None:
    """Nothing that is asked changes anything."""
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert web.request(method, "/v1/stores/counts/value").status_code == 405
    assert web.post("/v1/stores/counts/rows").status_code == 405


@pytest.mark.spec("SRV-17")
def test_a_page_from_elsewhere_cannot_ask(web: httpx.Client) -> None:
    """A name that points to this machine is not this machine's, and answers are not shared."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert web.get("/v1/stores", headers={"host": host}).status_code == 421
    for host in ("localhost:1", "127.0.0.1", "[::1]:80"):
        answer = web.get("/v1/stores", headers={"host": host, "origin": "https://evil.example"})
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.spec("SRV-18")
@for_each(
    "body",
    [
        b"",
        b"\x80\x04\x95",
        b"null",
        b"[" * 100_000,
        b'{"keys":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"keys":[1]}',
        b'{"keys":["a"],"keys":["b"]}',
        b'{"keys":["a"],"code":"x"}',
        b'{"keys":["hex:0"]}',
        b'{"keys":[],"as_of":{"a":1}}',
        b'{"keys":["\\ud800"]}',
        b'{"keys":' + b"9" * 5_000 + b"}",
        json.dumps({"keys": ["a"] * 10_001}).encode(),
    ],
)
def test_a_hostile_body_is_a_plain_refusal(web: httpx.Client, body: bytes) -> None:
    """Whatever comes, it is no question, and the server is as it was."""
    answer = web.post("/v1/stores/counts/values", content=body)

    assert answer.status_code == 400
    assert answer.json()["error"] == "InvalidArgumentError"
    assert web.get("/health").status_code == 200


@pytest.mark.spec("SRV-18")
@for_each(
    "path",
    [
        "/v1/stores/..%2f..%2fetc/value?key=a",
        "/../../etc/passwd",
        "/page/%2e%2e/page.html",
        "/v1/stores/%00/value?key=a",
        "/v1/stores/counts/value?key=" + "a" * 60_000,
        "/v1/stores/counts/value?key=%ff%fe",
        "/v1/stores/counts/rows?first=%00&last=%ff",
        "/v1/stores/counts/rows?limit=1e9",
        "/v1/stores/counts/rows?limit=%D9%A1",
        "/v1/stores/counts/value?key=a&at_least=" + "[" * 20_000,
        "/v1/stores/seen/value?key=hex:" + "00" * 20_000,
    ],
)
def test_a_hostile_address_is_never_a_failure(web: httpx.Client, path: str) -> None:
    """Nothing outside of the stores is read, and nothing breaks."""
    answer = web.get(path)

    assert answer.status_code < 500
    assert "root:" not in answer.text


@pytest.mark.spec("SRV-18")
def test_an_endless_request_is_cut(server: HttpServer) -> None:
    """A header without end, or a body that is longer than said, takes no memory to speak of."""
    with socket.create_connection((server.host.name, server.host.port), 10) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nx: ")
        try:
            for _ in range(100):
                one.sendall(b"a" * 10_000)
            answer = one.recv(1_000)
        except OSError:
            answer = b""  # it was cut before all of it was sent
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.spec("SRV-17")
def test_a_client_needs_a_certificate_where_that_is_asked(shop: Shop, authority: Path) -> None:
    """With mTLS, who has none is not even heard."""
    access = Access(
        certificate=authority / "server.pem",
        private_key=authority / "server.key",
        client_authority=authority / "ca.pem",
    )
    trusting = ssl.create_default_context(cafile=authority / "ca.pem")
    known = ssl.create_default_context(cafile=authority / "ca.pem")
    known.load_cert_chain(authority / "client.pem", authority / "client.key")
    with HttpServer(shop.served, access=access) as server:
        assert server.url.startswith("https://")
        with httpx.Client(base_url=server.url, verify=known, trust_env=False) as web:
            assert web.get("/v1/stores/counts/value?key=w07").json()["found"] is True
        with (
            httpx.Client(base_url=server.url, verify=trusting, trust_env=False) as web,
            pytest.raises(httpx.TransportError),
        ):
            web.get("/health")


def test_a_port_that_is_taken_is_an_error(server: HttpServer, shop: Shop, tmp_path: Path) -> None:
    """The server is there when it is made, or it says why not."""
    with pytest.raises(StorageError, match=r"cannot listen .*is it taken"):
        HttpServer(shop.served, port=server.host.port)
    # "Is it taken?" was asked of this one, too.
    with pytest.raises(StorageError, match="give an address of this machine"):
        HttpServer(shop.served, address="192.0.2.1", access=Access(insecure=True))
    (tmp_path / "c.pem").write_text("nothing")
    with pytest.raises(StorageError, match="certificate"):
        HttpServer(
            shop.served,
            access=Access(certificate=tmp_path / "c.pem", private_key=tmp_path / "c.pem"),
        )
