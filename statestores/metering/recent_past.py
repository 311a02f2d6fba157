"""Running totals as they were a while ago, which is what rates are made of.

A rate is a true quotient: what was added between two readings, and the time between them. Readings
are kept about a second apart, for half a minute, by whoever comes along: the owner when it commits,
a collector when it looks. If nobody came for longer than that, the rate covers the longer time.
"""

from typing import NamedTuple

SECOND_NS = 1_000_000_000

WINDOW_NS = 30 * SECOND_NS
"""How far back a rate looks, if it can: as long as one of Kafka's samples."""


class Change(NamedTuple):
    """What was added since some moment."""

    since_ns: int
    """The moment."""

    seconds: float
    """The time since then, but at least a second, so that a first record makes no huge rate."""

    added: tuple[int, ...]
    """What each total has grown by."""


class RecentPast:
    """Readings of totals that only grow. Any thread may use it.

    There is no lock: the readings are one tuple, replaced as a whole. Of two threads that keep a
    reading at the same time, one may be forgotten, which costs resolution and nothing else.
    """

    __slots__ = ("_readings", "due_ns")

    def __init__(self, totals: tuple[int, ...], now_ns: int) -> None:
        """Begin with *totals*."""
        self._readings: tuple[tuple[int, tuple[int, ...]], ...] = ((now_ns, totals),)
        self.due_ns = now_ns + SECOND_NS

    def keep(self, totals: tuple[int, ...], now_ns: int) -> None:
        """Keep a reading, unless there is one of this second already."""
        if now_ns < self.due_ns:
            return
        readings = self._readings
        past = sum(1 for taken_ns, _ in readings if taken_ns <= now_ns - WINDOW_NS)
        self._readings = (*readings[max(0, past - 1) :], (now_ns, totals))
        self.due_ns = now_ns + SECOND_NS

    def change(self, totals: tuple[int, ...], now_ns: int) -> Change:
        """Return what was added up to *totals*, over half a minute or the time nearest to it."""
        readings = self._readings
        since_ns, before = readings[0]
        for taken_ns, reading in readings:
            if taken_ns <= now_ns - WINDOW_NS:
                since_ns, before = taken_ns, reading
        return Change(
            since_ns,
            max(1.0, (now_ns - since_ns) / SECOND_NS),
            tuple(now - then for now, then in zip(totals, before, strict=True)),
        )
