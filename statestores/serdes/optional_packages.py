"""Packages that are imported when they are first needed, so that the core needs none of them."""

from importlib import import_module
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
        raise MissingDriverError(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"try: pip install 'statestores[{extra}]'"
        ) from error
