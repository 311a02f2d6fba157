"""Signals that end a run."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


class StopRequest:
    """That a run is to end: made by any thread, and by a handler of signals.

    A handler runs in the middle of what the main thread does. A `threading.Event` has a lock, which
    that thread may hold just then, since it waits for the same event: it would wait for itself.
    """

    def __init__(self) -> None:
        """There is none yet."""
        self._is_made = False

    def set(self) -> None:
        """Make the request."""
        self._is_made = True

    def is_set(self) -> bool:
        """Whether it has been made."""
        return self._is_made

    def wait(self, seconds: float) -> bool:
        """Sleep for *seconds*, if it has not been made; return whether it has."""
        if not self._is_made:
            time.sleep(seconds)
        return self._is_made


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Have SIGINT and SIGTERM call *stop*, if this is the thread that is told of signals."""
    with told_of_signals(lambda _: stop()):
        yield


@contextmanager
def told_of_signals(tell: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Have SIGINT and SIGTERM call *tell* with the signal, likewise."""
    if current_thread() is not main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {
        each: signal.signal(each, lambda number, _: tell(signal.Signals(number)))
        for each in signals
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
