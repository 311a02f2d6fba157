"""The Flight server: a point read is an action, and everything with rows is a stream.

A ticket is a question as JSON (`statestores.serving.query`), and the columns that come back are
bytes: whoever asks decodes by its own specification. An error crosses with its class.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import flight

from statestores.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    LimitExceededError,
    StateStoreError,
    StorageError,
)
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata
from statestores.serving.access import DEFAULT_ADDRESS, Access, read_pem
from statestores.serving.answers import Answers
from statestores.serving.errors_on_wire import as_bytes
from statestores.serving.flight.connections import cut_connections
from statestores.serving.flight.point_answers import encoded_rows
from statestores.serving.limits import Limits
from statestores.serving.query import Query, query_from_json
from statestores.serving.served import Served, instance_of
from statestores.spi.closing import Closing

READ, ABOUT, INSTANCE = "read", "about", "instance"
"""The actions: a read of a few rows, what is known of a store, and what is here."""

_LONGEST_END_SECONDS = 5.0
_CUT_SECONDS = 0.5

_METHODS = frozenset(
    {
        flight.FlightMethod.DO_GET,
        flight.FlightMethod.DO_ACTION,
        flight.FlightMethod.LIST_ACTIONS,
        flight.FlightMethod.HANDSHAKE,
    }
)

_LOGGER = logging.getLogger("statestores.serving")


class FlightServer(Closing):
    """Serves over Arrow Flight from its construction until `close`."""

    def __init__(
        self,
        served: Served,
        *,
        address: str = DEFAULT_ADDRESS,
        port: int = 0,
        instance: str | None = None,
        access: Access | None = None,
        limits: Limits | None = None,
        http: Host | None = None,
        advertised: str | None = None,
    ) -> None:
        """Listen at *address* and *port*; 0 is any free one.

        Args:
            served: What is served.
            address: Where to listen; see `HttpServer`.
            port: The port; 0: any that is free.
            instance: The name of this instance; by default its address.
            access: Who may ask.
            limits: What an answer may take.
            http: Where the same is served over HTTP, if it is.
            advertised: The name under which others reach this machine; by default *address*.

        Raises:
            InvalidArgumentError: The address wants what *access* does not have.
            StorageError: The address or port cannot be listened at, or a certificate not be read.
        """
        access = access or Access()
        access.check_address(address)
        settings: dict[str, Any] = {}
        if access.certificate is not None and access.private_key is not None:
            settings["tls_certificates"] = [
                (read_pem(access.certificate), read_pem(access.private_key))
            ]
        if access.client_authority is not None:
            settings["verify_client"] = True
            settings["root_certificates"] = read_pem(access.client_authority)
        name = f"[{address}]" if ":" in address else address
        scheme = "grpc+tls" if access.is_encrypted else "grpc"
        try:
            self._server = _Server(
                Answers(served, limits),
                self._own,
                f"{scheme}://{name}:{port}",
                middleware={"access": _Guard(access)},
                **settings,
            )
        except (pa.ArrowException, OSError) as error:
            raise StorageError(f"cannot listen at {address}:{port}: {error}") from error
        self._host = Host(advertised or address, self._server.port)
        self._served, self._http = served, http
        self._ending: Thread | None = None
        self._end_seconds = min((limits or Limits()).max_ms / 1000, _LONGEST_END_SECONDS)
        self._instance = instance or str(self._host)
        self._thread = Thread(
            target=self._server.serve, name=f"flight-{self._host.port}", daemon=True
        )
        self._thread.start()

    @property
    def host(self) -> Host:
        """Where others reach it."""
        return self._host

    def _own(self) -> InstanceMetadata:
        return instance_of(self._served, self._instance, host=self._host, http=self._http)

    def close(self) -> None:
        """Answer what is being asked, and end. Idempotent.

        Who reads nothing of its answer is waited for as long as an answer may take, and up to five
        seconds; then its connection is cut. Flight itself would wait for ever, and an application
        could not end.
        """
        if self._ending is None:
            self._ending = Thread(target=self._server.shutdown, name="end-flight", daemon=True)
            self._ending.start()
        self._ending.join(self._end_seconds)
        while self._ending.is_alive():
            cut_connections(self._host.port)
            self._ending.join(_CUT_SECONDS)
        self._thread.join()


class _Guard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who has the token."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        """Refuse a call without the token, or that is no read, before anything of it is read."""
        try:
            self._access.check_header(next(iter(headers.get("authorization", [])), None))
        except AccessDeniedError as error:
            raise flight.FlightUnauthenticatedError(str(error), as_bytes(error)) from error
        if info.method not in _METHODS:  # else Flight answers with a traceback
            _refuse(
                InvalidArgumentError(
                    f"only reads are answered here, by tickets and the actions {READ!r}, {ABOUT!r} "
                    f"and {INSTANCE!r}"
                )
            )


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """What Flight calls, on threads of its own."""

    def __init__(
        self, answers: Answers, own: Callable[[], InstanceMetadata], location: str, **settings: Any
    ) -> None:
        super().__init__(location, **settings)
        self._answers = answers
        self._own = own

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Answer with rows, batch after batch; the first is read before anything is sent."""
        try:
            stream = _Stream(self._answers, self._query(ticket.ticket))
        except Exception as error:  # noqa: BLE001  # Flight would send a traceback
            _refuse(error)
        return flight.GeneratorStream(stream.schema, stream)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Answer a read of a few rows, or say what is here."""
        try:
            return iter([flight.Result(self._answer(action.type, action.body.to_pybytes()))])
        except Exception as error:  # noqa: BLE001  # Flight would send a traceback
            _refuse(error)

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """Return what `do_action` does."""
        return [
            (READ, "the few rows that answer a question"),
            (ABOUT, "positions, stream time and entries of a store"),
            (INSTANCE, "what this instance has"),
        ]

    def _answer(self, action: str, body: bytes) -> bytes:
        if action == INSTANCE:
            return encoded_rows(self._own().as_json())
        if action not in {READ, ABOUT}:
            raise InvalidArgumentError(f"there is no action {action!r:.80}")
        query = self._query(body)
        with self._answers.turn() as deadline:
            if action == ABOUT:
                return encoded_rows(self._answers.about(query))
            return encoded_rows(list(self._answers.rows(query, deadline)[1]))

    def _query(self, data: bytes) -> Query:
        limits = self._answers.limits
        if len(data) > limits.max_request_bytes:
            raise LimitExceededError(f"a question has up to {limits.max_request_bytes} bytes")
        return query_from_json(data, max_keys=limits.max_rows)


class _Stream:
    """The batches of an answer. It is one of those that run until it ends, or nobody has it."""

    def __init__(self, answers: Answers, query: Query) -> None:
        self._held = ExitStack()
        with ExitStack() as opening:
            deadline = opening.enter_context(answers.turn())
            self.schema, self._batches = answers.batches(query, deadline)
            self._first = next(self._batches, None)
            self._held = opening.pop_all()

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> Any:
        try:
            first, self._first = self._first, None
            return next(self._batches) if first is None else first
        except StopIteration:
            self._held.close()
            raise
        except Exception as error:  # noqa: BLE001  # Flight would send a traceback
            self._held.close()
            _refuse(error)

    def __del__(self) -> None:
        self._held.close()


def _refuse(error: Exception) -> NoReturn:
    """Raise what crosses the wire for *error*: nothing of it but a store's own words."""
    if isinstance(error, StateStoreError):
        raise flight.FlightServerError(str(error), as_bytes(error)) from None
    _LOGGER.error("a question could not be answered", exc_info=error)
    raise flight.FlightInternalError("the question could not be answered") from None
