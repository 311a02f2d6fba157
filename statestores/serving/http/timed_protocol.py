"""Connections that may not take for ever: the time for a request's head, and for its answer.

Uvicorn waits for the head of a request, and for whoever reads an answer, as long as the other side
likes. So connections that say nothing would take what the server has of them (SRV-18); beyond that
number a request is told so, by `Guard`. What is no request is refused as everything else is.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from statestores.serving.http.guard import HEADERS, IS_CROWDED
from statestores.serving.http.rendering import json_response
from statestores.serving.http.sparing_log import SparingLogger

HEAD_SECONDS = 10.0
"""How long a connection may take for the head of a request, and for the rest of a body that nobody
reads any more."""


class _Clock:
    """Something that happens after a while, unless it is stopped."""

    _handle: asyncio.TimerHandle | None = None

    def start(self, after_s: float, then: Callable[[], object]) -> None:
        """Have *then* happen after *after_s*; one that runs goes on."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(after_s, self._ring, then)

    def stop(self) -> None:
        """Have nothing happen."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self, then: Callable[[], object]) -> None:
        self._handle = None
        then()


class TimedProtocol(H11Protocol):
    """One connection of uvicorn's, with two clocks."""

    head_s = HEAD_SECONDS
    answer_s = 30.0
    """How long an answer may wait for whoever reads it."""
    most_connections = 256
    sparing: SparingLogger | None = None
    """What warnings are logged by; those of all connections of a server are counted together."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        self._head_clock, self._answer_clock = _Clock(), _Clock()
        if self.sparing is not None:
            self.logger = self.sparing
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take *data*; what is no request yet has to become one."""
        super().data_received(data)
        if self._is_answering():
            self._head_clock.stop()
        else:
            self._wait_for_head()

    def handle_events(self) -> None:
        """Have what has come answered, or refused where there are too many connections."""
        is_crowded = len(self.connections) >= self.most_connections
        self.app_state = {**self.app_state, IS_CROWDED: is_crowded}
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; where an answer has begun, or was given, only end.

        Uvicorn begins a second answer there, which fails with a traceback in the log.
        """
        is_head = False
        if self._is_answering():
            cycle: Any = self.cycle
            cycle.disconnected = True  # nobody hears what is still to be answered
            cycle.message_event.set()
            is_head = cycle.scope["method"] == "HEAD"
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            words = "what has come is no request of HTTP/1.1"
            document = {"error": "InvalidArgumentError", "message": words, "retryable": False}
            answer = json_response(document, 400)
            headers = [*answer.raw_headers, *HEADERS, (b"connection", b"close")]
            body = [] if is_head else [h11.Data(data=bytes(answer.body))]
            for event in (
                h11.Response(status_code=400, headers=headers, reason="Bad Request"),
                *body,
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """Go on with what has come meanwhile, which may be half a request, or a body unread."""
        super().on_response_complete()
        is_begun = self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY
        if is_begun and not self._is_answering():
            self._wait_for_head()

    def pause_writing(self) -> None:
        """Begin to wait for whoever reads the answer."""
        super().pause_writing()
        self._answer_clock.start(self.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that it was read."""
        super().resume_writing()
        self._answer_clock.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._head_clock.stop()
        self._answer_clock.stop()

    def _is_answering(self) -> bool:
        cycle: Any = self.cycle  # there is none before the first request
        return cycle is not None and not cycle.response_complete

    def _wait_for_head(self) -> None:
        if not self.transport.is_closing():
            self._head_clock.start(self.head_s, self._end_unasked)

    def _end_unasked(self) -> None:
        if not self._is_answering():
            self.transport.close()


def protocol_for(answer_s: float, most_connections: int) -> type[TimedProtocol]:
    """Return the class of up to *most_connections* whose answers may wait for *answer_s*."""
    of_server = {
        "answer_s": answer_s,
        "most_connections": most_connections,
        "sparing": SparingLogger("uvicorn.error"),
    }
    return type("TimedProtocol", (TimedProtocol,), of_server)
