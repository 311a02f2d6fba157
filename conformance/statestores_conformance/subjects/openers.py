"""Openers of stores, and how a file written after a failure finds the same one again.

An opener is found by its name: a method of a class, or a function of a module, or a
``functools.partial`` of either. A closure has no name, so the file must be given one.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statestores.semantics import open_on_engine
from statestores.semantics.expiry.wall_clock import Clock
from statestores.spi import Durability
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import OpenEngine, durability_of


@dataclass(frozen=True, slots=True)
class StoreOnEngine:
    """Opens stores of every kind over the engine that `open_engine` opens."""

    open_engine: OpenEngine
    """Opens the engine in the store's directory."""

    durability: Durability | None = None
    """The durability of the store's commits; ``None`` is the highest that the engine promises."""

    def __call__(self, path: Path, specification: Any, clock: Clock | None = None) -> Any:
        """Open the store that *specification* describes at *path*."""
        engine = self.open_engine(path)
        durability = self.durability or durability_of(engine)
        # Without a cache, so that the engine is asked rather than the store's own memory.
        return open_on_engine(
            engine, specification, durability=durability, clock=clock, read_cache_bytes=0
        )


@dataclass(frozen=True, slots=True)
class StampedByFunction:
    """Opens timestamped stores by a function of door two, which need not take a clock."""

    func: Callable[..., Any]
    """The function: of a directory and a specification, and of a ``clock=`` if it takes one."""

    def __call__(self, path: Path, specification: Any, clock: Clock | None = None) -> Any:
        """Open the store; skip the running test if it has a clock and the function takes none."""
        if clock is None:
            return self.func(path, specification)
        skip_unless_promised("a clock of one's own (clock=)", made=_takes_clock(self.func))
        return self.func(path, specification, clock=clock)


def _takes_clock(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    kinds = [each.kind for each in parameters.values()]
    return "clock" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def name_of(opener: Callable[..., Any]) -> str | None:
    """Return ``module:name`` of *opener*, or ``None`` when it cannot be found by a name."""
    owner = inspect.getmodule(opener)
    qualified = getattr(opener, "__qualname__", "<locals>")
    bound_to = getattr(opener, "__self__", None)
    if inspect.isclass(bound_to):
        owner = inspect.getmodule(bound_to)
        qualified = f"{bound_to.__qualname__}.{opener.__name__}"
    if owner is None or "<" in qualified:
        return None
    return f"{owner.__name__}:{qualified}"


def expression_of(opener: Callable[..., Any]) -> str | None:
    """Return an expression that gives *opener* again; ``None`` when there is no such name."""
    if isinstance(opener, functools.partial):
        inner = expression_of(opener.func)
        given = [*map(repr, opener.args), *(f"{k}={v!r}" for k, v in opener.keywords.items())]
        return None if inner is None else f"functools.partial({', '.join([inner, *given])})"
    name = name_of(opener)
    return None if name is None else f"pkgutil.resolve_name({name!r})"


def options_of(opener: Callable[..., Any]) -> dict[str, Any]:
    """Return the options that *opener* opens with, for another process to open with them too.

    They are those of ``functools.partial(MyEngine.open, options={...})``; a closure does not reveal
    its own. What JSON cannot express goes as text, as options from a command line always do.
    """
    options: dict[str, Any] = {}
    while isinstance(opener, functools.partial):
        options = {**(opener.keywords.get("options") or {}), **options}
        opener = opener.func
    plain = str | int | float | None
    return {
        key: value if isinstance(value, plain) else str(value) for key, value in options.items()
    }


def import_root_of(opener: Callable[..., Any]) -> str | None:
    """Return the directory from which the module of *opener* is imported."""
    while isinstance(opener, functools.partial):
        opener = opener.func
    name = name_of(opener)
    if name is None:
        return None
    module = name.partition(":")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    path = Path(file)
    depth = module.count(".") + (path.stem == "__init__")
    return str(path.parents[depth])
