"""How an option of the data source is declared: its name, how it is read, and what it is for."""

from collections.abc import Callable
from dataclasses import field
from typing import Any


def option(
    name: str,
    read: Callable[[str], object],
    expected: str,
    *purposes: str,
    default: object = None,
    shown: bool = True,
) -> Any:
    """Declare an option: how users write it, how it is read, and what it is for.

    One that is not *shown* is in no message and no representation.
    """
    return field(
        default=default,
        repr=shown,
        metadata={
            "name": name,
            "read": read,
            "expected": expected,
            "purposes": purposes,
            "shown": shown,
        },
    )
