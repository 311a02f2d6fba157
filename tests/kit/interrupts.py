"""Control-C, where whoever started the tests had it ignored; and two interrupts at once."""

import ctypes
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class Interrupted(KeyboardInterrupt):
    """What the handlers of `two_interrupts` raise."""


@contextmanager
def two_interrupts(count: int = 2) -> Iterator[Callable[[], None]]:
    """Give what has *count* signals be there at once, whose handlers all raise `Interrupted`.

    As after a wait in which they came. One is raised by the call, and the next where the
    interpreter looks for signals next: at the first call that is made to handle the one before.
    """
    signals = _SIGNALS[:count]
    tripped = ctypes.pythonapi.PyErr_SetInterruptEx

    def interrupt(*_: object) -> None:
        raise Interrupted

    def send() -> None:
        list(map(tripped, map(int, signals)))  # one call, and no look at signals within it

    before = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield send
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def hear_interrupts() -> None:
    """Have SIGINT end programs that are started from now on, as at a terminal.

    A shell lets what it starts with ``&`` ignore the signal, and an ignored one is inherited by
    each program: a test that sends it would wait for ever. One that is handled is not.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
