"""What a task counts: records in and out, and what went no further, with the reason."""

import logging
from collections import Counter
from dataclasses import dataclass, field

_LOGGER = logging.getLogger("statestores.processing")


@dataclass(slots=True)
class TaskCounts:
    """Counters of one task since it was opened; plain numbers that any thread may read."""

    processed: int = 0
    """Records that have been given to the task."""

    emitted: int = 0
    """Records that it has emitted, dead letters included."""

    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records that went no further, by operator and reason."""

    @property
    def dropped_total(self) -> int:
        """Kafka's ``dropped-records-total``."""
        return self.dropped.total()

    def drop(self, operator: str, reason: str, topic: str, partition: int, offset: int) -> None:
        """Count a record, and say where it was: a warning the first time, else only in detail."""
        self.dropped[operator, reason] += 1
        level = logging.WARNING if self.dropped[operator, reason] == 1 else logging.DEBUG
        _LOGGER.log(
            level,
            "%s dropped a record: %s (topic %s, partition %d, offset %d)",
            operator,
            reason,
            topic,
            partition,
            offset,
        )
