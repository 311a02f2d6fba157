"""Calls that may wait, on a thread, so that an event loop does not wait with them."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

ROWS_AT_ONCE: Final = 256
"""How many rows of an iteration are taken on a thread together."""


async def called(threads: Executor, call: Callable[P, T], *given: P.args, **how: P.kwargs) -> T:
    """Return what *call* returns on one of *threads*, with the context variables of the caller."""
    context = contextvars.copy_context()
    bound: Callable[[], T] = partial(context.run, partial(call, *given, **how))
    return await asyncio.get_running_loop().run_in_executor(threads, bound)
