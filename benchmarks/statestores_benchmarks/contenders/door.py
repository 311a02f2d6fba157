"""What a key-value workload calls, whatever is behind it.

A door's functions are the contender's own bound methods wherever it has them, so that the contender
is measured and not its door.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Door(Generic[Key, Value]):
    """An open store of one contender."""

    get: Callable[[Key], Value | None]
    """Return a key's value."""

    put: Callable[[Key, Value], object]
    """Set a key's value; it is durable after `commit` at the latest."""

    commit: Callable[[], object]
    """Hand what was put to the operating system, as a whole if the contender can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender(Generic[Key, Value]):
    """Somebody's key-value state."""

    name: str
    """What the tables call it."""

    what: str
    """Which of its calls are measured."""

    open: Callable[[Path], AbstractContextManager[Door[Key, Value]]]
    """Opens it in a directory, which may hold what it wrote before."""

    needs: tuple[str, ...] = field(default=())
    """Modules without which there is no such contender."""


def nothing() -> None:
    """Commit when each put is already written."""


@contextmanager
def closing_at_end(database: Any) -> Iterator[Any]:
    """Give *database*, and close it."""
    try:
        yield database
    finally:
        database.close()
