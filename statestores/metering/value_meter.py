"""Values of the recent past: their mean, the least and the highest."""

from typing import NamedTuple

from statestores.metering.recent_past import SECOND_NS, WINDOW_NS


class Summary(NamedTuple):
    """What the values of the last half minute amount to."""

    mean: float
    """Their mean, each by its weight."""

    least: float
    """The least."""

    highest: float
    """The highest."""


class _Second(NamedTuple):
    ends_ns: int
    weight: int
    total: float
    least: float
    highest: float


class ValueMeter:
    """One kind of value. One thread at a time records, any thread may read.

    The seconds that are over, and the one that runs, are one tuple each: a reader sees whole ones.
    """

    __slots__ = ("_now", "_past")

    def __init__(self) -> None:
        self._past: tuple[_Second, ...] = ()
        self._now: _Second | None = None

    def record(self, value: float, now_ns: int, weight: int = 1) -> None:
        """Note *value*, which stands for *weight* of its kind, on ``perf_counter_ns``'s clock."""
        now = self._now
        if now is not None and now_ns < now.ends_ns:
            ends_ns, before, total, least, highest = now
            self._now = _Second(
                ends_ns,
                before + weight,
                total + value * weight,
                min(least, value),
                max(highest, value),
            )
            return
        if now is not None:
            self._past = (*(each for each in self._past if each.ends_ns > now_ns - WINDOW_NS), now)
        self._now = _Second(now_ns + SECOND_NS, weight, value * weight, value, value)

    def summary(self, now_ns: int) -> Summary | None:
        """Return what there was in the last half minute; ``None`` if there was nothing."""
        now = self._now
        seconds = [*self._past] if now is None else [*self._past, now]
        recent = [each for each in seconds if each.ends_ns > now_ns - WINDOW_NS]
        weight = sum(each.weight for each in recent)
        if not weight:
            return None
        return Summary(
            sum(each.total for each in recent) / weight,
            min(each.least for each in recent),
            max(each.highest for each in recent),
        )
