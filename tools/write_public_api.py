"""Writes docs/api.txt: every public name with its signature, as `make api` leaves it.

Public is what the packages of `PUBLIC` export in ``__all__``, and of classes the members whose
names have no underscore. A line that goes or changes is a change of the API: the test
``tests/packaging/test_public_api.py`` fails until somebody has said so.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

LIST = Path(__file__).resolve().parents[1] / "docs" / "api.txt"

PUBLIC = (
    "statestores",
    "statestores.arrow",
    "statestores.asynchronous",
    "statestores.changelog",
    "statestores.kafka",
    "statestores.metrics",
    "statestores.migration",
    "statestores.object_log",
    "statestores.processing",
    "statestores.processing.local",
    "statestores.processing.testing",
    "statestores.query",
    "statestores.query.metadata",
    "statestores.resharding",
    "statestores.serdes",
    "statestores.serdes.schemas",
    "statestores.serving",
    "statestores.spark",
    "statestores.spi",
    "statestores.storage",
    "statestores.tasks",
    "statestores.upkeep",
    "statestores.verification",
)
"""The packages whose exports are promised; `statestores.errors` is public as a whole."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def lines() -> Iterator[str]:
    """Yield the public names, in order, each with what callers rely on."""
    for package in PUBLIC:
        module = import_module(package)
        for name in sorted(module.__all__):
            yield from _described(f"{package}.{name}", getattr(module, name))
    errors = import_module("statestores.errors")
    for name, found in sorted(vars(errors).items()):
        if inspect.isclass(found) and found.__module__ == errors.__name__:
            bases = ", ".join(base.__name__ for base in found.__bases__)
            yield f"statestores.errors.{name}({bases})"


def _described(place: str, found: Any) -> Iterator[str]:
    """Yield *found*, and what it has."""
    # The environment of the site, which reads `PUBLIC`, has nothing of ours.
    from statestores.logged_store.names_of_stores import NameOfStore  # noqa: PLC0415

    if inspect.isclass(found):
        yield f"class {place}{'' if _is_made_elsewhere(found) else _signature(found)}"
        for name in sorted(dir(found)):
            member = inspect.getattr_static(found, name)
            # The latter is no member: it says where one is.
            if name.startswith("_") or _is_foreign(found, name) or isinstance(member, NameOfStore):
                continue
            yield from _member(f"{place}.{name}", member)
    elif inspect.isroutine(found):
        yield f"def {place}{_signature(found)}"
    elif inspect.ismodule(found):
        yield f"module {place}"
    else:
        yield f"value {place}"


def _is_made_elsewhere(found: type) -> bool:
    """Whether nobody calls *found*: it has `open` or `create`, or is an Enum.

    What an Enum is called with differs between Pythons.
    """
    makers = (inspect.getattr_static(found, name, None) for name in ("open", "create"))
    return issubclass(found, Enum) or any(isinstance(each, classmethod) for each in makers)


def _is_foreign(owner: type, name: str) -> bool:
    """Whether *name* is a member of a class that is not ours, such as of `int` or `Enum`."""
    definer = next((each for each in owner.__mro__ if name in vars(each)), owner)
    ours = definer.__module__.partition(".")[0] in {"statestores", "pyspark_statestores"}
    return not ours or (issubclass(owner, Enum) and definer is Enum)


def _member(place: str, found: Any) -> Iterator[str]:
    """Yield the member *found* of a class."""
    if isinstance(found, (classmethod, staticmethod)):
        yield f"  def {place}{_signature(found.__func__)}"
    elif inspect.isroutine(found):
        yield f"  def {place}{_signature(found)}"
    else:
        yield f"  value {place}"


def _signature(found: Any) -> str:
    """Return the parameters of *found* with their kinds and defaults; types are mypy's to judge."""
    try:
        signature = inspect.signature(found)
    except (ValueError, TypeError):
        return ""
    bare = [
        each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()
    ]
    plain = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return _ADDRESS.sub("", str(plain))


def text() -> str:
    """Return the whole list."""
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    LIST.write_text(text(), encoding="utf-8")
    print(f"wrote {LIST}")
    sys.exit(0)
