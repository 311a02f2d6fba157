"""Waiting for a lock that somebody else has, while holding nothing."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from statestores.errors import StoreLockedError

COMMIT_TIMEOUT_MS: Final = 60_000
"""How long an already staged write waits, unless told otherwise: its work is done, and another's
commit takes a second."""

_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 1_000

_Taken = TypeVar("_Taken")


def when_unlocked(take: Callable[[], _Taken], timeout_ms: int, who: str, told_by: str) -> _Taken:
    """Return what *take* returns, once it is not refused by a lock; nothing is held in between.

    *who* waits and what the time was *told_by* are for the message.

    Raises:
        StoreLockedError: It was refused until *timeout_ms* had passed; 0 tries once.
    """
    pause_ms = _FIRST_PAUSE_MS
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return take()
        except StoreLockedError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreLockedError(
                    f"{who} has waited for {timeout_ms:,} ms, as {told_by} says, and gives up: "
                    f"{error}"
                ) from error
            # Several who wait should not all come back at the same moment.
            time.sleep(min(left, random.uniform(0.5, 1) * pause_ms / 1000))  # noqa: S311  # no secret
            pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)
