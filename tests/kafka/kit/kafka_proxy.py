"""Networks between clients and a broker: what passes everything on, and one that is bad."""

import random
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

_CHUNK = 16 * 1024


def address_of(text: str) -> tuple[str, int]:
    """Return host and port."""
    host, port = text.split(":")
    return host, int(port)


class Proxy(ABC):
    """Accepts connections at one address, and has threads pass on what comes to another."""

    def __init__(self, listens: str, behind: str) -> None:
        """Listen."""
        self._server = socket.create_server(address_of(listens))
        self._behind = address_of(behind)
        self._threads: list[Thread] = []
        self._sockets: list[socket.socket] = [self._server]

    @abstractmethod
    def ways(self, client: socket.socket, server: socket.socket) -> Iterable[Thread]:
        """Return the threads of a connection, one for each direction."""

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                server = socket.create_connection(self._behind)
            except OSError:
                return
            self._sockets += [client, server]
            for thread in self.ways(client, server):
                self._start(thread)

    def _start(self, thread: Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._start(Thread(target=self._accept))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for each in self._sockets:
            each.close()


class _ChunkProxy(Proxy):
    """Passes on chunks, in both directions alike."""

    def ways(self, client: socket.socket, server: socket.socket) -> Iterable[Thread]:
        """Return two that pass on chunks."""
        for source, target in ((client, server), (server, client)):
            yield Thread(target=self._pass_on, args=(source, target))

    @abstractmethod
    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """Pass on what comes from *source*, until it ends."""


class BadNetwork(_ChunkProxy):
    """Passes on what comes to an address, late, and cuts a connection now and then."""

    def __init__(self, listens: str, behind: str, *, delay_ms: int, chunks_until_cut: int) -> None:
        """Listen; every chunk takes *delay_ms*, and one of so many is a connection's last."""
        super().__init__(listens, behind)
        self._delay_s = delay_ms / 1000
        self._chance = 1 / chunks_until_cut
        self._dice = random.Random(16)
        self.cuts = 0

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                time.sleep(self._delay_s)
                if self._dice.random() < self._chance:
                    self.cuts += 1
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class HalfOpenNetwork(_ChunkProxy):
    """Passes everything on, until it forgets the connections of so far: nobody is told of it."""

    def __init__(self, listens: str, behind: str) -> None:
        """Listen."""
        super().__init__(listens, behind)
        self._forgotten: set[socket.socket] = set()

    def forget(self) -> None:
        """Pass nothing on from now on of the connections that there are."""
        self._forgotten |= set(self._sockets)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if source not in self._forgotten:
                    target.sendall(data)
