"""The processes of the suite's runner, forked from one that has imported pytest and the suite.

Importing both takes a process longer than most runs of a test of the runner; a backend that ends
its processes has one after the other. Here they are forked from one that has nothing open and no
thread, and go on as the interpreter does that the runner starts: with its command line, environment
and descriptors, in a session of their own. What the backend is they import themselves.

``python forked_suite.py DESCRIPTOR`` serves the socket until its other end is closed.
"""

import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import F_DUPFD, fcntl
from importlib import import_module
from pathlib import Path
from select import select
from types import SimpleNamespace
from typing import IO, Any

import pytest
from _pytest.assertion import install_importhook
from _pytest.config import get_config

_READ_BYTES = 1 << 20
_MOST_DESCRIPTORS = 8
_OUT_OF_THE_WAY = 512
"""Where descriptors stay until the numbers that they are to have are free."""

_PRELOADED = (
    "hypothesis",
    "hypothesis.stateful",
    "_hypothesis_pytestplugin",
    "statestores_conformance",
    "statestores_conformance.runner.kept_collection",
    "statestores_conformance.runner.subject",
)


@contextmanager
def forked_children(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the runner's processes forked, from where modules are found now."""
    ours, theirs = socket.socketpair()
    with (
        ours,
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        ),
    ):
        theirs.close()

        def start(command: Sequence[str], **how: Any) -> "_Child":
            return _Child(ours, command, **how)

        stand_in = SimpleNamespace(**vars(subprocess) | {"Popen": start})
        patch.setattr("statestores_conformance.runner.child_process.subprocess", stand_in)
        yield
        ours.shutdown(socket.SHUT_RDWR)


class _Child:
    """What the runner has instead of a `subprocess.Popen`."""

    def __init__(
        self,
        server: socket.socket,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: IO[bytes],
        stderr: IO[bytes],
        pass_fds: Sequence[int],
        env: Mapping[str, str],
        start_new_session: bool,
    ) -> None:
        python, flag, *arguments = command
        assert [python, flag, stdin] == [sys.executable, "-m", subprocess.DEVNULL]
        assert start_new_session
        assert stdout is stderr
        self.returncode: int | None = None
        reader, status = os.pipe()
        self._status = os.fdopen(reader)
        request = {"arguments": arguments, "environment": dict(env), "passed": list(pass_fds)}
        said = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(server, [said], [status, stdout.fileno(), *pass_fds])
        server.sendall(said[sent:])
        os.close(status)
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        """Return how it has ended."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("the suite", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode


def _serve(server: socket.socket) -> dict[str, Any] | None:
    """Return, in each child, what it is to be; in the server nothing, at the end."""
    waiting: list[int] = []  # who wait for the children
    while True:
        said, descriptors, _, _ = socket.recv_fds(server, _READ_BYTES, _MOST_DESCRIPTORS)
        if not said:
            for each in waiting:
                os.waitpid(each, 0)
            return None
        while not said.endswith(b"\n"):
            said += server.recv(_READ_BYTES)
        waiting.append(os.fork())
        if waiting[-1] == 0:
            server.close()
            request = json.loads(said)
            _fork_child(*descriptors, wanted=request["passed"])
            return request  # type: ignore[no-any-return]  # as JSON has it
        for each in descriptors:
            os.close(each)


def _fork_child(status: int, printed: int, *passed: int, wanted: Sequence[int]) -> None:
    """Fork the child, in which this returns; tell by *status* of its beginning and its end."""
    process = os.fork()
    if process:
        os.write(status, b"%d\n" % process)
        _, ended = os.waitpid(process, 0)
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
        os._exit(0)
    os.setsid()
    os.close(status)
    nothing = os.open(os.devnull, os.O_RDONLY)
    moved = [fcntl(each, F_DUPFD, _OUT_OF_THE_WAY) for each in (nothing, printed, *passed)]
    for each in (nothing, printed, *passed):
        os.close(each)
    for each, number in zip((moved[0], moved[1], *moved[1:]), (0, 1, 2, *wanted), strict=True):
        os.dup2(each, number)
    for each in moved:
        os.close(each)


def _import_first() -> None:
    """Import what is the same in all, the suite with the assertions that pytest rewrites."""
    config = get_config()
    install_importhook(config).mark_rewrite("statestores_conformance")
    for name in _PRELOADED:
        import_module(name)
    config._ensure_unconfigure()


def _be(request: dict[str, Any]) -> None:
    """Be the interpreter that is started with ``-m``."""
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.path[0] = str(Path.cwd())
    module, *arguments = request["arguments"]
    sys.argv[:] = ["-m", *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(descriptor: int) -> None:
    """Import what is needed, and be forked until there are no more requests."""
    _import_first()
    gc.collect()
    gc.freeze()
    request = _serve(socket.socket(fileno=descriptor))
    if request is not None:
        _be(request)


if __name__ == "__main__":
    main(int(sys.argv[1]))
