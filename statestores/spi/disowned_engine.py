"""An engine in a forked child of the process that has opened it: it refuses everything (ENG-37)."""

import os
from typing import Any, NoReturn, TypeVar

from statestores.errors import StoreClosedError

T = TypeVar("T")

_CALLS = (
    "get",
    "get_many",
    "first",
    "last",
    "scan",
    "apply",
    "snapshot",
    "approximate_num_keys",
    "checkpoint",
    "ingest",
)


def disowned(engine_class: type[T]) -> type[T]:
    """Return the class that an engine of *engine_class* has in a forked child.

    Only the class changes, so nothing on the path of a call in the parent changes.
    """
    namespace: dict[str, Any] = dict.fromkeys(_CALLS, _refuse)
    # Without slots of its own it has the layout of the engine's class, and can take its place.
    namespace |= {"__slots__": (), "is_open": property(_is_open), "close": _close}
    return type(f"Disowned{engine_class.__name__}", (engine_class,), namespace)


def _refuse(engine: object, *arguments: object, **options: object) -> NoReturn:
    raise StoreClosedError(
        f"this engine belongs to the process that process {os.getpid()} was forked from; open it "
        "after the fork, or start the process by 'spawn'"
    )


def _is_open(engine: object) -> bool:
    return False


def _close(engine: object) -> None:
    """Do nothing: the parent closes it."""
