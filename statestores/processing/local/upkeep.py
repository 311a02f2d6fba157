"""Removes what topics need not keep: behind the tasks that read them, and by their retention.

A record of a repartition topic, or of a topic that a source fills, is of no use once each of its
readers has committed it (PRC-67). Records of other topics go by their retention, and only behind
the readers too.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeAlias

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreLockedError
from statestores.processing.local.retention import Retention
from statestores.processing.local.topics import AnyTopic
from statestores.processing.topology import Graph
from statestores.spi import TopicPartition

INTERVAL_SECONDS = 1.0
"""How often a run looks for what may go."""


Readers: TypeAlias = Mapping[str, Mapping[TopicPartition, int]]
"""Up to which offset, exclusive, each task has committed each partition that it reads."""


class Upkeep:
    """Knows which topics lose records, and who reads them. One thread uses it."""

    def __init__(
        self,
        graph: Graph,
        *,
        sources: Collection[str],
        sinks: Collection[str],
        retention: Mapping[str, Retention],
    ) -> None:
        """Check *retention*.

        Raises:
            InvalidTypeError: One is no `Retention`.
            InvalidArgumentError: The topology has no such topic, or it is one that is emptied
                anyway.
        """
        if not isinstance(retention, Mapping):
            raise InvalidTypeError(
                f"retention must be a mapping from a topic's name to a Retention, got {retention!r}"
            )
        emptied = {topic.name for topic in graph.internal_topics} | set(sources)
        for name, each in retention.items():
            if not isinstance(each, Retention):
                raise InvalidTypeError(
                    f"expected a Retention for {name!r}, such as Retention(after_ms=7 * DAY), got "
                    f"{each!r}"
                )
            if name not in graph.topics or name in emptied:
                kept = sorted(set(graph.topics) - emptied)
                raise InvalidArgumentError(
                    f"the topology {graph.name!r} has no topic {name!r} that a retention could be "
                    f"given; there are: {', '.join(kept) or 'none'}"
                )
        self._retention: dict[str, Retention | None] = dict.fromkeys(sorted(emptied))
        self._retention |= retention
        self._readers = Counter(list(sinks))
        for part in graph.sub_topologies:
            self._readers.update(topic.name for topic in part.source_topics)
        self._due = 0.0

    def do(self, topics: Mapping[str, AnyTopic], readers: Callable[[], Readers]) -> None:
        """Remove what may go, if it is time to look.

        Raises:
            StateStoreError: A log cannot be read or changed.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_SECONDS
        self.remove(topics, readers())

    def remove(self, topics: Mapping[str, AnyTopic], readers: Readers) -> None:
        """Remove what may go: of partitions of which it is known where every reader is.

        Raises:
            StateStoreError: A log cannot be read or changed.
        """
        reached: dict[TopicPartition, list[int]] = {}
        for places in readers.values():
            for place, offset in places.items():
                reached.setdefault(place, []).append(offset)
        for name, retention in self._retention.items():
            for number, log in enumerate(topics[name].logs):
                offsets = reached.get(TopicPartition(name, number), [])
                if len(offsets) == self._readers[name]:
                    with suppress(StoreLockedError):  # somebody appends; it is tried again
                        log.remove(min(offsets, default=None), retention)
