"""An engine that fails on request: faults are an ordinary implementation of the seam."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from typing import Self, TypeVar

from statestores.errors import CommitInDoubtError, StorageError
from statestores.spi import (
    Capabilities,
    Durability,
    Engine,
    EngineReader,
    EngineSnapshot,
    WriteBatch,
)

T = TypeVar("T")


class Moment(Enum):
    """When in a call the fault shows."""

    BEFORE = "before"
    """The engine behind is not asked."""

    AFTER = "after"
    """The engine behind has done what it was asked, but the caller does not learn it."""


def disk_failed() -> StorageError:
    """Return what a read or write of a failing disk raises."""
    return _storage_error(errno.EIO)


def disk_full() -> StorageError:
    """Return what a write to a full disk raises."""
    return _storage_error(errno.ENOSPC)


def wait_failed() -> CommitInDoubtError:
    """Return what a write raises whose wait for the disk has failed (ENG-39)."""
    return CommitInDoubtError("the disk failed while the batch was waited for; open again")


def _storage_error(number: int) -> StorageError:
    error = StorageError(f"the test has it so: {os.strerror(number)}")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One call that fails, or that call and all after it."""

    at: int
    """Which call, counted from 1 since the fault was planned."""

    call: str | None = None
    """The method whose calls count, ``step`` being that of a scan; ``None``: those of all."""

    moment: Moment = Moment.BEFORE
    """Whether the call still takes effect."""

    error: Callable[[], BaseException] = disk_failed
    """Makes what is raised."""

    lasting: bool = False
    """Whether every later call that counts fails as well, until another fault is planned."""

    cuts_off: bool = False
    """Whether every call of any kind fails from then on: the disk is gone."""


class FaultyReader(EngineReader):
    """Passes every read on to a reader, except for those that should fail."""

    def __init__(self, reader: EngineReader, faults: "_Faults") -> None:
        self._reader = reader
        self._faults = faults

    def get(self, key: bytes) -> bytes | None:
        return self._faults.call("get", lambda: self._reader.get(key))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._faults.call("get_many", lambda: self._reader.get_many(keys))

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._faults.call("first", lambda: self._reader.first(start, stop))

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._faults.call("last", lambda: self._reader.last(start, stop))

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        scan = self._faults.call("scan", lambda: self._reader.scan(start, stop, reverse=reverse))
        return _Steps(scan, self._faults)


class _Steps(Iterator[tuple[bytes, bytes]]):
    """A scan that may break off in the middle."""

    def __init__(self, scan: Iterator[tuple[bytes, bytes]], faults: "_Faults") -> None:
        self._scan = scan
        self._faults = faults

    def __next__(self) -> tuple[bytes, bytes]:
        return self._faults.call("step", lambda: next(self._scan))


class _Faults:
    """Counts calls, and lets the planned one fail."""

    def __init__(self) -> None:
        self.planned: Fault | None = None
        self.counted: Counter[str] = Counter()
        self.struck = 0

    def call(self, name: str, work: Callable[[], T]) -> T:
        self.counted[name] += 1
        fault = self.planned
        if fault is None:
            return work()
        if fault.cuts_off and self.struck:
            raise fault.error()
        if fault.call not in (None, name):
            return work()
        count = self.counted.total() if fault.call is None else self.counted[name]
        if count < fault.at or (count > fault.at and not fault.lasting):
            return work()
        self.struck += 1
        if fault.moment is Moment.AFTER:
            work()
        raise fault.error()


class FaultyEngine(FaultyReader, Engine):
    """Passes everything on to another engine, except for the calls that should fail."""

    name = "faulty"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, _Faults())
        self._engine = engine
        self.batches: list[WriteBatch] = []
        """Every batch that was applied, in order."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # of the engine behind
        """What the engine behind promises."""
        return self._engine.capabilities

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        raise NotImplementedError("a FaultyEngine wraps an engine that is open")

    def plan(self, fault: Fault | None) -> None:
        """Make *fault* happen, or no more faults; the calls are counted anew."""
        self._faults.planned = fault
        self._faults.counted.clear()
        self._faults.struck = 0

    @property
    def calls(self) -> Counter[str]:
        """How often each method was called since a fault was planned."""
        return self._faults.counted

    @property
    def struck(self) -> int:
        """How many calls have failed since a fault was planned."""
        return self._faults.struck

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self._faults.call("apply", lambda: self._apply(batch, durability))

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._faults.call("ingest", lambda: self._engine.ingest(pairs))

    def _apply(self, batch: WriteBatch, durability: Durability) -> None:
        self._engine.apply(batch, durability)
        self.batches.append(dict(batch))

    def snapshot(self) -> EngineSnapshot:
        snapshot = self._engine.snapshot()
        try:
            return self._faults.call("snapshot", lambda: _FaultySnapshot(snapshot, self._faults))
        except BaseException:
            snapshot.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._engine.is_open

    def close(self) -> None:
        # It is closed whatever is reported: an open handle cannot be told from a leak.
        try:
            self._faults.call("close", lambda: None)
        finally:
            self._engine.close()


class KeptOpen(FaultyEngine):
    """An engine that stays open when the store over it is closed."""

    def close(self) -> None:
        """Leave the engine open for the next store."""


class _FaultySnapshot(FaultyReader, EngineSnapshot):
    """A snapshot of a `FaultyEngine`, whose reads fail like those of the engine."""

    def __init__(self, snapshot: EngineSnapshot, faults: _Faults) -> None:
        super().__init__(snapshot, faults)
        self._snapshot = snapshot

    def close(self) -> None:
        self._snapshot.close()
