"""A client of a schema registry: schemas by their number, and numbers of schemas.

It speaks the interface of Confluent's registry, which those of others have as well. What is there
under a number never changes, so each is asked for once.
"""

import json
from base64 import b64encode
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from statestores.errors import InvalidArgumentError, SerializationError, StorageError
from statestores.spi.forking import renew_after_fork

if TYPE_CHECKING:
    from ssl import SSLContext

_NOT_FOUND: Final = 404
_REFUSALS: Final = frozenset({409, 422})

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """The schemas of one registry. Any thread may ask it; what was answered once is kept."""

    def __init__(
        self, url: str, *, timeout_seconds: float = 10.0, tls: "SSLContext | None" = None
    ) -> None:
        """Use the registry at *url*; a user and a password for it may be part of that.

        Nothing is asked yet.

        Raises:
            InvalidArgumentError: *url* is none of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or parts.hostname is None:
            raise InvalidArgumentError(
                "a schema registry is given by its URL, as https://user:password@host:8081"
            )
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if parts.username is not None:
            given = f"{parts.username}:{parts.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {b64encode(given).decode()}"
        self._timeout = timeout_seconds
        self._tls = tls
        self._lock = Lock()
        self._schemas: dict[int, str] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Have a free lock, in a forked child."""
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    def schema(self, number: int, kind: str) -> str:
        """Return the text of the schema *number*, of the *kind* AVRO or PROTOBUF.

        Raises:
            SerializationError: There is none, it is of another kind, or refers to other schemas.
            StorageError: The registry does not answer.
        """
        with self._lock:
            known = self._schemas.get(number)
        if known is not None:
            return known
        found = self._ask("GET", f"/schemas/ids/{number}")
        if found is None:
            raise SerializationError(
                f"the registry {self.url} has no schema {number}; the value was written with "
                "another registry, or the schema was removed"
            )
        if found.get("schemaType", "AVRO") != kind or found.get("references"):
            raise SerializationError(
                f"the schema {number} of the registry {self.url} is not a schema of {kind} that "
                "stands for itself; use a serde of your own for it"
            )
        text = str(found["schema"])
        with self._lock:
            self._schemas[number] = text
        return text

    def number(self, subject: str, schema: str, kind: str, *, register: bool) -> int:
        """Return the number of *schema* under *subject*; *register* puts it there if need be.

        Raises:
            SerializationError: It is not there, or is refused by the registry's rules.
            StorageError: The registry does not answer.
        """
        with self._lock:
            known = self._numbers.get((subject, schema))
        if known is not None:
            return known
        document = {"schema": schema, **({} if kind == "AVRO" else {"schemaType": kind})}
        place = f"/subjects/{quote(subject, safe='')}"
        found = self._ask("POST", f"{place}/versions" if register else place, document)
        if found is None:
            raise SerializationError(
                f"the registry {self.url} does not have this schema under {subject!r}; register it "
                "there, or pass register=True"
            )
        number = int(found["id"])
        with self._lock:
            self._numbers[subject, schema] = number
            self._schemas.setdefault(number, schema)
        return number

    def _ask(self, method: str, path: str, document: object = None) -> dict[str, Any] | None:
        """Return the answer; ``None`` if there is no such thing."""
        # Whoever has no registry does not wait for these: `import statestores` would.
        from urllib.error import HTTPError, URLError  # noqa: PLC0415  # see above
        from urllib.request import Request, urlopen  # noqa: PLC0415  # see above

        body = None if document is None else json.dumps(document).encode()
        request = Request(  # noqa: S310  # the scheme was looked at
            self.url + path, data=body, headers=self._headers, method=method
        )
        try:
            with urlopen(request, timeout=self._timeout, context=self._tls) as answer:  # noqa: S310  # the same
                found: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            with error:  # its connection: until it is collected, the socket would be open
                if error.code == _NOT_FOUND:
                    return None
                said = error.read(1000).decode("utf-8", "replace")
                if error.code in _REFUSALS:
                    raise SerializationError(
                        f"the registry {self.url} refuses the schema: {said}; change it so that it "
                        "is compatible with those before it"
                    ) from error
                raise StorageError(
                    f"the registry {self.url} answers {error.code}: {said}; check its URL and "
                    "rights"
                ) from error
        except (URLError, OSError, ValueError) as error:
            raise StorageError(
                f"the registry {self.url} does not answer: {error}; try again when it does"
            ) from error
        return found
