"""What a logged store itself measures: appends to the changelog, and its restore."""

from time import perf_counter_ns

from statestores.metering.operation_meter import OperationMeter
from statestores.metering.recent_past import RecentPast
from statestores.spi.metrics.catalog import (
    APPEND_LATENCY,
    APPENDED_RECORDS,
    APPENDS,
    RESTORE_REMAINING,
    RESTORED,
    tagged,
)
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import TopicPartition


class LoggedMeter:
    """The meter of one logged store. Its owner records, any thread may read."""

    __slots__ = ("_appends", "_partition", "_past", "_records", "_restored")

    def __init__(self, partition: TopicPartition, restored: int) -> None:
        """Begin with *restored* rows and changes, and no append."""
        self._partition = str(partition.partition)
        self._restored = restored
        self._appends = OperationMeter()
        self._records = 0
        self._past = RecentPast((0,), perf_counter_ns())

    def appended(self, began_ns: int, records: int) -> None:
        """Count an append of *records* changes that has succeeded."""
        now_ns = perf_counter_ns()
        self._appends.record(now_ns - began_ns, now_ns)
        self._records += records
        if now_ns >= self._past.due_ns:
            self._past.keep((self._records,), now_ns)

    def metrics(self, of_store: Metrics) -> Metrics:
        """Return the metrics of this moment, after those *of_store*; all tagged alike."""
        tags = of_store[0].tags if of_store else {}
        now_ns = perf_counter_ns()
        records = self._records
        change = self._past.change((records,), now_ns)
        self._past.keep((records,), now_ns)
        total, rate = APPENDED_RECORDS
        own = (
            *self._appends.counted(APPENDS, tags),
            *self._appends.latencies(APPEND_LATENCY, tags),
            total.of(records, tags),
            rate.of(change.added[0] / change.seconds, tags),
            RESTORED[0].of(self._restored, tags),
            RESTORE_REMAINING.of(0, tags),
        )
        return tagged((*of_store, *own), {"partition": self._partition})
