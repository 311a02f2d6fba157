"""A network between clients and broker that is slow, and cuts connections."""

import random
import socket
import time
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

_CHUNK = 16 * 1024


class BadNetwork:
    """Passes on what comes to an address, late, and cuts a connection now and then."""

    def __init__(self, listens: str, behind: str, *, delay_ms: int, chunks_until_cut: int) -> None:
        """Listen; every chunk takes *delay_ms*, and one of so many is a connection's last."""
        host, port = listens.split(":")
        self._server = socket.create_server((host, int(port)))
        self._behind = (behind.split(":", maxsplit=1)[0], int(behind.split(":")[1]))
        self._delay_s = delay_ms / 1000
        self._chance = 1 / chunks_until_cut
        self._dice = random.Random(16)
        self._stopping = Event()
        self._threads: list[Thread] = []
        self._sockets: list[socket.socket] = [self._server]
        self.cuts = 0

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                client, _ = self._server.accept()
                server = socket.create_connection(self._behind)
            except OSError:
                return
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                self._start(Thread(target=self._pass_on, args=(source, target)))

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
        self._stopping.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for each in self._sockets:
            each.close()
