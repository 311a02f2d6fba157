"""The Pythons that Spark starts, forked from one process that has imported what they need.

Spark plans a query in Python daemons, one for each thing that it asks a source; it starts more of
them for other settings, after an error and after a minute of rest, and one program for each stream
that is read. Each imports pyarrow, pandas and `statestores` itself: a second of the processor, some
fifty times in the session of the tests.

Java starts an interpreter, as ever. `planner/sitecustomize.py`, which it has on its path, gives its
arguments, environment and descriptors to the process of this module, which is forked for it, and
waits for its end. ``python forked_pythons.py SOCKET`` serves until its standard input ends.
"""

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ADDRESS = "STATESTORES_TEST_PYTHONS"
"""The variable that has the path of the socket."""

_PLANNER = Path(__file__).parent / "planner"
"""Where the module is that an interpreter imports when it starts."""

_READ_BYTES = 1 << 16
_DESCRIPTORS = 3

_MODULES = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)


@contextmanager
def forked_pythons(directory: Path) -> Iterator[dict[str, str]]:
    """Serve; give the variables of the environment by which Spark's Pythons find it."""
    address = directory / "pythons"
    with subprocess.Popen(
        [sys.executable, __file__, str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # As PySpark has it in all of its own, where a hash has to be the same.
        env={"PYTHONHASHSEED": "0", **os.environ},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        paths = filter(None, (str(_PLANNER), os.environ.get("PYTHONPATH")))
        yield {ADDRESS: str(address), "PYTHONPATH": os.pathsep.join(paths)}
        server.stdin.close()


class _Server:
    """The process that is forked. It has no thread, and nothing open that a child could use."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._waiting: dict[int, socket.socket] = {}
        """Who waits for the end of a child, by its process id."""
        self._ended, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended)
        self._selector = selectors.DefaultSelector()
        for each in (0, self._ended, listener):
            self._selector.register(each, selectors.EVENT_READ)

    def next_child(self) -> dict[str, Any] | None:
        """Return, in each child, what it is to be; in the server nothing, at the end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj == self._ended:
                    os.read(self._ended, _READ_BYTES)
                    self._tell_who_waits()
                elif key.fileobj is self._listener:
                    request = self._forked()
                    if request is not None:
                        return request
                else:
                    self._end_child_of(key.fileobj)

    def _forked(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        said, descriptors, _, _ = socket.recv_fds(connection, _READ_BYTES, _DESCRIPTORS)
        while not said.endswith(b"\n"):
            said += connection.recv(_READ_BYTES)
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for each in (self._listener, connection, *self._waiting.values()):
                each.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
        else:
            self._waiting[process] = connection
            self._selector.register(connection, selectors.EVENT_READ)
        for descriptor in descriptors:
            os.close(descriptor)
        return None if process else json.loads(said)

    def _tell_who_waits(self) -> None:
        for process, connection in list(self._waiting.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                connection.sendall(b"%d" % (os.waitstatus_to_exitcode(status) & 0xFF))
                self._forget(process)

    def _end_child_of(self, connection: object) -> None:
        """Java has ended who waits: its child ends as it would have."""
        for process, each in list(self._waiting.items()):
            if each is connection:
                os.kill(process, signal.SIGTERM)
                os.waitpid(process, 0)
                self._forget(process)

    def _forget(self, process: int) -> None:
        connection = self._waiting.pop(process)
        self._selector.unregister(connection)
        connection.close()


def _be(request: dict[str, Any]) -> None:
    """Be the interpreter that was started with ``-m``."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.path[:] = [request["directory"], *request["path"]]
    module, *arguments = request["arguments"]
    sys.argv[:] = ["-m", *arguments]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(address: str) -> None:
    """Import what is needed, and be forked until standard input ends."""
    for name in _MODULES:
        import_module(name)
    import_module("statestores.spark.worker_daemon").import_first()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        gc.freeze()
        request = _Server(listener).next_child()
    if request is not None:
        _be(request)


if __name__ == "__main__":
    main(sys.argv[1])
