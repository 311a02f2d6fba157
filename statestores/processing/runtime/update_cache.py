"""A cache of updates: of each key one comes out, when a task commits or the cache is full (PRC-82).

Stores are written at once; what waits is what is given on. So the cache holds nothing that a crash
could lose: what is not committed is processed again.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import Any

from statestores.failpoints import reach
from statestores.processing.change import Change
from statestores.processing.operators.aggregates import Aggregate, TableAggregate
from statestores.processing.operators.last_updates import children_of, only_last_matters
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.operators.tables import TableSource
from statestores.processing.operators.windowed import WindowedOperator
from statestores.processing.stores import key_serde
from statestores.processing.topology import SubTopology
from statestores.serdes.windowed_serde import WindowedSerde
from statestores.spi.records import new_tuple

ENTRY_BYTES = 320
"""What an update takes in addition to its key and value: four objects, and a dictionary's place."""


class UpdateCache:
    """The updates of a task that wait, in the order of the last one of each key."""

    def __init__(self, max_bytes: int, flush: Callable[[], None]) -> None:
        """Hold up to *max_bytes*; *flush* is called when it has more, and calls `flush` here."""
        self._max_bytes = max_bytes
        self._full = flush
        self._held_bytes = 0
        self._waiting: dict[tuple[int, bytes], tuple[Change, Receive, int]] = {}

    def attach(
        self,
        part: SubTopology,
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        store: Callable[[str], Any],
    ) -> None:
        """Take the updates of those operators of *part* behind which only the last one matters."""
        below = children_of(part.nodes)
        writers = Counter(node.writes.name for node in part.nodes if node.writes is not None)
        shared = {topic for topic, count in writers.items() if count > 1}  # others write in between
        told = {*part.topics_read, *shared}
        for number, node in enumerate(part.nodes):
            operator: Any = operators[node.name]
            if _gives_updates(operator) and only_last_matters(node, below, operators, ways, told):
                key = key_serde(store(operator.store).specification)
                is_windowed = isinstance(operator, WindowedOperator)
                encode = WindowedSerde(key).encode if is_windowed else key.encode
                operator.forward = self._taking(number, encode, operator.forward)

    def _taking(
        self, number: int, encode: Callable[[Any], bytes], forward: Receive
    ) -> Callable[[Change], None]:
        waiting = self._waiting

        def take(change: Change) -> None:
            name = number, encode(change[0])
            before = waiting.pop(name, None)  # what comes again moves to the end
            size = ENTRY_BYTES + len(name[1]) + getsizeof(change[1])
            if before is not None:
                (_, _, old, _, _, _), _, held = before
                key, new, _, time_ms, headers, is_latest = change
                change = new_tuple(Change, (key, new, old, time_ms, headers, is_latest))
                size = max(size, held)
                self._held_bytes -= held
            waiting[name] = change, forward, size
            self._held_bytes += size
            if self._held_bytes > self._max_bytes:
                self._full()

        return take

    def flush(self) -> None:
        """Give on everything that waits."""
        if not self._waiting:
            return
        several = list(self._waiting.values())
        self._waiting.clear()
        self._held_bytes = 0
        for change, forward, _ in several:
            forward(change)
        reach("task.updates-given")


def _gives_updates(operator: Operator) -> bool:
    if isinstance(operator, WindowedOperator):
        return not operator.emission.on_close
    return type(operator) in (Aggregate, TableAggregate, TableSource)


def cache_of(
    part: SubTopology,
    operators: Mapping[str, Operator],
    ways: Mapping[str, Receive],
    store: Callable[[str], Any],
    max_bytes: int,
    flush: Callable[[], None],
) -> UpdateCache | None:
    """Return a cache of the updates of *part*; ``None`` with no bytes for it."""
    if not max_bytes:
        return None
    cache = UpdateCache(max_bytes, flush)
    cache.attach(part, operators, ways, store)
    return cache
