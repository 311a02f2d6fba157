"""The HTTP server: bound before anybody is told of it, and on a thread of its own."""

import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep

import uvicorn

from statestores.errors import InvalidArgumentError, StorageError
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata
from statestores.query.queryable_stores import QueryableStores
from statestores.serving.access import DEFAULT_ADDRESS, Access
from statestores.serving.answers import Answers
from statestores.serving.http.application import application
from statestores.serving.http.timed_protocol import protocol_for
from statestores.serving.limits import Limits
from statestores.serving.served import Served, instance_of
from statestores.spi.closing import Closing

_START_SECONDS = 30.0
_MAX_HEADER_BYTES = 64 * 1024


class HttpServer(Closing):
    """Serves over HTTP from its construction until `close`."""

    def __init__(
        self,
        served: Served,
        *,
        address: str = DEFAULT_ADDRESS,
        port: int = 0,
        instance: str | None = None,
        access: Access | None = None,
        limits: Limits | None = None,
        others: Callable[[], Mapping[str, InstanceMetadata]] | None = None,
        flight: Host | None = None,
        queries: QueryableStores | None = None,
        advertised: str | None = None,
    ) -> None:
        """Listen at *address* and *port*; 0 is any free one.

        Args:
            served: What is served.
            address: Where to listen; another one than this machine's own wants encryption and a
                credential, see `Access`.
            port: The port; 0: any that is free.
            instance: The name of this instance; by default its address.
            access: Who may ask.
            limits: What an answer may take.
            others: Who else there is, such as `LeaseMembership.instances`; by default nobody.
            flight: Where the same is served by Flight, if it is.
            queries: What answers reads, such as a `statestores.query.RoutedStores` that also asks
                the other instances; by default what is served here alone.
            advertised: The name under which others reach this machine; by default *address*.

        Raises:
            InvalidTypeError: *served* has no stores.
            InvalidArgumentError: The address wants what *access* does not have.
            StorageError: The address or the port is taken or not this machine's, or a certificate
                cannot be read.
        """
        self._access = access or Access()
        self._access.check_address(address)
        limits = limits or Limits()
        answers = Answers(served, limits, queries)  # before there is a socket to be let go of
        self._socket = _bound(address, port)
        bound: int = self._socket.getsockname()[1]
        self._host = Host(advertised or address, bound)
        name = instance or str(self._host)

        def own() -> InstanceMetadata:
            return instance_of(served, name, host=flight, http=self._host)

        app = application(answers, self._access, address, instance=own, others=others)
        try:
            config = uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                http=protocol_for(limits.max_ms / 1000, 4 * limits.max_concurrent),
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=2,
                ssl_certfile=self._access.certificate,
                ssl_keyfile=self._access.private_key,
                ssl_ca_certs=(
                    None
                    if self._access.client_authority is None
                    else str(self._access.client_authority)
                ),
                ssl_cert_reqs=(
                    ssl.CERT_NONE if self._access.client_authority is None else ssl.CERT_REQUIRED
                ),
            )
            config.load()
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            files = (
                self._access.certificate,
                self._access.private_key,
                self._access.client_authority,
            )
            named = ", ".join(repr(str(each)) for each in files if each is not None)
            raise StorageError(
                f"cannot read the certificate, key or authority: {error}; check that {named} are "
                "files in PEM form that belong together, and that this user may read them"
            ) from error
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, name=f"http-{bound}", daemon=True)
        self._thread.start()
        until = monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or monotonic() > until:
                self.close()
                raise StorageError(f"cannot serve at {self._host}")
            sleep(0.005)

    @property
    def host(self) -> Host:
        """Where it listens."""
        return self._host

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{'https' if self._access.is_encrypted else 'http'}://{self._host}"

    def _run(self) -> None:
        with suppress(SystemExit):  # how uvicorn says that it cannot start
            self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Answer what is being asked, and end. Idempotent."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _bound(address: str, port: int) -> socket.socket:
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise InvalidArgumentError(f"a port is from 0 to 65535, got {port!r}")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; else each waits for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        advice = (
            "is it taken?"
            if error.errno == errno.EADDRINUSE
            else "give an address of this machine, and a port that this user may open"
        )
        raise StorageError(
            f"cannot listen at {address}:{port}: {error.strerror or error}; {advice}"
        ) from error
    return listening
