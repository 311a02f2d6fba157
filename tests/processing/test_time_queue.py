"""The queue of rows that wait for a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.processing.operators.time_queue import NEVER, TimeQueue


class Watched:
    """A store of bytes that notes where ranges begin."""

    def __init__(self, store: ss.KeyValueStore[bytes, bytes]) -> None:
        self.store = store
        self.begun: list[bytes] = []

    def range(self, first: bytes, last: bytes, **more: Any) -> Iterator[tuple[bytes, bytes]]:
        """Note *first*, and read."""
        self.begun.append(first)
        return self.store.range(first, last, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def test_what_was_removed_is_not_stepped_over(tmp_path: Path) -> None:
    """An as-of join of 336,776 flights took 110 s, of which RocksDB spent 90 on rows long removed.

    A queue on a sorted engine leaves its removed rows at its front until they are compacted, and
    each look for the next row began there. It begins at the head now, which is never too late.
    """
    with ss.open_store(tmp_path, ss.KeyValue("waiting"), backend="memory") as store:
        watched: Any = Watched(store)
        queue = TimeQueue(watched)
        popped = []
        for time_ms in range(100, 200, 10):
            queue.put(time_ms, b"b", b"1")
            queue.put(time_ms, b"a", b"2")
            popped += queue.pop_until(time_ms - 30)
        begun = [int.from_bytes(first[1:], "big") for first in watched.begun[1:]]
        again = TimeQueue(watched)

        assert begun == [100, 110, 120, 130, 140, 150, 160]
        assert [(time_ms, name) for time_ms, name, _ in popped] == [
            (time_ms, name) for time_ms in range(100, 170, 10) for name in (b"a", b"b")
        ]
        assert (queue.head_ms, again.head_ms, queue.last_ms()) == (170, 170, 190)

        queue.put(50, b"early", b"")
        assert [row[0] for row in queue.pop_until(180)] == [50, 170, 170, 180, 180]
        assert len(queue.pop_until(1_000)) == 2
        assert (queue.head_ms, queue.last_ms(), list(queue.rows())) == (NEVER, None, [])
