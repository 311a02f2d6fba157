"""Where an instance answers queries (KIP-67)."""

import re
from dataclasses import dataclass
from typing import Self

from statestores.errors import InvalidArgumentError, InvalidTypeError

_MAX_PORT = 65_535

_TEXT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, order=True)
class Host:
    """A name or address, and a port. Written ``name:port``, an IPv6 address in brackets."""

    name: str
    """The name of the machine, or its address."""

    port: int
    """The port, from 1 to 65535."""

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            InvalidTypeError, InvalidArgumentError: One of them is none.
        """
        if type(self.name) is not str or type(self.port) is not int:
            raise InvalidTypeError(
                f"a host is a name and a port number, got {self.name!r} and {self.port!r}"
            )
        if not self.name or not 1 <= self.port <= _MAX_PORT or not _TEXT.fullmatch(str(self)):
            raise InvalidArgumentError(
                "a host has a name of letters, digits, '.', '_' and '-', or an address, and a port "
                f"from 1 to {_MAX_PORT}; got {self.name!r} and {self.port!r}"
            )

    @classmethod
    def of(cls, host: "Self | str") -> Self:
        """Return *host*, given itself or as text.

        Raises:
            InvalidTypeError, InvalidArgumentError: It is neither.
        """
        if isinstance(host, cls):
            return host
        if not isinstance(host, str):
            raise InvalidTypeError(f"a host is a Host or 'name:port', got {host!r}")
        found = name_and_port(host)
        if found is None:
            raise InvalidArgumentError(f"a host is written 'name:port', got {host!r}")
        return cls(*found)

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def name_and_port(text: str) -> tuple[str, int] | None:
    """Return what ``name:port`` says, whatever number the port is; ``None``: it says nothing."""
    found = _TEXT.fullmatch(text)
    return None if found is None else (found[1] or found[2], int(found[3]))
