"""Ctrl-C, or another thread, at a chosen line of what an engine does.

An interrupt is raised by the interpreter's trace function, before the line is executed, as a
signal's handler would raise it. A signal is handled when a call returns, so never between the last
call of a ``with`` block and that of ``__exit__``: a second event for the line of a ``with`` is
passed over.
"""

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from statestores.spi import Engine


class InterruptedForTestError(KeyboardInterrupt):
    """What is raised, and nothing else raises."""


class _Interruption:
    """Calls *act* once, before line number *at* of what is executed below *home*."""

    def __init__(self, home: str, at: int, act: Callable[[], object]) -> None:
        self._home = home
        self._at = at
        self._act = act
        self._lines = 0
        self._entered: set[tuple[int, int]] = set()

    def enter(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._step if frame.f_code.co_filename.startswith(self._home) else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and not self._leaves_a_with(frame):
            self._lines += 1
            if self._lines == self._at:
                sys.settrace(None)
                self._act()
        return self._step

    def _leaves_a_with(self, frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not line.lstrip().startswith("with "):
            return False
        place = id(frame), frame.f_lineno
        if place in self._entered:
            return True
        self._entered.add(place)
        return False


def home_of(engine: Engine) -> str:
    """Return where the code of *engine* is: its package, or the one file of its module."""
    top = type(engine).__module__.partition(".")[0]
    module = sys.modules[top]
    if hasattr(module, "__path__"):
        return str(Path(next(iter(module.__path__)))) + "/"
    return module.__file__ or top


def interrupt(operation: Callable[[], object], home: str, at: int) -> bool:
    """Run *operation* and interrupt it at its line number *at* below *home*.

    Return whether it was: it may have fewer lines.
    """
    try:
        act_within(operation, home, at, _interrupt)
    except InterruptedForTestError:
        return True
    return False


def act_within(
    operation: Callable[[], object], home: str, at: int, act: Callable[[], object]
) -> None:
    """Run *operation* and call *act* before its line number *at* below *home*, if it has so many.

    What other code raises comes through, be it that of *act*.
    """
    before = sys.gettrace()
    sys.settrace(_Interruption(home, at, act).enter)
    try:
        operation()
    finally:
        sys.settrace(before)


def _interrupt() -> None:
    raise InterruptedForTestError
