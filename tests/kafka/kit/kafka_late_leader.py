"""A broker that does not lead a partition yet when the first records for it come, and does next.

It is so with every new topic: all brokers know it a little later than who has created it.
"""

import socket
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from select import select
from threading import Event, Lock, Thread

from kafka_proxy import Proxy

_PRODUCE = 0
_VERSION = 10
"""The version of a request to produce whose answer is known here."""
_NOT_LEADER = 6
_WAIT_SECONDS = 0.5
"""How long the refusal waits for more records on their way."""
_HEAD = struct.Struct(">hhi")


class LateLeader(Proxy):
    """Passes on what comes to an address, but for the first records of partition 0 of a topic."""

    def __init__(self, listens: str, behind: str, topic: str) -> None:
        """Listen."""
        super().__init__(listens, behind)
        self._topic = topic.encode()
        self.is_asked = Event()
        """Whether the first records have come, which are refused when more are on their way."""

    def ways(self, client: socket.socket, server: socket.socket) -> Iterable[Thread]:
        """Return two that pass on whole requests and answers."""
        lock = Lock()
        yield Thread(target=self._requests, args=(client, server, lock))
        yield Thread(target=self._answers, args=(server, client, lock))

    def _requests(self, client: socket.socket, server: socket.socket, lock: Lock) -> None:
        refused: int | None = None
        deadline = 0.0
        with suppress(OSError):
            while True:
                if refused is not None:
                    left = max(0.0, deadline - time.monotonic())
                    if not select([client], [], [], left)[0]:
                        self._refuse(client, lock, refused)
                        refused = None
                frame = _frame(client)
                kind, version, number = _HEAD.unpack_from(frame, 4)
                if kind == _PRODUCE and self._topic in frame:
                    if not self.is_asked.is_set():
                        assert version == _VERSION
                        refused, deadline = number, time.monotonic() + _WAIT_SECONDS
                        self.is_asked.set()
                        continue
                    if refused is not None:
                        self._refuse(client, lock, refused)
                        refused = None
                server.sendall(frame)

    def _answers(self, server: socket.socket, client: socket.socket, lock: Lock) -> None:
        with suppress(OSError):
            while True:
                frame = _frame(server)
                with lock:
                    client.sendall(frame)

    def _refuse(self, client: socket.socket, lock: Lock, number: int) -> None:
        partition = struct.pack(">ihqqqBBB", 0, _NOT_LEADER, -1, -1, -1, 1, 0, 0)
        topic = bytes([len(self._topic) + 1]) + self._topic + b"\x02" + partition + b"\0"
        answer = struct.pack(">iB", number, 0) + b"\x02" + topic + struct.pack(">iB", 0, 0)
        with lock:
            client.sendall(struct.pack(">i", len(answer)) + answer)


def _frame(source: socket.socket) -> bytes:
    """Return one request or answer, with its length.

    Raises:
        OSError: The connection has ended.
    """
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise OSError("the connection has ended")
        found += more
    return found
