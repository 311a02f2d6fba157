"""Reads as of a time: which stores support them."""

from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.spi.specification import StoreSpecification


def check_has_history(specification: StoreSpecification[Any, Any]) -> None:
    """Accept a store that can be read as of a time, and whose history can be read.

    Raises:
        InvalidArgumentError: It is of another kind.
    """
    if not specification.kind.has_history:
        raise InvalidArgumentError(
            f"{specification.name!r} is a {specification.kind} store, which knows no time to be "
            "read as of and has no history; read what it holds now"
        )
