"""A nursery of processes to be killed that is itself forked, from what has imported Arrow."""

import multiprocessing
import os
from pathlib import Path

from forked_programs import Forked

from statestores_conformance.faults.crash_nursery import Nursery


class ForkedNursery(Nursery):
    """Is used as `Nursery` is; *program* is the path of one that calls `crash_child.serve`."""

    def __init__(self, program: Path) -> None:
        """Start *program*, which forks the others."""
        reader, writer = multiprocessing.Pipe(duplex=False)
        self._program = Forked(program, given=reader)
        reader.close()
        self._requests = os.fdopen(os.dup(writer.fileno()), "w", encoding="utf-8")
        writer.close()
        self._errors = self._program.errors_path
        self._heard = 0

    def close(self) -> None:
        """End the process that forks the others, and what it has forked last."""
        self._requests.close()
        with self._program:
            self._program.stdout.read()

    def _ask(self, request: str) -> str:
        self._requests.write(request + "\n")
        self._requests.flush()
        return self._program.stdout.readline().strip()
