"""Windows: how time is cut, when a window is closed, and when its result comes out.

One rule closes all of them: a window is closed once stream time is more than the grace past the
last instant at which a record could still belong to it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from statestores.errors import InvalidArgumentError, InvalidTypeError

Form: TypeAlias = tuple[tuple[str, str | int], ...]
"""What makes windows other windows, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows:
    """Windows ``[start, start + size)`` at the multiples of *advance*. By `tumbling`, `hopping`."""

    size_ms: int
    """How long a window is."""

    advance_ms: int
    """How far the next window starts after one; the size for windows that do not overlap."""

    grace_ms: int = 0
    """How late a record may come."""

    @property
    def form(self) -> Form:
        """What windows of another form must not be mixed with; lateness is none of it."""
        return ("windows", "aligned"), ("size_ms", self.size_ms), ("advance_ms", self.advance_ms)

    @property
    def least_retention_ms(self) -> int:
        """For how long a store has to keep windows."""
        return self.size_ms + self.grace_ms

    @property
    def store_size_ms(self) -> int:
        """The window size of the store."""
        return self.size_ms

    def closes_after_ms(self, end_ms: int) -> int:
        """Return the last stream time at which the window that ends at *end_ms* is open."""
        return end_ms - 1 + self.grace_ms

    def starts(self, time_ms: int) -> range:
        """Return the starts of the windows of a time, the earliest first."""
        first = (time_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(max(0, first), time_ms + 1, self.advance_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindows:
    """Windows ``[t - difference, t]`` and ``(t, t + difference]`` around each record (KIP-450)."""

    difference_ms: int
    """How far apart two records of a window are at most, inclusive."""

    grace_ms: int = 0
    """How late a record may come."""

    @property
    def form(self) -> Form:
        """What windows of another form must not be mixed with; lateness is none of it."""
        return ("windows", "sliding"), ("difference_ms", self.difference_ms)

    @property
    def least_retention_ms(self) -> int:
        """For how long a store has to keep windows: a late record looks two differences back."""
        return 2 * self.difference_ms + self.grace_ms + 2

    @property
    def store_size_ms(self) -> int:
        """The window size of the store."""
        return self.difference_ms

    def closes_after_ms(self, end_ms: int) -> int:
        """Return the last stream time at which the window that ends at *end_ms* is open."""
        return end_ms + self.grace_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindows:
    """Records of which each is at most *gap* after the one before. By `session`."""

    gap_ms: int
    """The longest pause within a session, inclusive."""

    grace_ms: int = 0
    """How late a record may come."""

    @property
    def form(self) -> Form:
        """What windows of another form must not be mixed with; lateness is none of it."""
        return ("windows", "session"), ("gap_ms", self.gap_ms)

    @property
    def least_retention_ms(self) -> int:
        """For how long a store has to keep sessions."""
        return self.gap_ms + self.grace_ms + 1

    def closes_after_ms(self, end_ms: int) -> int:
        """Return the last stream time at which the session that ends at *end_ms* is open."""
        return end_ms + self.gap_ms + self.grace_ms


Windows: TypeAlias = TimeWindows | SlidingWindows | SessionWindows


def tumbling(size_ms: int, *, grace_ms: int = 0) -> TimeWindows:
    """Return windows of *size_ms* that do not overlap, aligned to the epoch (PRC-20).

    Args:
        size_ms: How long a window is, from 1; its start belongs to it, its end does not.
        grace_ms: How late a record may come; by default not at all.

    Raises:
        InvalidTypeError, InvalidArgumentError: A span is no int of milliseconds, or out of range.
    """
    check_duration("size_ms", size_ms, least=1)
    check_duration("grace_ms", grace_ms)
    return TimeWindows(size_ms=size_ms, advance_ms=size_ms, grace_ms=grace_ms)


def hopping(size_ms: int, advance_ms: int, *, grace_ms: int = 0) -> TimeWindows:
    """Return windows of *size_ms* of which one starts every *advance_ms*, aligned to the epoch.

    Args:
        size_ms: How long a window is, from 1; its start belongs to it, its end does not.
        advance_ms: How far apart windows start, from 1 to *size_ms*. A record is in about
            ``size_ms / advance_ms`` of them, and each of these is an update.
        grace_ms: How late a record may come; by default not at all.

    Raises:
        InvalidTypeError, InvalidArgumentError: A span is no int of milliseconds, or out of range.
    """
    check_duration("size_ms", size_ms, least=1)
    check_duration("advance_ms", advance_ms, least=1)
    check_duration("grace_ms", grace_ms)
    if advance_ms > size_ms:
        raise InvalidArgumentError(
            f"advance_ms must not be above size_ms, got {advance_ms} and {size_ms}: records in "
            "between would be in no window"
        )
    return TimeWindows(size_ms=size_ms, advance_ms=advance_ms, grace_ms=grace_ms)


def sliding(difference_ms: int, *, grace_ms: int = 0) -> SlidingWindows:
    """Return a window for each set of records that are at most *difference_ms* apart (PRC-24).

    Args:
        difference_ms: From the start of a window to its end, both inclusive; from 1.
        grace_ms: How late a record may come; by default not at all.

    Raises:
        InvalidTypeError, InvalidArgumentError: A span is no int of milliseconds, or out of range.
    """
    check_duration("difference_ms", difference_ms, least=1)
    check_duration("grace_ms", grace_ms)
    return SlidingWindows(difference_ms=difference_ms, grace_ms=grace_ms)


def session(gap_ms: int, *, grace_ms: int = 0) -> SessionWindows:
    """Return sessions, which end when more than *gap_ms* pass without a record (PRC-25).

    Args:
        gap_ms: The longest pause within a session, inclusive; from 1.
        grace_ms: How late a record may come; by default not at all.

    Raises:
        InvalidTypeError, InvalidArgumentError: A span is no int of milliseconds, or out of range.
    """
    check_duration("gap_ms", gap_ms, least=1)
    check_duration("grace_ms", grace_ms)
    return SessionWindows(gap_ms=gap_ms, grace_ms=grace_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """When windowed results come out. By `updates` and `closed`."""

    on_close: bool = False
    """Once, when a window is closed; else with each update."""

    idle_ms: int | None = None
    """Close every window when no record has come for so long by the wall clock."""


def updates() -> Emission:
    """Give the result of a window again with each record that changes it (the default)."""
    return Emission()


def closed(*, idle_ms: int | None = None) -> Emission:
    """Give the result of a window once, when it is closed, and never lose one (PRC-22).

    With *idle_ms*, the windows of a stream that has gone quiet are closed too, when the wall clock
    has moved that far without a record: what arrives late after that is dropped. That depends on
    the machine's clock, so it is not deterministic, and off by default.

    Raises:
        InvalidTypeError, InvalidArgumentError: *idle_ms* is no int of milliseconds from 1.
    """
    if idle_ms is not None:
        check_duration("idle_ms", idle_ms, least=1)
    return Emission(on_close=True, idle_ms=idle_ms)


def check_duration(name: str, duration_ms: object, *, least: int = 0) -> None:
    """Accept a time span of at least *least* milliseconds.

    Raises:
        InvalidTypeError, InvalidArgumentError: It is none.
    """
    _check_number(name, duration_ms, least, "an int of milliseconds")


def check_count(name: str, count: object, *, least: int = 1) -> None:
    """Accept a number of things, at least *least*.

    Raises:
        InvalidTypeError, InvalidArgumentError: It is none.
    """
    _check_number(name, count, least, "an int")


def _check_number(name: str, number: object, least: int, kind: str) -> None:
    if type(number) is not int:
        raise InvalidTypeError(f"{name} must be {kind}, got {number!r}")
    if not least <= number < 1 << 63:
        raise InvalidArgumentError(f"{name} must be from {least} to 2**63 - 1, got {number!r}")


Closing: TypeAlias = Callable[[int], int]
"""From the end of a window to the last stream time at which it is open."""
