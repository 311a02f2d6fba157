"""Asking other instances by Flight: connections by host, and errors as they were raised there."""

from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from threading import Lock
from typing import Any, NoReturn, TypeVar, Unpack, overload

import pyarrow as pa
from pyarrow import flight

from statestores.errors import (
    AccessDeniedError,
    InvalidTypeError,
    StateStoreError,
    UnreachableInstanceError,
)
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata
from statestores.query.position_bound import AtLeast
from statestores.query.questions import Question
from statestores.query.read_terms import GivenTerms, ReadTerms
from statestores.query.store_types import read_as
from statestores.reading.change_feed import feed_schema
from statestores.reading.partition_columns import decoded, serdes_of
from statestores.serving.access import read_pem
from statestores.serving.errors_on_wire import from_bytes
from statestores.serving.flight.point_answers import decoded_document, decoded_rows
from statestores.serving.flight.remote_stores import remote_store
from statestores.serving.flight.server import ABOUT, INSTANCE, READ
from statestores.serving.query import Query
from statestores.spi.closing import Closing
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore
from statestores.spi.window_specification import Window

K = TypeVar("K")
V = TypeVar("V")

DEFAULT_TIMEOUT_S = 5.0
"""How long a point read waits for its answer, by default."""

STREAM_TIMEOUT_S = 120.0
"""How long a stream may take in all, by default."""


class FlightStores(Closing):
    """Stores of other instances: a `statestores.query.RemoteStores`. Any thread may use it."""

    def __init__(
        self,
        *,
        token: str | None = None,
        authority: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        private_key: str | PathLike[str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        stream_timeout_s: float = STREAM_TIMEOUT_S,
    ) -> None:
        """Ask with these credentials; nothing is connected yet.

        Args:
            token: What instances ask for, if they do.
            authority: The file of certificates that those of instances come from (PEM): the
                connection is encrypted.
            certificate: The file of one's own certificate (PEM), where instances ask for it.
            private_key: The file of its private key.
            timeout_s: How long a point read waits.
            stream_timeout_s: How long a stream may take.

        Raises:
            StorageError: A file cannot be read.
        """
        headers = [] if token is None else [(b"authorization", b"Bearer " + token.encode("ascii"))]
        self._point = flight.FlightCallOptions(timeout=timeout_s, headers=headers)
        self._stream = flight.FlightCallOptions(timeout=stream_timeout_s, headers=headers)
        self._scheme = "grpc" if authority is None else "grpc+tls"
        self._settings: dict[str, Any] = {}
        if authority is not None:
            self._settings["tls_root_certs"] = read_pem(authority)
        if certificate is not None and private_key is not None:
            self._settings["cert_chain"] = read_pem(certificate)
            self._settings["private_key"] = read_pem(private_key)
        self._lock = Lock()
        self._clients: dict[Host, Any] = {}

    @overload
    def store(self, host: Host, store: Question, /) -> ReadOnlyStore: ...

    @overload
    def store(
        self,
        host: Host | str,
        store: KeyValue[K, V],
        /,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyKeyValueStore[K, V]: ...

    @overload
    def store(
        self,
        host: Host | str,
        store: TimestampedKeyValue[K, V],
        /,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]: ...

    @overload
    def store(
        self,
        host: Host | str,
        store: Versioned[K, V],
        /,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyVersionedStore[K, V]: ...

    @overload
    def store(
        self,
        host: Host | str,
        store: Window[K, V],
        /,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyWindowStore[K, V]: ...

    @overload
    def store(
        self,
        host: Host | str,
        store: Session[K, V],
        /,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlySessionStore[K, V]: ...

    def store(
        self,
        host: Host | str,
        store: Question | StoreSpecification[Any, Any],
        /,
        *,
        include_stale: bool = False,
        partition: int | None = None,
        at_least: AtLeast | None = None,
        max_lag: int | None = None,
    ) -> Any:
        """Return *store* at *host*: what that instance has, and nothing of any other.

        Nothing is asked yet. Of a `Question`, which has its own terms, it is a store of bytes; of a
        specification one of its keys and values. `statestores.query.RoutedStores` finds the host.

        Args:
            host: The instance.
            store: What the store is.
            include_stale: See `statestores.query.QueryableStores.store`, as the others.
            partition: The only partition to read.
            at_least: The position that what is read must have reached.
            max_lag: How many changes what is read may be behind.

        Raises:
            InvalidTypeError, InvalidArgumentError: *host* is none, or *store* neither.
        """
        place = Host.of(host)
        if isinstance(store, Question):
            return remote_store(self, place, store)
        if not isinstance(store, StoreSpecification):
            raise InvalidTypeError(f"a store is a specification or a Question, got {store!r}")
        terms = ReadTerms(
            include_stale=include_stale, partition=partition, at_least=at_least, max_lag=max_lag
        )
        return read_as(remote_store(self, place, Question.on(terms, store)), store)

    def instance(self, host: Host | str) -> InstanceMetadata:
        """Return what the instance at *host* says of itself; a `StaticMembership` asks by this.

        Raises:
            UnreachableInstanceError: It does not answer.
            StateStoreError: What it says is no such record.
        """
        data = self._act(Host.of(host), INSTANCE, b"")
        return InstanceMetadata.from_json(data, f"the record of {host}")

    def rows(self, host: Host, query: Query) -> list[tuple[Any, ...]]:
        """Return the few rows that answer *query*.

        Raises:
            StateStoreError: What was raised there.
            UnreachableInstanceError: There is no answer.
        """
        return decoded_rows(self._act(host, READ, query.as_json()))

    def about(self, host: Host, query: Query) -> dict[str, Any]:
        """Return what is known of a whole store there.

        Raises:
            StateStoreError: As `rows`.
        """
        found: dict[str, Any] = decoded_document(self._act(host, ABOUT, query.as_json()))
        return found

    def batches(self, host: Host, query: Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows of *query* as columns of bytes. The first is there at the call.

        Raises:
            StateStoreError: As `rows`; also in the middle.
        """
        try:
            reader = self._client(host).do_get(flight.Ticket(query.as_json()), self._stream)
            first = next(reader, None)
        except (pa.ArrowException, OSError) as error:
            _raise(host, error)

        def rest() -> Iterator[pa.RecordBatch]:
            chunk = first
            try:
                while chunk is not None:
                    yield chunk.data
                    chunk = next(reader, None)
            except (pa.ArrowException, OSError) as error:
                _raise(host, error)
            finally:
                if chunk is not None:
                    reader.cancel()  # nobody wants the rest

        return rest()

    def changes(
        self,
        host: Host | str,
        specification: StoreSpecification[Any, Any],
        partition: int,
        from_offset: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a partition, from an offset up to what is its end at the call.

        The columns are those of `PartitionReader.changes`, keys and values decoded by
        *specification*. To follow, ask again from behind the last offset.

        Raises:
            OffsetOutOfRangeError: The changelog does not have that offset.
            StateStoreError: As `rows`.
        """
        query = Query(
            store=specification.name,
            read="changes",
            partition=partition,
            from_offset=from_offset,
        )
        found = self.batches(Host.of(host), query)
        schema, serdes = feed_schema(specification), serdes_of(specification)
        return (decoded(batch, schema, serdes) for batch in found)

    def _act(self, host: Host, action: str, body: bytes) -> bytes:
        try:
            results = self._client(host).do_action(flight.Action(action, body), self._point)
            answer: bytes = next(iter(results)).body.to_pybytes()
        except (pa.ArrowException, OSError) as error:
            _raise(host, error)
        except StopIteration as error:
            raise UnreachableInstanceError(f"{host} answered nothing") from error
        return answer

    def _client(self, host: Host) -> Any:
        with self._lock:
            client = self._clients.get(host)
            if client is None:
                client = flight.connect(f"{self._scheme}://{host}", **self._settings)
                self._clients[host] = client
            return client

    def close(self) -> None:
        """Close the connections. Idempotent."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            with suppress(pa.ArrowException, OSError):
                client.close()


def _raise(host: Host, error: Exception) -> NoReturn:
    """Raise what was raised at *host*, or that it does not answer."""
    told = getattr(error, "extra_info", None)
    if told:
        raise from_bytes(told, str(error)) from error
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        raise AccessDeniedError(f"{host} does not know who asks") from error
    if isinstance(
        error,
        flight.FlightUnavailableError
        | flight.FlightTimedOutError
        | flight.FlightCancelledError
        | OSError,
    ):
        words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UnreachableInstanceError(f"{host} does not answer: {words}") from error
    raise StateStoreError(f"{host} could not answer: {str(error)[:200]}") from error
