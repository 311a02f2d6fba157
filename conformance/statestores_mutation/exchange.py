"""Exchanges the code of the functions of a module that is imported already.

Whoever has imported a function, or holds a method of a class, then runs the changed code: the
function stays the same object, and only its code is another.
"""

import ast
import gc
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType


class NotExchangedError(Exception):
    """The change cannot be made in a process that has imported the module."""


def path_of(module: str) -> Path:
    """Return the file of *module*."""
    file = import_module(module).__file__
    assert file is not None
    return Path(file)


def holders(module: str) -> list[FunctionType]:
    """Return every function of *module* that there is.

    It looks at each object of the process, so a process that forks others does it once.
    """
    file = str(path_of(module))
    # What a project's tests have frozen, to fork sooner or collect less, is among no objects.
    gc.unfreeze()
    return [
        held
        for held in gc.get_objects()
        if isinstance(held, FunctionType) and held.__code__.co_filename == file
    ]


def exchange(module: str, tree: ast.Module, held: Iterable[FunctionType] | None = None) -> None:
    """Let every function of *module*, or those of them that are *held*, run its code in *tree*.

    A function within another one is made anew by each call of it, from the code of the outer one.

    Raises:
        NotExchangedError: Nobody holds a function whose code differs, or that code has other free
            variables than a closure of it.
    """
    changed = dict(_codes(compile(tree, str(path_of(module)), "exec", dont_inherit=True)))
    exchanged = 0
    for function in holders(module) if held is None else held:
        code = function.__code__
        new = changed.get((code.co_qualname, code.co_firstlineno))
        if new is not None and code != new:
            if new.co_freevars != code.co_freevars:
                raise NotExchangedError(f"{code.co_qualname} has other free variables")
            function.__code__ = new
            exchanged += 1
    if not exchanged:
        raise NotExchangedError(f"nobody holds a function of {module} that differs")


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yield the code of each function within *code*, by its name and first line."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)
