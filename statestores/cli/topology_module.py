"""Topologies that a module of the user's holds, as commands are given them."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from statestores.errors import InvalidArgumentError
from statestores.processing import Topology

TopologyArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:TOPOLOGY",
        help="A module that Python finds from here, and the name of a Topology in it. The module "
        "is imported.",
    ),
]


def load_topology(name: str) -> Topology:
    """Return the topology that *name*, such as ``package.module:shop``, names.

    Raises:
        InvalidArgumentError: There is no such module, it fails when it is imported, or nothing in
            it of that name is a topology.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InvalidArgumentError(
            f"a topology is named as MODULE:TOPOLOGY, such as shop.counting:topology, got {name!r}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    loaded = _imported(module, here)
    found = getattr(loaded, attribute, None)
    if isinstance(found, Topology):
        return found
    there = [each for each, value in vars(loaded).items() if isinstance(value, Topology)]
    advice = (
        f"the module has: {', '.join(there)}"
        if there
        else f"write one in it, such as {attribute} = Topology('shop')"
    )
    if hasattr(loaded, attribute):
        raise InvalidArgumentError(
            f"{attribute!r} in the module {module!r} is no statestores.processing.Topology, got "
            f"{type(found).__name__}; {advice}"
        )
    raise InvalidArgumentError(f"there is no {attribute!r} in the module {module!r}; {advice}")


def _imported(module: str, here: str) -> ModuleType:
    """Return *module*, looked for from *here*.

    Raises:
        InvalidArgumentError: It is not there, or fails when it is imported.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _failed(module, error) from error
        advice = (
            f"name it as Python imports it, {module.removesuffix('.py').replace('/', '.')!r}"
            if module.endswith(".py")
            else "go to the directory that it is in, or install its package"
        )
        raise InvalidArgumentError(
            f"there is no module {module!r} to be found from {here!r}; {advice}"
        ) from error
    except Exception as error:  # whatever the user's own code raises
        raise _failed(module, error) from error


def _failed(module: str, error: Exception) -> InvalidArgumentError:
    """Return what to raise of a *module* that cannot be imported: the traceback is the user's."""
    return InvalidArgumentError(
        f"the module {module!r} fails when it is imported: {type(error).__name__}: {error}; "
        f"python -c 'import {module}' shows where"
    )
