"""Packages that are imported when they are first needed, so that the core needs none of them."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from statestores.errors import MissingDriverError


def require(package: str, *, purpose: str, extra: str) -> Any:
    """Return the module *package*.

    Raises:
        MissingDriverError: It is not installed; the message says what needs it and what to install.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        # Another name means that the package is there and lacks something of its own.
        if error.name != package:
            raise
        raise _missing(package, purpose, extra) from error


def require_installed(package: str, *, purpose: str, extra: str) -> None:
    """Accept *package* if it is there, and leave importing it to whoever needs it.

    Raises:
        MissingDriverError: As `require`.
    """
    if find_spec(package) is None:
        raise _missing(package, purpose, extra)


def _missing(package: str, purpose: str, extra: str) -> MissingDriverError:
    return MissingDriverError(
        f"{purpose} needs the package {package!r}, which is not installed; "
        f"try: pip install 'statestores[{extra}]'",
        name=package,
    )
