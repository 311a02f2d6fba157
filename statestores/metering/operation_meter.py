"""How often an operation is done, and how long it takes."""

from collections.abc import Mapping
from time import perf_counter_ns

from statestores.metering.recent_past import SECOND_NS, RecentPast
from statestores.spi.metrics.catalog import MetricDefinition
from statestores.spi.metrics.metric import Metrics

Pair = tuple[MetricDefinition, MetricDefinition]


class OperationMeter:
    """One operation. One thread at a time records, any thread may read.

    Invariant: a reader sees only whole recordings, since count and time are one tuple.
    """

    __slots__ = ("_past", "_peak_ns", "_peaks", "_sums", "_turn_ns")

    def __init__(self) -> None:
        now_ns = perf_counter_ns()
        self._sums = (0, 0)
        self._past = RecentPast(self._sums, now_ns)
        self._peak_ns = 0
        self._turn_ns = now_ns + SECOND_NS
        self._peaks: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        """How many were recorded."""
        return self._sums[0]

    def record(self, latency_ns: int, now_ns: int) -> None:
        """Count an operation that ended at *now_ns*, on the clock of ``perf_counter_ns``."""
        count, total_ns = self._sums
        if now_ns >= self._turn_ns:
            self._begin_second(latency_ns, now_ns)
        elif latency_ns > self._peak_ns:
            self._peak_ns = latency_ns
        self._sums = (count + 1, total_ns + latency_ns)

    def _begin_second(self, latency_ns: int, now_ns: int) -> None:
        """Store the highest latency of the second that is over."""
        since_ns = self._past.change(self._sums, now_ns).since_ns
        recent = [peak for peak in self._peaks if peak[0] > since_ns]
        # In this order a reader, which goes the other way, misses none.
        self._peaks = (*recent, (self._turn_ns, self._peak_ns))
        self._peak_ns = latency_ns
        self._turn_ns = now_ns + SECOND_NS
        self._past.keep(self._sums, now_ns)

    def counted(self, definitions: Pair, tags: Mapping[str, str]) -> Metrics:
        """Return the number of operations, and their rate."""
        now_ns = perf_counter_ns()
        sums = self._sums
        change = self._past.change(sums, now_ns)
        self._past.keep(sums, now_ns)
        total, rate = definitions
        return total.of(sums[0], tags), rate.of(change.added[0] / change.seconds, tags)

    def latencies(self, definitions: Pair, tags: Mapping[str, str]) -> Metrics:
        """Return the mean and the highest latency; nothing without a recent operation."""
        peak_ns, turn_ns = self._peak_ns, self._turn_ns
        since_ns, _, (count, total_ns) = self._past.change(self._sums, perf_counter_ns())
        if not count:
            return ()
        peaks = [(turn_ns, peak_ns), *self._peaks]
        mean, highest = definitions
        return (
            mean.of(total_ns / count, tags),
            highest.of(max(peak for ended, peak in peaks if ended > since_ns), tags),
        )
