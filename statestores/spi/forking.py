"""What a forked child does with what its parent has open: it lets go of it (ENG-37, ASM-9).

A fork copies memory and descriptors, but neither the driver's threads nor exclusive ownership. A
child that goes on with such a copy writes into its parent's files, waits for threads that it does
not have, or hangs when it exits. So in the child everything registered here refuses to be used; the
parent notices nothing. It costs nothing until a process forks.
"""

import ctypes
import os
from contextlib import ExitStack
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakSet

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


class Disownable(Protocol):
    """Something that belongs to the process that has opened it."""

    def disown(self) -> None:
        """Let go of it, in a forked child: refuse every use, and leave what is the parent's."""


_OPENED: WeakSet[Disownable] = WeakSet()


def disown_after_fork(resource: Disownable) -> None:
    """Have `Disownable.disown` of *resource* called in every child that is forked from now on."""
    _OPENED.add(resource)


def never_destroy(resource: object) -> None:
    """Keep *resource* until the process is gone: its driver would wait for threads at its end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resource))


def disowned(engine_class: type[T]) -> type[T]:
    """Return the class that an engine of *engine_class* has in a forked child, to refuse all use.

    Only the class changes, so nothing on the path of a call in the parent changes.
    """
    namespace: dict[str, Any] = dict.fromkeys(_CALLS, _refuse)
    # Without slots of its own it has the layout of the engine's class, and can take its place.
    namespace |= {"__slots__": (), "is_open": property(_is_open), "close": _close}
    return type(f"Disowned{engine_class.__name__}", (engine_class,), namespace)


def _disown_all() -> None:
    with ExitStack() as every:  # one that fails does not stop the others
        for resource in list(_OPENED):
            every.callback(resource.disown)
        _OPENED.clear()


def _refuse(engine: object, *arguments: object, **options: object) -> NoReturn:
    raise StoreClosedError(
        f"this engine belongs to the process that process {os.getpid()} was forked from; open it "
        "after the fork, or start the process by 'spawn'"
    )


def _is_open(engine: object) -> bool:
    return False


def _close(engine: object) -> None:
    """Do nothing: the parent closes it."""


os.register_at_fork(after_in_child=_disown_all)
