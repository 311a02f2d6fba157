"""The argument ``serve=`` of every runner, which needs another extra only where it is given."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statestores.serving import Serving


def serving_of(serve: "Serving | str | None") -> "Serving | None":
    """Return what ``serve=`` says.

    Raises:
        MissingDriverError: The extra ``serve`` is not installed.
        InvalidTypeError, InvalidArgumentError: It is no place.
    """
    if serve is None:
        return None
    from statestores.serving import Serving  # noqa: PLC0415  # late: it needs an extra

    return Serving.of(serve)
