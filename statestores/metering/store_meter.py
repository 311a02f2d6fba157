"""What a store over an engine measures of itself.

Commits are measured one by one. Of the calls between them, only what costs next to nothing is kept,
as plain numbers of the store: nothing is wrapped, and no clock is read for each call. How long a
read of the engine takes is measured only once in a while.
"""

from collections.abc import Mapping
from time import perf_counter_ns
from typing import NamedTuple

from statestores.metering.open_iterators import OpenIterators
from statestores.metering.operation_meter import OperationMeter
from statestores.metering.recent_past import RecentPast
from statestores.spi.metrics.catalog import (
    BELOW_HORIZON,
    COMMIT_LATENCY,
    COMMITS,
    COMMITTED_BYTES,
    COMMITTED_ROWS,
    DROPPED,
    ENGINE_GET_LATENCY,
    ENGINE_GETS,
    ITERATORS,
    OLDEST_ITERATOR,
    OPEN_ITERATORS,
    PUTS,
    UNCOMMITTED_BYTES,
)
from statestores.spi.metrics.metric import Metrics

SAMPLE_INTERVAL_NS = 10_000_000
"""At most one read of the engine in this time is timed."""


class Counts(NamedTuple):
    """What a store itself counts. Each count only grows."""

    puts: int
    """Records put."""

    engine_gets: int
    """Point reads that asked the engine."""

    dropped: int
    """Records refused as late."""

    below_horizon: int
    """Reads that asked for a time below the horizon."""


class StoreMeter:
    """The meter of one store. The owner records, any thread may read."""

    __slots__ = ("_past", "bytes", "commits", "engine_gets", "iterators", "rows", "sample_ns")

    def __init__(self) -> None:
        self.commits = OperationMeter()
        self.engine_gets = OperationMeter()
        self.iterators = OpenIterators()
        self.rows = self.bytes = 0  # what commits gave to the engine
        self.sample_ns = 0  # when to time a read of the engine again
        self._past = RecentPast((0,) * 7, perf_counter_ns())

    def keep(self, counts: Counts, now_ns: int) -> None:
        """Remember *counts* for the rates, if that is due."""
        if now_ns >= self._past.due_ns:
            self._past.keep(self._totals(counts), now_ns)

    def _totals(self, counts: Counts) -> tuple[int, ...]:
        return (*counts, self.rows, self.bytes, self.iterators.total)

    def metrics(self, counts: Counts, uncommitted_bytes: int, tags: Mapping[str, str]) -> Metrics:
        """Return the metrics of this moment."""
        totals = self._totals(counts)
        now_ns = perf_counter_ns()
        change = self._past.change(totals, now_ns)
        self.keep(counts, now_ns)
        of_store = (PUTS, ENGINE_GETS, DROPPED, BELOW_HORIZON)
        definitions = (*of_store, COMMITTED_ROWS, COMMITTED_BYTES, ITERATORS)
        counted = [
            metric
            for (total, rate), value, added in zip(definitions, totals, change.added, strict=True)
            for metric in (total.of(value, tags), rate.of(added / change.seconds, tags))
        ]
        count, oldest_ms = self.iterators.count_and_oldest_ms()
        return (
            *counted,
            *self.commits.counted(COMMITS, tags),
            *self.commits.latencies(COMMIT_LATENCY, tags),
            *self.engine_gets.latencies(ENGINE_GET_LATENCY, tags),
            UNCOMMITTED_BYTES.of(uncommitted_bytes, tags),
            OPEN_ITERATORS.of(count, tags),
            *(() if oldest_ms is None else (OLDEST_ITERATOR.of(oldest_ms, tags),)),
        )
