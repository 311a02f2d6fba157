"""What every request goes through: who asks, by which name, how, and what a browser may do.

It is the outermost: nothing of a request is read before it was let in.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from statestores.errors import AccessDeniedError, InvalidStateStoreError, StateStoreError
from statestores.serving.access import Access, allowed_hosts
from statestores.serving.errors_on_wire import as_document, status_of
from statestores.serving.http.rendering import json_response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEALTH = "/health"
OPEN = (HEALTH, "/ready", "/", "/page.css", "/page.js", "/topology.js", "/icon.svg")
"""What is answered without a token: none of it says anything of a store."""

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _POLICY),
]
"""What every answer has, a refusal too."""

IS_CROWDED = "is_crowded"
"""In the state of a request: whether it comes by one connection of too many."""


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: Any, access: Access, address: str) -> None:
        """Let in to *app*, which listens at *address*, whom *access* lets in."""
        self._app = app
        self._access = access
        names: Iterable[str] | None = allowed_hosts(address)
        self._names = None if names is None else {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return  # no web sockets, and no lifespan

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = dict(scope["headers"])
        if self._names is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in self._names:
                words = "this instance is called by another name than that of this machine"
                document = {"error": "AccessDeniedError", "message": words, "retryable": False}
                return json_response(document, 421)
        if scope.get("state", {}).get(IS_CROWDED) and scope["path"] != HEALTH:
            return _refused(InvalidStateStoreError("there are too many connections; try again"))
        if scope["method"] not in {"GET", "HEAD", "POST"}:
            return json_response(
                {
                    "error": "InvalidArgumentError",
                    "message": "only reads are answered here",
                    "retryable": False,
                },
                405,
                allow="POST" if scope["path"].endswith("/values") else "GET, HEAD",
            )
        try:
            if scope["path"] not in OPEN:
                self._access.check_header(headers.get(b"authorization"))
        except AccessDeniedError as error:
            return _refused(error)
        return None


def _refused(error: StateStoreError) -> Response:
    header = {"retry-after": "1"} if error.retryable else {"www-authenticate": "Bearer"}
    return json_response(as_document(error), status_of(error), **header)
