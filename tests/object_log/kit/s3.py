"""An S3 server for tests, and a proxy before it that fails as networks and services do."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from statestores.storage import ObjectStorage, Outcome, open_storage

_PROGRAM = Path(__file__).parent / "serial_s3.py"
_SHORT = timedelta(milliseconds=5)
_RACERS = 12
_numbers = itertools.count()
SECRET = "not-to-be-shown-anywhere"  # noqa: S105  # of a server of the tests


class Bucket(NamedTuple):
    """A bucket of a server, and how it is reached."""

    name: str
    options: dict[str, Any]

    @property
    def root(self) -> str:
        """The URL of a state root."""
        return f"s3://{self.name}/some/root"

    @property
    def spark_options(self) -> dict[str, str]:
        """How Spark reaches it: what it may show, and what not."""
        shown = {name: self.options[name] for name in ("endpoint", "region", "client_options")}
        secrets = {name: self.options[name] for name in ("access_key_id", "secret_access_key")}
        return {"storageOptions": json.dumps(shown), "storageSecrets": json.dumps(secrets)}

    def through(self, proxy: "FaultyProxy") -> "Bucket":
        """Return the same bucket behind *proxy*."""
        return Bucket(self.name, options_of(proxy.port))

    def storage(self) -> ObjectStorage:
        """Return the storage at the root."""
        return open_storage(self.root, self.options)


def options_of(port: int) -> dict[str, Any]:
    """Return the storage options for a server at *port*."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "test-key-id",
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "client_options": {"allow_http": True, "timeout": "20s"},
        "retry_config": {
            "max_retries": 2,
            "backoff": {"init_backoff": _SHORT, "max_backoff": _SHORT, "base": 2},
        },
    }


class Server:
    """The server in a process of its own."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    @property
    def process_id(self) -> int:
        """The id of that process."""
        return self._process.pid

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def bucket(self) -> Bucket:
        """Make a bucket."""
        name = f"bucket{next(_numbers)}"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
        connection.close()
        return Bucket(name, options_of(self.port))

    def probe(self) -> None:
        """Accept a server on which, of many puts with one condition, exactly one wins."""
        storage = self.bucket().storage()
        for name in ("a", "b", "c"):
            bodies = [b"%d" % number for number in range(_RACERS)]
            assert _winners(partial(storage.create, name), bodies) == 1
            found: Any = storage.read(name)
            assert found.data in bodies
            assert _winners(_Replace(storage, name, found.tag), bodies) == 1


@dataclass(frozen=True)
class _Replace:
    storage: ObjectStorage
    name: str
    tag: str

    def __call__(self, data: bytes, /) -> Outcome:
        return self.storage.replace(self.name, data + b" again", self.tag)


def _winners(put: Callable[[bytes], Outcome], bodies: list[bytes]) -> int:
    together = threading.Barrier(len(bodies))

    def race(data: bytes) -> Outcome:
        together.wait()
        return put(data)

    with ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(race, bodies)).count(Outcome.DONE)


Fault = Callable[[str, str], str | None]
"""From method and path to what goes wrong: ``refuse``: the service answers 503, and does nothing;
``forget``: it does it, and answers 500; ``hang up``: it does it, and the answer is lost; ``slow``;
``truncate``: the answer ends too early; ``deny``: the service answers 403, and quotes what it was
given, as services do."""

DENIED = (
    b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Token-0>a-token</Token-0>"
    b"<AWSAccessKeyId>test-key-id</AWSAccessKeyId></Error>"
)


class FaultyProxy:
    """Passes requests on to a server, unless its `fault` says what goes wrong."""

    def __init__(self, port: int) -> None:
        self.fault: Fault = lambda method, path: None
        self.keys_per_page: int | None = None
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                proxy.handle(self, port)

            do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = handle_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, request: BaseHTTPRequestHandler, port: int) -> None:
        """Pass *request* on to *port*, or do it wrong."""
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        self.requests.append((request.command, request.path))
        fault = self.fault(request.command, request.path)
        request.close_connection = True
        if fault == "refuse":
            request.send_error(503)
            return
        if fault == "deny":
            request.send_response_only(403)
            request.send_header("Content-Length", str(len(DENIED)))
            request.end_headers()
            request.wfile.write(DENIED)
            return
        if fault == "slow":
            time.sleep(0.05)
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {name: value for name, value in request.headers.items() if name != "Connection"}
        path = request.path
        if self.keys_per_page is not None and "list-type=2" in path:
            path += f"&max-keys={self.keys_per_page}"
        connection.request(request.command, path, body or None, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if fault == "hang up":
            return
        if fault == "forget":
            request.send_error(500)
            return
        request.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding"}:
                request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content[: len(content) // 2] if fault == "truncate" else content)
