"""Programs of the tests, each in a process of its own that is forked instead of started.

An interpreter that imports Arrow (which imports pandas) and the engines costs the better part of a
second, which is more than most of these programs do before they are killed. Here one process has
imported them, and is forked for each program: `multiprocessing` calls it a fork server. It has
opened nothing, so a child has nothing of another's. Workers of a whole run share it.

A program is text, or the path of a file, that runs as ``__main__`` would; but it ends without the
functions of `atexit`.
"""

import gc
import io
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess
from types import TracebackType
from typing import Any, Self

_PRELOADED = [
    "confluent_kafka.admin",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pydantic.type_adapter",
    "rich.live",
    "rich.progress",
    "statestores.kafka",
    "statestores.migration",
    "statestores.processing.columns.ways",
    "statestores.processing.local",
    "statestores.resharding.replacing",
    "statestores.serving",
    "statestores.staging.staged_write",
    "statestores.tasks",
    "statestores_conformance.faults.crash_child",
    "statestores_leveldb",
    "statestores_memory",
    "statestores_rocksdb",
    "statestores_sqlite",
    "typer.main",
]
"""What is not installed is left out. Of the command line, what it is made of, and not itself: a
program that is told to end while it loads a command loads it."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(_PRELOADED)


def share_the_server() -> None:
    """Start what is forked for programs, for all processes that are forked from this one.

    Each of them asked whether its own child is alive, which it is not. That it is anybody's is seen
    where a program is started.
    """
    forkserver.ensure_running()
    os.register_at_fork(after_in_child=_use_the_server)


def _use_the_server() -> None:
    server: Any = forkserver._forkserver
    server.ensure_running = lambda: None


class Forked:
    """A running program; in a ``with`` statement it has ended at the end, however it does.

    It is used as a `subprocess.Popen` is.
    """

    def __init__(
        self, program: str | Path, *arguments: object, given: bytes | Connection = b""
    ) -> None:
        """Start *program*, with *arguments* as ``sys.argv[1:]`` and *given* as standard input.

        Of a connection, that is what comes by it until its other end is closed.
        """
        reader, writer = _CONTEXT.Pipe(duplex=False)
        self._errors = tempfile.NamedTemporaryFile(prefix="stderr-")  # noqa: SIM115  # closed with the process
        self._process = _CONTEXT.Process(
            target=_perform,
            args=(program, [str(each) for each in arguments], given, writer, self._errors.name),
            daemon=True,
        )
        self._process.start()
        writer.close()
        self.stdout = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
        self.stdout.close()
        self.wait()
        self._errors.close()
        self._process.close()

    @property
    def errors_path(self) -> Path:
        """The file of what it writes to standard error; it is there as long as this object."""
        return Path(self._errors.name)

    @property
    def process(self) -> int:
        """Its process id."""
        number = self._process.pid
        assert number is not None
        return number

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.is_alive()

    def kill_after(self, lines: int, seconds: float) -> str:
        """Kill it *seconds* after it has written *lines* more; return the last of these.

        Of no lines, that is nothing.
        """
        line = ""
        for _ in range(lines):
            line = self.stdout.readline()
        time.sleep(seconds)
        self.kill()
        return line

    def kill(self) -> None:
        """Kill it, as ``kill -9`` does."""
        self._process.kill()

    def wait(self) -> int:
        """Wait for its end; return minus the signal, or its own exit code."""
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code

    def errors(self) -> str:
        """Return what it has written to standard error."""
        return self.errors_path.read_text("utf-8")


def run(program: str | Path, *arguments: object, given: bytes = b"") -> CompletedProcess[str]:
    """Run *program* to its end, as `subprocess.run` does that captures the output."""
    with Forked(program, *arguments, given=given) as child:
        printed = child.stdout.read()
        return CompletedProcess([str(program)], child.wait(), printed, child.errors())


def _perform(
    program: str | Path,
    arguments: list[str],
    given: bytes | Connection,
    stdout: Connection,
    errors: str,
) -> None:
    """Be the program: what runs in the child."""
    gc.freeze()  # or it would copy, page by page, what was imported once its collector sees it
    os.dup2(stdout.fileno(), 1)
    stdout.close()
    descriptor = os.open(errors, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    if isinstance(given, bytes):
        sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    else:
        sys.stdin = os.fdopen(os.dup(given.fileno()), encoding="utf-8")
        given.close()
    name, source = "-c", program
    if isinstance(program, Path):
        name, source = str(program), program.read_text("utf-8")
        sys.path.insert(0, str(program.parent))
    sys.argv[:] = [name, *arguments]
    names: dict[str, Any] = {"__name__": "__main__", "__file__": name}
    exec(compile(str(source), name, "exec"), names)  # noqa: S102  # the program of a test
