"""Timers of a task, kept in its store: they survive a crash and a move (PRC-12)."""

from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns

from statestores.metering.operation_meter import OperationMeter
from statestores.processing.operators.time_queue import NEVER
from statestores.spi import KeyValueStore

_ROW = Struct(">qq?")
"""The next time, the interval, and whether it is cancelled."""

_PREFIX = b"timer/"


class TaskTimer:
    """One callback that comes again and again."""

    def __init__(
        self,
        timers: "Timers",
        name: bytes,
        interval_ms: int,
        callback: Callable[[int], None],
        next_ms: int,
        *,
        is_cancelled: bool,
    ) -> None:
        """Begin, or go on, with *next_ms*."""
        self._timers = timers
        self.name = name
        self.interval_ms = interval_ms
        self.callback = callback
        self.next_ms = next_ms
        self.is_cancelled = is_cancelled

    def cancel(self) -> None:
        """Call no more, also not after a restart."""
        self.is_cancelled = True
        self._timers.keep(self)

    def move_past(self, now_ms: int) -> None:
        """Set the next time after *now_ms*, a whole number of intervals on."""
        behind = max(0, now_ms - self.next_ms)
        self.next_ms += (behind // self.interval_ms + 1) * self.interval_ms


class Timers:
    """The timers of one clock.

    Invariant: no timer is due before `next_ms`.
    """

    def __init__(
        self, store: KeyValueStore[bytes, bytes], clock: str, calls: OperationMeter
    ) -> None:
        """Keep timers in *store*; *calls* measures them."""
        self._calls = calls
        self._store = store
        self._clock = clock
        self._timers: list[TaskTimer] = []
        self._counts: dict[str, int] = {}
        self.next_ms = NEVER

    def add(
        self, node: str, interval_ms: int, callback: Callable[[int], None], start_ms: int
    ) -> TaskTimer:
        """Add a timer of *node*: as it was left, if there was one in its place, else anew.

        A timer is known by its node and by its place among the timers that the node asks for.
        """
        place = self._counts.get(node, 0)
        self._counts[node] = place + 1
        name = _PREFIX + f"{self._clock}/{node}/{place}".encode()
        next_ms, is_cancelled = start_ms, False
        kept = self._store.get(name)
        if kept is not None:
            kept_ms, kept_interval_ms, was_cancelled = _ROW.unpack(kept)
            if kept_interval_ms == interval_ms:
                next_ms, is_cancelled = kept_ms, was_cancelled
        timer = TaskTimer(self, name, interval_ms, callback, next_ms, is_cancelled=is_cancelled)
        self._timers.append(timer)
        if self._clock == "wall" and (kept is None or timer.next_ms == start_ms):
            self.keep(timer)  # its first time is counted from now, and not from the next restart
        self._look()
        return timer

    def keep(self, timer: TaskTimer) -> None:
        """Write a timer down."""
        row = _ROW.pack(timer.next_ms, timer.interval_ms, timer.is_cancelled)
        self._store.put(timer.name, row)
        self._look()

    def fire(self, now_ms: int) -> None:
        """Call what is due at *now_ms*, each once, in the order in which they were added."""
        for timer in list(self._timers):
            if timer.next_ms <= now_ms and not timer.is_cancelled:
                timer.move_past(now_ms)
                self.keep(timer)
                began_ns = perf_counter_ns()
                timer.callback(now_ms)
                ended_ns = perf_counter_ns()
                self._calls.record(ended_ns - began_ns, ended_ns)

    def _look(self) -> None:
        times = [timer.next_ms for timer in self._timers if not timer.is_cancelled]
        self.next_ms = min(times, default=NEVER)
