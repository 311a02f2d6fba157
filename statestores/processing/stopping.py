"""Signals that end a run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Have SIGINT and SIGTERM call *stop*, if this is the thread that is told of signals."""
    if current_thread() is not main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda *_: stop()) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
