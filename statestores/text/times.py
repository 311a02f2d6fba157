"""Times and durations as text: milliseconds, ISO 8601 or units go in, text for people comes out."""

import re
import time
from datetime import UTC, datetime, timedelta

from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.arguments import MAX_TIME_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_WORD = re.compile(r"(now|today|yesterday)(?:[ T]([0-9].*))?", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]+")
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|w)?")
_AGO = re.compile(r"([0-9]+\s*(?:ms|s|m|h|d|w))(?:\s+ago)?")
_UNITS_MS = {
    None: 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}

DURATION_EXPECTED = "milliseconds, or a number with ms, s, m, h, d or w"
"""What `parse_duration` reads, in words."""


def parse_time(text: str) -> int:
    """Return the milliseconds since the epoch that *text* says.

    Digits are milliseconds; anything else is ISO 8601, in UTC where it names no offset. Anything
    below a millisecond is cut off.

    >>> parse_time("1372939200000"), parse_time("2013-07-04T12:00"), parse_time("2013-07-04")
    (1372939200000, 1372939200000, 1372896000000)

    Raises:
        InvalidArgumentError: It is neither, or before 1970.
    """
    if _DIGITS.fullmatch(text):
        time_ms = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidArgumentError(
                f"a time is in milliseconds since 1970 or in ISO 8601, as 2013-07-04T12:00:00Z; "
                f"got {text!r}"
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = (moment - _EPOCH) // _MILLISECOND
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidArgumentError(f"a time is from 1970 on and fits into an int64, got {text!r}")
    return time_ms


def parse_moment(text: str, now_ms: int | None = None) -> int:
    """Return the milliseconds since the epoch that *text* says, also where it counts from now.

    What `parse_time` reads; a duration, which is so long ago; and ``now``, ``today`` or
    ``yesterday``, the latter two with a time of the day or without. Days begin in UTC. *now_ms* is
    by default what the clock says.

    >>> parse_moment("2h", 7_200_001), parse_moment("2 h ago", 7_200_001)
    (1, 1)
    >>> parse_moment("yesterday 14:00", 1372939200000), parse_moment("today", 1372939200000)
    (1372860000000, 1372896000000)

    Raises:
        InvalidArgumentError: It is none of these, or before 1970.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    word, ago = _WORD.fullmatch(text.strip()), _AGO.fullmatch(text.strip())
    if word is not None:
        return _by_word(word[1].lower(), word[2], now_ms, text)
    if ago is None:
        try:
            return parse_time(text)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error}; also 2h, or yesterday 14:00") from error
    time_ms = now_ms - parse_duration(ago[1])
    if time_ms < 0:
        raise InvalidArgumentError(f"a time is from 1970 on and fits into an int64, got {text!r}")
    return time_ms


def _by_word(word: str, clock: str | None, now_ms: int, text: str) -> int:
    """Return the time that *word* says, at the time of the day *clock*; *text* is all of it."""
    if word == "now":
        if clock is not None:
            raise InvalidArgumentError(f"now has no time of the day, got {text!r}")
        return now_ms
    day = (_EPOCH + _MILLISECOND * now_ms).date() - timedelta(days=word == "yesterday")
    if clock is None:
        return parse_time(day.isoformat())
    try:
        return parse_time(f"{day.isoformat()}T{clock}")
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"a time of the day is as in {word} 14:00 or {word} 14:00:30, got {text!r}"
        ) from error


def parse_duration(text: str) -> int:
    """Return the milliseconds that *text* says: digits, and a unit if it is a different one.

    >>> parse_duration("90000"), parse_duration("90s"), parse_duration("2 w")
    (90000, 90000, 1209600000)

    Raises:
        InvalidArgumentError: It is not a duration, or is longer than an int64 of milliseconds.
    """
    found = _DURATION.fullmatch(text)
    duration_ms = MAX_TIME_MS + 1 if found is None else int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms > MAX_TIME_MS:
        raise InvalidArgumentError(f"a duration is {DURATION_EXPECTED}, as 90m; got {text!r}")
    return duration_ms


def format_time(time_ms: int) -> str:
    """Return *time_ms* in ISO 8601, in UTC with milliseconds; beyond the year 9999, as it is.

    >>> format_time(1372939200123), format_time(2**63 - 1)
    ('2013-07-04T12:00:00.123Z', '9223372036854775807')
    """
    try:
        moment = _EPOCH + _MILLISECOND * time_ms
    except OverflowError:
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(duration_ms: int) -> str:
    """Return *duration_ms* in the largest unit that divides it.

    >>> format_duration(604800000), format_duration(90000), format_duration(1)
    ('7 days', '90 seconds', '1 millisecond')
    """
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if duration_ms and duration_ms % unit_ms == 0:
            return _counted(duration_ms // unit_ms, unit)
    if duration_ms % 1_000 == 0:
        return _counted(duration_ms // 1_000, "second")
    return _counted(duration_ms, "millisecond")


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == 1 else "s")
