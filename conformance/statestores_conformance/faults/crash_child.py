"""The processes that are killed, and the one that starts them.

``python -m statestores_conformance.faults.crash_child`` is the latter. It has loaded what all of
them need, and forks one for each ``start`` that it reads: that costs a hundredth of starting an
interpreter. It has neither threads nor an engine, so the fork is safe; the backend is loaded in the
child, unless `PRELOAD_VARIABLE` names its module.

A child opens the store, goes on after the committed offset, and commits until it dies. It writes
the offset to the oracle, a file outside the store, before each commit and again after it has
returned: so a judge of the store knows which commit was promised, and which was under way.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from statestores.failpoints import arm
from statestores.spi import Durability, StateStore
from statestores_conformance.faults.crash_workload import (
    CHANGELOG,
    INPUT,
    WORKLOADS,
    Workload,
    commits,
)
from statestores_conformance.runner.subject import StoreSubject, load_subject
from statestores_conformance.subjects.engines import durability_of

INTENT, PROMISE = b"intent", b"promise"
"""What the lines of the oracle begin with."""

PRELOAD_VARIABLE = "STATESTORES_CONFORMANCE_PRELOAD"
"""Modules, with commas between them, that are imported before a child is forked: only such as start
no thread when they are imported. What is not installed is left out."""


def commit_until_killed(
    *,
    backend: str,
    options: dict[str, str],
    kind: str,
    seed: int,
    store: str,
    oracle: str,
    failpoint: tuple[str, int] | None = None,
) -> None:
    """Open the store and perform the operations after its committed offset, commit by commit.

    With a *failpoint* and a number, the process kills itself when it gets there for that time.
    """
    if failpoint is not None:
        die_at(*failpoint)
    workload = WORKLOADS[kind](seed)
    descriptor = os.open(oracle, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with open_store(backend, options, Path(store), workload) as opened:
        _commit_for_ever(opened, workload, descriptor)


def open_store(
    backend: str, options: Mapping[str, object], path: Path, workload: Workload
) -> StateStore:
    """Open the workload's store over an engine, or by the function of a store at door two."""
    subject = load_subject(backend, options)
    if isinstance(subject, StoreSubject):
        return subject.open(path, workload.specification)
    engine = subject.open(path)
    return workload.open(engine, durability_of(engine))


def _commit_for_ever(store: StateStore, workload: Workload, oracle: int) -> None:
    """Perform the operations after the committed offset, commit by commit."""
    committed = store.committed_offset(CHANGELOG)
    for batch in commits(workload.seed, -1 if committed is None else committed):
        if batch.start % 3 == 0:
            workload.write_garbage(store, batch.start)
            store.rollback()
        for number in batch:
            workload.write(store, number)
        last = batch[-1]
        store.advance_position({INPUT: last})
        # One commit in four only needs to survive the process: both durabilities must hold.
        durability = Durability.PROCESS_CRASH if batch.start % 4 == 0 else None
        os.write(oracle, b"%b %d\n" % (INTENT, last))
        store.commit({CHANGELOG: last}, durability=durability)
        os.write(oracle, b"%b %d\n" % (PROMISE, last))
        if batch.start % 5 == 0:
            workload.write_garbage(store, last)
            store.rollback()


def die_at(failpoint: str, at: int) -> None:
    """Have this process killed when it reaches *failpoint* for the *at*-th time."""
    arm(failpoint, lambda: os.kill(os.getpid(), signal.SIGKILL), at=at)


def serve(live: Callable[..., None] = commit_until_killed, preload: Iterable[str] = ()) -> None:
    """Answer ``start ARGUMENTS``, ``poll`` and ``kill``, line by line; one child at a time.

    A child calls *live* with the arguments, and is not expected to return from it. One that is left
    when there are no more lines is killed: it has our output, at whose end the parent waits. The
    modules *preload* are imported before the first fork, like those of `PRELOAD_VARIABLE`.
    """
    for module in (*os.environ.get(PRELOAD_VARIABLE, "").split(","), *preload):
        if module:
            with suppress(ImportError):
                import_module(module)
    # A child would go through all of this, and copy its pages, each time that it collects.
    gc.collect()
    gc.freeze()
    child = 0
    for line in sys.stdin:
        command, _, arguments = line.strip().partition(" ")
        if command == "start":
            child = os.fork()
            if child == 0:
                _live(live, json.loads(arguments))
            answer = str(child)
        elif command == "poll":
            # Not reaped, so that the number cannot belong to somebody else when it is killed.
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            answer = "ended" if ended else "running"
        else:
            os.kill(child, signal.SIGKILL)
            answer = str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            child = 0
        print(answer, flush=True)  # noqa: T201  # the protocol
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _live(live: Callable[..., None], arguments: dict[str, Any]) -> NoReturn:
    """Be the child: never return to the loop of the parent."""
    code = 1
    try:
        live(**arguments)
        code = 0
    finally:
        if code:
            traceback.print_exc()  # that belongs in the report
        os._exit(code)


if __name__ == "__main__":
    serve()
