"""Waiting for a lock that another process of the same run holds for a moment.

A lock of a process that was stopped, as by SIGSTOP, is held until it goes on or is killed. So
nobody gives up; the log says whom one waits for.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from statestores.errors import StoreLockedError

T = TypeVar("T")

_LOGGER = logging.getLogger("statestores.processing")

_TELL_AFTER_SECONDS = 10.0
_LEAST_PAUSE_SECONDS = 0.001
_MOST_PAUSE_SECONDS = 0.05


class Patience:
    """Tries again while something is locked. Any thread may use it."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        """Wait for no longer than some seconds once *is_over* says that the run is to end."""
        self._is_over = is_over

    def wait_for(self, attempt: Callable[[], T]) -> T:
        """Return what *attempt* does, once it does not raise `StoreLockedError`.

        Raises:
            StoreLockedError: The run is to end, and the lock is not free.
        """
        began = told = time.monotonic()
        pause = _LEAST_PAUSE_SECONDS
        while True:
            try:
                return attempt()
            except StoreLockedError as error:
                now = time.monotonic()
                if self._is_over() and now - began > _TELL_AFTER_SECONDS:
                    raise
                if now - told > _TELL_AFTER_SECONDS:
                    told = now
                    _LOGGER.warning("waiting for %.0f s: %s", now - began, error)
            time.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)
