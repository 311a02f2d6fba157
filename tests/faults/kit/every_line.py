"""An interrupt at each line that an operation comes to, one line in each run; or a second one.

The interrupt is a ``KeyboardInterrupt`` raised by the interpreter's own trace function before the
line is executed, as a signal's handler would raise it.
"""

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import statestores
from statestores.failpoints import arm, disarm

_OWN = str(Path(statestores.__file__).parent)
_NEVER = sys.maxsize


class Interrupted(KeyboardInterrupt):
    """What is raised, and nothing else raises."""


class Interruption:
    """Interrupts what runs within it before its line number *at*."""

    def __init__(self, at: int = _NEVER) -> None:
        self._at = at
        self.lines = 0
        """How many lines have been begun."""
        self.where: str | None = None
        """The line that was not."""

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._step if frame.f_code.co_filename.startswith(_OWN) else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                sys.settrace(None)
                code = frame.f_code
                name = Path(code.co_filename).relative_to(_OWN)
                self.where = f"{name}:{frame.f_lineno} {code.co_qualname}"
                raise Interrupted
        return self._step


def interrupt(operation: Callable[[], object], at: int) -> str | None:
    """Run *operation* and interrupt it at its line number *at*; return where.

    ``None``: it ended before, or the line was one of a finalizer, which interrupts nothing.
    """
    interruption = Interruption(at)
    try:
        with interruption:
            operation()
    except Interrupted:
        return interruption.where
    return None


def interrupt_twice(operation: Callable[[], object], failpoint: str, at: int) -> str | None:
    """Interrupt *operation* at *failpoint*, and then before line number *at* of what handles that.

    Lines count of functions that are called since: there the interpreter looks for a second
    interrupt, and not between an error and the next call. Return where it was; ``None`` if there
    are fewer lines, or the operation does not come to the failpoint.
    """
    second = Interruption(at)

    def begin() -> None:
        second.__enter__()  # for functions that are called from now on
        raise Interrupted

    arm(failpoint, begin, at=1)
    try:
        operation()
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
        disarm()
    return second.where


def count_lines(operation: Callable[[], object]) -> int:
    """Run *operation*, and return how many lines it took."""
    with Interruption() as interruption:
        operation()
    return interruption.lines


def chosen_lines(lines: int, most: int | None, seed: int) -> Iterator[int]:
    """Yield the numbers of all lines, or *most* of them by *seed*, and always the last ones.

    A few more than there are, since a run may take another way than the one that counted.
    """
    every = range(1, lines + 8)
    if most is None or most >= len(every):
        yield from every
    else:
        yield from sorted(random.Random(seed).sample(every, most))
