"""What a forked child does with what its parent has open: it lets go of it (ENG-37, ASM-9).

A fork copies memory and descriptors, but neither the driver's threads nor exclusive ownership. A
child that goes on with such a copy writes into its parent's files, waits for threads that it does
not have, or hangs when it exits. So in the child everything registered here refuses to be used; the
parent notices nothing. What is only in memory is the child's own copy and stays usable; but a lock
that another thread of the parent held would be held for ever, so its locks are renewed (ENG-43).
And a driver whose threads serve the whole process is refused, since it would wait for those that
have stayed with the parent (ENG-44). It costs nothing until a process forks.
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


class Renewable(Protocol):
    """Something in memory that a forked child goes on using, as a copy of its own."""

    def renew_after_fork(self) -> None:
        """Be as if no other thread had been in a call, in a forked child: there is none."""


_OPENED: WeakSet[Disownable] = WeakSet()
_COPIED: WeakSet[Renewable] = WeakSet()
_used: set[str] = set()
_lost: set[str] = set()


def disown_after_fork(resource: Disownable) -> None:
    """Have `Disownable.disown` of *resource* called in every child that is forked from now on."""
    _OPENED.add(resource)


def renew_after_fork(copied: Renewable) -> None:
    """Have `Renewable.renew_after_fork` of *copied* called in every child, and in theirs."""
    _COPIED.add(copied)


def use_driver(name: str) -> None:
    """Say that the driver *name* is used, whose threads a forked child does not have (ENG-44).

    Raises:
        StoreClosedError: This process was forked from one in which it had: it would wait for them.
    """
    if name in _lost:
        raise StoreClosedError(
            f"process {os.getpid()} was forked from one that had used {name}, whose threads stayed "
            "there; start the process by 'spawn', or fork before anything is opened"
        )
    _used.add(name)


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


def _settle_all() -> None:
    with ExitStack() as every:  # one that fails does not stop the others
        for resource in list(_OPENED):
            every.callback(resource.disown)
        for copied in list(_COPIED):
            every.callback(copied.renew_after_fork)
        _OPENED.clear()
        _lost.update(_used)


def of_parent(what: str) -> str:
    """Return why *what* refuses in a forked child, and what to do."""
    return (
        f"{what} belongs to the process that process {os.getpid()} was forked from; start the "
        "process by 'spawn', and open it there once it is closed here"
    )


def _refuse(engine: object, *arguments: object, **options: object) -> NoReturn:
    raise StoreClosedError(of_parent("this engine"))


def _is_open(engine: object) -> bool:
    return False


def _close(engine: object) -> None:
    """Do nothing: the parent closes it."""


os.register_at_fork(after_in_child=_settle_all)
