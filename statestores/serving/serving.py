"""How an application serves its stores while it runs: the value behind ``serve=`` of runners."""

from dataclasses import dataclass, field
from os import PathLike
from typing import Self

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.query.metadata.host import name_and_port
from statestores.query.routed_stores import DEFAULT_TIMEOUT_S
from statestores.serving.access import DEFAULT_ADDRESS, Access
from statestores.serving.limits import Limits

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where an application answers, whom, and how it asks its other instances."""

    address: str = DEFAULT_ADDRESS
    """Where to listen. Another address than this machine's own wants `access`."""

    port: int = 0
    """The port of HTTP and the page; 0: any that is free."""

    flight_port: int = 0
    """The port of Arrow Flight, by which instances ask each other; 0: any that is free."""

    access: Access = field(default_factory=Access)
    """Who may ask over HTTP."""

    between_instances: Access | None = None
    """Who may ask over Flight, and with which token and certificate this instance asks the others:
    credentials that instances have and people need not. ``None``: as `access` says."""

    authority: str | PathLike[str] | None = None
    """The file of certificates that those of the other instances come from (PEM)."""

    limits: Limits = field(default_factory=Limits)
    """What an answer may take."""

    advertised: str | None = None
    """The name under which others reach this machine; ``None``: the address."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long a query is asked again when whoever has the key cannot answer."""

    def __post_init__(self) -> None:
        """Refuse what cannot be served.

        Raises:
            InvalidTypeError: The address is no text.
            InvalidArgumentError: A port or the time is none; the address wants what *access* does
                not have; or the connection is encrypted, and nothing says by which authority the
                other instances are known.
        """
        for name, port in (("port", self.port), ("flight_port", self.flight_port)):
            if type(port) is not int or not 0 <= port <= _MAX_PORT:
                raise InvalidArgumentError(f"{name} is from 0 to {_MAX_PORT}, got {port!r}")
        if not self.timeout_s > 0:
            raise InvalidArgumentError(f"timeout_s must be above 0, got {self.timeout_s!r}")
        self.access.check_address(self.address)
        self.instance_access.check_address(self.address)
        if self.instance_access.is_encrypted and self.authority is None:
            raise InvalidArgumentError(
                "where the connection is encrypted, instances check the certificates of each "
                "other: give the file of their authority as well"
            )

    @property
    def instance_access(self) -> Access:
        """Who may ask over Flight."""
        return self.access if self.between_instances is None else self.between_instances

    @classmethod
    def of(cls, serve: "Self | str") -> Self:
        """Return *serve*, given itself or as ``host:port``, the place of HTTP.

        Raises:
            InvalidTypeError, InvalidArgumentError: It is neither; or as the constructor.
        """
        if isinstance(serve, cls):
            return serve
        if not isinstance(serve, str):
            raise InvalidTypeError(f"serve is a Serving or 'host:port', got {serve!r}")
        found = name_and_port(serve)
        if found is None:
            raise InvalidArgumentError(
                f"serve is written 'host:port', such as '127.0.0.1:7070', got {serve!r}"
            )
        return cls(address=found[0], port=found[1])
