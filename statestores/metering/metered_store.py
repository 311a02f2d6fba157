"""The part of a store over an engine that measures it (MET).

The numbers that the hot paths keep are plain attributes here; `store_meter` makes metrics of them.
"""

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from statestores.metering.store_meter import SAMPLE_INTERVAL_NS, Counts, StoreMeter
from statestores.spi.engine import Engine
from statestores.spi.metrics.metric import Metrics
from statestores.spi.stores.store import StateStore


class MeteredStore(StateStore):
    """A store that counts its puts and reads, and measures its commits."""

    _engine: Engine
    _uncommitted_bytes: int
    count_iterator: Callable[[Generator[Any, None, None]], Generator[Any, None, None]]
    """Returns an iterator, and counts it among the open ones until it has ended."""

    _engine_get: Callable[[bytes], bytes | None]
    """What point reads of the engine call: the engine's own method, or for one call another."""

    def _begin_measuring(self) -> None:
        """Start at zero."""
        self._puts = 0  # by the owner; replays and loads do not count
        self._put_step = 1  # what a put counts: nothing while changes are replayed as puts
        self._engine_gets = 0
        self._dropped = 0
        self._below_horizon = 0
        self._commit_began_ns: int | None = None  # of a commit that is not measured yet
        self._meter = StoreMeter()
        self.count_iterator = self._meter.iterators.add

    @contextmanager
    def replaying(self) -> Generator[None, None, None]:
        """Count no puts and no late records inside the block: what is put there is replayed."""
        self._put_step = 0
        try:
            yield
        finally:
            self._put_step = 1

    def _measure_commit(self, rows: int) -> None:
        """Count a commit of *rows* rows that is there, once, before the writes are forgotten."""
        began_ns, self._commit_began_ns = self._commit_began_ns, None
        if began_ns is None:
            return
        now_ns = perf_counter_ns()
        meter = self._meter
        meter.rows += rows
        meter.bytes += self._uncommitted_bytes
        meter.commits.record(now_ns - began_ns, now_ns)
        if now_ns >= meter.sample_ns:
            meter.sample_ns = now_ns + SAMPLE_INTERVAL_NS
            meter.keep(self._counts(), now_ns)
            self._time_next_engine_get()

    def count_below_horizon(self, reads: int = 1) -> None:
        """Count *reads* that asked for a time below the horizon; any thread may call it."""
        self._below_horizon += reads

    def _counts(self) -> Counts:
        return Counts(self._puts, self._engine_gets, self._dropped, self._below_horizon)

    def _time_next_engine_get(self) -> None:
        """Have the next point read of the engine timed, but not the ones after it.

        The attribute is there anyway, so the reads in between cost what they always do. A method of
        the store must not be replaced in this way: CPython would look it up more slowly ever after.
        """
        engine_get, meter = self._engine.get, self._meter.engine_gets
        itself = weakref.ref(self)  # otherwise the store would refer to itself

        def timed(row: bytes) -> bytes | None:
            store = itself()
            if store is not None:
                store._engine_get = engine_get  # noqa: SLF001  # its own
            began_ns = perf_counter_ns()
            value = engine_get(row)
            now_ns = perf_counter_ns()
            meter.record(now_ns - began_ns, now_ns)
            return value

        self._engine_get = timed

    def metrics(self) -> Metrics:
        tags = MappingProxyType(
            {
                "state-id": self.name,
                "kind": self.specification.kind,
                "backend": self._engine.name,
            }
        )
        pending = self.uncommitted_bytes if self.is_open else 0
        return self._meter.metrics(self._counts(), pending, tags)
