"""What a forked child does with what its parent has open: it lets go of it (ENG-37, ASM-9).

A fork copies memory and descriptors, but neither the driver's threads nor exclusive ownership. A
child that goes on with such a copy writes into its parent's files, waits for threads that it does
not have, or hangs when it exits. So in the child everything registered here refuses to be used; the
parent notices nothing. It costs nothing until a process forks.
"""

import ctypes
import os
from contextlib import ExitStack
from typing import Protocol
from weakref import WeakSet


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


def _disown_all() -> None:
    with ExitStack() as every:  # one that fails does not stop the others
        for resource in list(_OPENED):
            every.callback(resource.disown)
        _OPENED.clear()


os.register_at_fork(after_in_child=_disown_all)
