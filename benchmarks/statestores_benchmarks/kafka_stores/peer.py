"""The Java process that holds Kafka Streams' stores, as cases of a group."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from statestores_benchmarks.cases import Outcome, Timed, Times

_PROGRAM = Path(__file__).parents[3] / "tools" / "kafka_peer.py"
_COMMAND = [sys.executable, str(_PROGRAM), "--measured", "StoreBench"]


class PeerError(RuntimeError):
    """The Java program has ended, or answers something else than was asked."""


class Peer:
    """``tools/kafka/streams/StoreBench.java`` under way: one work at a time."""

    def __init__(self, process: "subprocess.Popen[str]", rows: Path) -> None:
        self._process = process
        self._rows = rows

    def work(self, name: str) -> Callable[[Path], AbstractContextManager[Timed]]:
        """Return what prepares a round of the work *name*."""

        @contextmanager
        def prepared(directory: Path) -> Iterator[Timed]:
            self._ask("prepare", name, str(directory), str(self._rows))
            try:
                yield self._run
            finally:
                self._ask("close")

        return prepared

    def _run(self) -> Outcome:
        wall, own, every, found = (int(word) for word in self._ask("run").split("\t"))
        return Outcome(
            answer=lambda: found,
            times=Times(thread_s=own / 1e9, process_s=every / 1e9, wall_s=wall / 1e9),
        )

    def _ask(self, *words: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise PeerError("the Java program has no pipes")
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerError("the Java program has ended; its last words are above") from error
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise PeerError(f"the Java program has not answered {words[0]!r}")
        return answer


@contextmanager
def started(rows: Path) -> Iterator[Peer]:
    """Start the program, which reads what it works on from the file *rows*; end it afterwards.

    Where it does not start, see `why_unavailable`, its first work is a `PeerError`.
    """
    with subprocess.Popen(  # noqa: S603  # our own tool
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Peer(process, rows)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


def why_unavailable() -> str | None:
    """Return why there is no peer here, or ``None`` when there is one; its jars are here then."""
    said = subprocess.run(  # noqa: S603  # our own tool
        _COMMAND,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return said.stderr.strip() or "it does not start" if said.returncode else None
