"""Commands without pandas, which Arrow imports to find out whether it was given something of it.

`pyarrow.array` and `pyarrow.scalar` ask that, and what makes numpy's arrays of Arrow's. The import
took a fifth to a quarter of the processor time of most commands. But nothing is of pandas where
nobody has imported it: so our own modules, whose calls of Arrow these are, do not find it until
somebody else has, such as a driver. Then pandas is found by all, and Arrow is told of its series
and arrays.

What looks at single objects inside of Arrow asks once and is not told: then ``pandas.NA`` and
``NaT`` are refused, with an error, where they would be nulls. So this is for the process of a
command that runs none of a user's code: not a topology, not a trusted backend. What others find in
the process of a user is not for a library to change.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa

_PANDAS = "pandas"
_OURS = ("statestores.", "statestores_", "pyarrow.compute")
_IMPORTING = ("importlib.", "_frozen_importlib")

_MOST_QUESTIONS = 20_000
"""How often nothing is found. Earlier releases of Arrow ask each time, which costs some 20 µs: as
much as pandas itself by then."""


def import_pandas_later() -> None:
    """Have calls of Arrow by our own modules go on without pandas until it is imported."""
    if _PANDAS not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds pandas where it is, and nothing else; for our own modules it is not there."""

    def __init__(self) -> None:
        self._questions = 0

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find pandas, and have Arrow told once it is loaded.

        Raises:
            ModuleNotFoundError: A module of ours asks.
        """
        if fullname != _PANDAS:
            return None
        if self._questions < _MOST_QUESTIONS and _asking_module().startswith(_OURS):
            self._questions += 1
            raise ModuleNotFoundError("pandas is imported later", name=_PANDAS)
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            found: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = _Telling(found.loader)
                return found
        return None


def _asking_module() -> str:
    """Return the name of the module that has called what imports."""
    frame = sys._getframe(2)  # noqa: SLF001  # has no public name
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_IMPORTING):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


class _Telling(Loader):
    """Loads pandas as its own loader does, and tells Arrow of it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module, as its own loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Load it, with its own loader where it says which one it has."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            _ = pa.lib._pandas_api.pd  # noqa: SLF001  # looks at it again; nothing else does
        except ImportError as error:  # it is too old for Arrow, which says so
            warnings.warn(str(error), stacklevel=2)
