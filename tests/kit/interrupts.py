"""Control-C, where whoever started the tests had it ignored."""

import signal


def hear_interrupts() -> None:
    """Have SIGINT end programs that are started from now on, as at a terminal.

    A shell lets what it starts with ``&`` ignore the signal, and an ignored one is inherited by
    each program: a test that sends it would wait for ever. One that is handled is not.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
