"""A workload over an engine one call of which fails, with an owner that goes on afterwards."""

import random
from collections.abc import Callable, Iterator
from itertools import chain, product

from statestores.errors import CommitConflictError, StorageError
from statestores.spi import Engine, StateStore
from statestores_conformance.faults.crash_workload import CHANGELOG, INPUT, Workload
from statestores_conformance.subjects.engines import durability_of
from statestores_conformance.subjects.faulty_engine import (
    Fault,
    FaultyEngine,
    Moment,
    disk_failed,
    disk_full,
)

_COMMIT_SIZES = (1, 3, 40, 1, 90, 2, 60)


class Interrupted(BaseException):
    """Stands for a user's key press while a commit runs."""


_ERRORS: dict[str, Callable[[], BaseException]] = {
    "EIO": disk_failed,
    "ENOSPC": disk_full,
    "interrupt": Interrupted,
}

GOING_ON = ("commit again", "roll back", "reopen")
"""What an owner may do after a commit that has failed."""


class Ordeal:
    """A workload over a failing engine, with an owner that goes on in one way after a failure."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        workload: Workload,
        fault: Fault | None,
        going_on: str,
    ) -> None:
        self._open_engine = open_engine
        self._workload = workload
        self._going_on = going_on
        self._committed = -1
        self.engine = FaultyEngine(open_engine())
        self._store = self._opened()
        self.engine.plan(fault)
        self.calls: dict[str, int] = {}
        """How often each method of the engine was called since the last failure, in the end."""

    def _opened(self) -> StateStore:
        return self._workload.open(self.engine, durability_of(self.engine))

    def run(self) -> list[str]:
        """Perform all operations, whatever fails; return in words what went wrong on the way."""
        wrong: list[str] = []
        try:
            start = 0
            for size in _COMMIT_SIZES:
                batch = range(start, start + size)
                wrong += self._look()
                self._write(batch)
                wrong += self._commit(batch)
                start = batch.stop
            self.calls = dict(self.engine.calls)
            wrong += self._look()
        finally:
            self.engine.plan(None)
            self._store.close()
        return wrong

    def _look(self) -> Iterator[str]:
        """Read what others see; a read that fails says so, and then one that succeeds is right."""
        self._workload.model_up_to(self._committed)
        expected = None if self._committed < 0 else self._committed
        for _ in range(2):
            try:
                yield from self._workload.differences(self._store)
                offset = self._store.committed_offset(CHANGELOG)
                position = self._store.position.get(INPUT)
                content = self._store.committed_content()
                offsets = dict(content.offsets)
                content.changes.close()
            except (StorageError, Interrupted):
                continue
            if not offset == position == offsets.get(CHANGELOG) == expected:
                yield f"offset {offset}, position {position}, content {offsets}, not {expected}"
            return

    def _write(self, batch: range) -> None:
        """Write; repeat what a failed write has not done."""
        for number in batch:
            try:
                self._workload.write(self._store, number)
            except (StorageError, Interrupted):
                self._workload.write(self._store, number)
        self._store.advance_position({INPUT: batch[-1]})

    def _commit(self, batch: range) -> Iterator[str]:
        """Commit, and go on in one way when that fails."""
        last, before = batch[-1], self._committed
        try:
            self._store.commit({CHANGELOG: last})
        except (StorageError, Interrupted):
            yield from self._go_on(batch)
        self._committed = last
        found = self._store.committed_offset(CHANGELOG)
        if found != last:
            yield f"offset {found} after the commit of {last}, which followed {before}"

    def _go_on(self, batch: range) -> Iterator[str]:
        self.engine.plan(None)
        last = batch[-1]
        taken = False
        if self._going_on == "roll back":
            try:
                self._store.rollback()
            except CommitConflictError:
                # The engine has the batch: the writes are committed, and were not forgotten.
                taken = True
        elif self._going_on == "reopen":
            self._store.close()
            self.engine = FaultyEngine(self._open_engine())
            self._store = self._opened()
            taken = self._store.committed_offset(CHANGELOG) == last
        else:
            self._store.commit({CHANGELOG: last})
            return
        if taken:
            self._committed = last
            yield from self._look()
            self._store.commit({})
        else:
            yield from self._look()
            self._write(batch)
            self._store.commit({CHANGELOG: last})


def faults(calls: dict[str, int], seed: int, trials: int) -> Iterator[Fault]:
    """Yield faults: every call of a short run once, or as many as there are *trials*."""
    dice = random.Random(seed)  # noqa: S311  # repeatable, not secret
    every = [
        Fault(call=call, at=at, moment=moment, error=error)
        for call, number in sorted(calls.items())
        for at, moment, error in product(range(1, number + 1), Moment, _ERRORS.values())
    ]
    # Commits first: they are few, and they are what this is about.
    applies = [fault for fault in every if fault.call == "apply"]
    others = [fault for fault in every if fault.call != "apply"]
    dice.shuffle(applies)
    dice.shuffle(others)
    yield from chain(applies[: trials // 2], others[: trials - trials // 2])
