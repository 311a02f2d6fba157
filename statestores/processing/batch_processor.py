"""Processors that take Arrow batches: functions of many records at once, with state and time.

A batch has the columns ``key``, ``value``, ``time_ms`` and ``headers``. Keys and values have the
Arrow types of their serdes (`int64`, `int64_sorted`, `float64`, `utf8`, `raw`); those of any other
serde are its bytes. Headers are packed as in a topic, null where a record has none.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from statestores.processing.any_processor import AnyContext, AnyProcessor

if TYPE_CHECKING:
    import pyarrow as pa


class BatchContext(AnyContext, Protocol):
    """What a batch processor can ask and tell its task."""

    def forward(self, batch: "pa.RecordBatch | pa.Table") -> None:
        """Give the records of *batch* to every child."""


class BatchProcessor(AnyProcessor):
    """A step that takes batches: one instance for each task, used by one thread at a time.

    The runner decides where a batch ends, and may give each record for itself: what comes of the
    records must not depend on it. Stores are declared as class attributes, and read by `store`.
    """

    context: BatchContext
    """Set before `open`."""

    def open(self, context: BatchContext) -> None:  # may do nothing
        """Get ready: stores and timers can be had from here on."""

    @abstractmethod
    def process(self, batch: "pa.RecordBatch") -> None:
        """Take a batch of at least one record, in the order of their offsets."""

    def close(self) -> None:  # may do nothing
        """Let go of what is not a store."""

    def forward(self, batch: "pa.RecordBatch | pa.Table") -> None:
        """Give the records of *batch* to every child.

        It has ``key``, ``value`` and ``time_ms``, of the types of the serdes that the step was
        given, and may have ``headers``.
        """
        self.context.forward(batch)
