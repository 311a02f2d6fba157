"""Times are milliseconds: what to do about those that are given in another unit (COM-48)."""

import warnings
from datetime import datetime, timedelta

_MICROSECONDS = range(10**15, 4 * 10**15)
"""September 2001 to October 2096 in microseconds; in milliseconds, the years 33,658 to 128,725."""

_NANOSECONDS = range(10**18, 4 * 10**18)
"""The same in nanoseconds."""

_OUT_OF_THE_STORE = 4
"""Frames between the warning and the commit of the caller, roughly: it is for a person to read."""


def in_milliseconds(time: object) -> str:
    """Return what to add to the refusal of *time*, which is not a number of milliseconds."""
    if isinstance(time, timedelta):
        return (
            f"; write {time // timedelta(milliseconds=1)}, or duration // timedelta(milliseconds=1)"
        )
    if isinstance(time, datetime):
        return "; write int(moment.timestamp() * 1000)"
    return ""


def warn_of_another_unit(store: str, first_ms: int) -> None:
    """Warn when the highest timestamp that a store saw first looks like another unit.

    Everything after it would be too late: no retention of milliseconds reaches back so far.
    """
    unit = (
        "microseconds"
        if first_ms in _MICROSECONDS
        else "nanoseconds"
        if first_ms in _NANOSECONDS
        else None
    )
    if unit is not None:
        warnings.warn(
            f"the first timestamps of {store!r} look like {unit} ({first_ms}), and are taken as "
            "milliseconds; divide them, or nothing that comes in milliseconds will be accepted",
            stacklevel=_OUT_OF_THE_STORE,
        )
