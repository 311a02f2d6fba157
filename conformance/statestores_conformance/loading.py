"""Signals while the suite is loaded as a program: it ends as it does later, and without a word.

``python -m statestores_conformance`` loads the package, which takes a second, before it runs
``__main__``. So this module is the first that the package imports.
"""

import os
import signal
import sys

_KILLED = 128  # and the number of the signal, as shells say it


def _is_program() -> bool:
    """Whether Python loads this package in order to run it: no plugin, and no part of another."""
    return sys.argv[:1] == ["-m"] and __package__ in sys.orig_argv


def _end(number: int, _: object) -> None:
    """End at once: nothing was begun, and what a handler raises some imports pass over."""
    os._exit(_KILLED + number)


if _is_program():
    for _number, _default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        if signal.getsignal(_number) == _default:  # ignored behind `nohup` and `&`
            signal.signal(_number, _end)
