"""By what time the records of a topic are ordered before they are processed (PRC-11)."""

from collections.abc import Callable
from typing import TypeAlias

from statestores.processing.operators.ends import Source
from statestores.processing.record import RawRecord, Record
from statestores.processing.serdes import decoded
from statestores.processing.topology import SubTopology

HeadTime: TypeAlias = Callable[[RawRecord], int]
"""From a record as it lies in its topic to its time."""


def head_times(part: SubTopology) -> dict[str, HeadTime]:
    """Return for each topic that *part* reads what finds the times of its records."""
    return {
        node.reads.name: _head_time(node.make()) for node in part.sources if node.reads is not None
    }


def own_stamp(raw: RawRecord) -> int:
    """Return the time that a record has been written with."""
    return raw.time_ms


def _head_time(source: object) -> HeadTime:
    """Return by what time records of *source* are ordered: that which an extractor finds."""
    if not isinstance(source, Source) or source.time is None:
        return own_stamp
    topic, time = source.topic, source.time

    def extracted(raw: RawRecord) -> int:
        """Return the record's time; its own stamp where there is no other."""
        try:
            found = time(
                Record(decoded(topic.key, raw.key), decoded(topic.value, raw.value), *raw[2:])
            )
        except Exception:  # noqa: BLE001  # the task meets it again, and does what its policy says
            return raw.time_ms
        return found if type(found) is int else raw.time_ms

    return extracted
