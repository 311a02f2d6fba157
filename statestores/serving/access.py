"""Who may ask, and where: an address that others reach wants encryption and a credential."""

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
)

DEFAULT_ADDRESS = "127.0.0.1"
"""Where servers listen unless they are told otherwise: nobody elsewhere reaches it."""

_LEAST_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a server asks of those who ask it."""

    token: str | None = field(default=None, repr=False)
    """What they send as ``Authorization: Bearer ...``; ``None``: nothing is asked. From 16
    characters, since it can be guessed at."""

    other_tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens that are let in as well: the next one or the last one, while it is being changed."""

    certificate: str | PathLike[str] | None = None
    """The file of the server's certificate chain, as PEM: the connection is encrypted."""

    private_key: str | PathLike[str] | None = None
    """The file of its private key."""

    client_authority: str | PathLike[str] | None = None
    """The file of certificates that those of clients come from: they must have one (mTLS)."""

    insecure: bool = False
    """Whether an address that others reach may do without encryption or a credential."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            InvalidTypeError: A token is no text.
            InvalidArgumentError: A certificate without key, a client's authority without a
                certificate, a token that is too short, or others without a token.
        """
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidArgumentError("a certificate and its private key are given together")
        if self.client_authority is not None and self.certificate is None:
            raise InvalidArgumentError(
                "certificates of clients need encryption; give a certificate and a private key"
            )
        if self.token is None and self.other_tokens:
            raise InvalidArgumentError("other tokens are let in beside one: give a token as well")
        for token in self._tokens:
            if not isinstance(token, str):
                raise InvalidTypeError(f"a token is a str, got one of type {type(token).__name__}")
            if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable():
                raise InvalidArgumentError(
                    f"a token has {_LEAST_TOKEN} or more characters of ASCII, none of them a "
                    "control"
                )

    @property
    def _tokens(self) -> tuple[str, ...]:
        return () if self.token is None else (self.token, *self.other_tokens)

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is."""
        return self.certificate is not None

    def check_address(self, address: str) -> None:
        """Accept an address to listen at.

        Raises:
            InvalidTypeError: It is no text.
            InvalidArgumentError: Others reach it, and it lacks encryption or a credential.
        """
        if not isinstance(address, str):
            raise InvalidTypeError(f"an address is a str, such as '127.0.0.1', got {address!r}")
        if self.insecure or is_loopback(address):
            return
        if not self.is_encrypted:
            raise InvalidArgumentError(
                f"{address!r} is reached by other machines: give a certificate and a private key, "
                "or listen at 127.0.0.1, or say that insecure is meant"
            )
        if self.token is None and self.client_authority is None:
            raise InvalidArgumentError(
                f"{address!r} is reached by other machines: give a token or the authority of "
                "clients' certificates, or say that insecure is meant"
            )

    def check_header(self, authorization: str | bytes | None) -> None:
        """Accept what came as the ``Authorization`` header.

        Raises:
            AccessDeniedError: It is none of the tokens.
        """
        if self.token is None:
            return
        if isinstance(authorization, str):
            authorization = authorization.encode("utf-8", "surrogateescape")
        given = b"" if authorization is None else authorization
        known = [
            hmac.compare_digest(given, b"Bearer " + token.encode("ascii")) for token in self._tokens
        ]  # each of them: how long it takes says nothing of which
        if not any(known):
            raise AccessDeniedError(
                "this instance asks for a token, as 'Authorization: Bearer ...'"
            )


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches *address*."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def access_of_tokens(tokens: str, **more: Any) -> Access:
    """Return what asks for one of *tokens*, a line each: the first is what this side sends.

    Raises:
        InvalidArgumentError: There is none, or one is too short; or as `Access`.
    """
    found = [line.strip() for line in tokens.splitlines() if line.strip()]
    if not found:
        raise InvalidArgumentError("there is no token in it: write one on a line of its own")
    return Access(token=found[0], other_tokens=tuple(found[1:]), **more)


def read_pem(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file of certificates or keys.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def allowed_hosts(address: str) -> Iterable[str] | None:
    """Return the names under which a browser may call a server at *address*; ``None``: any.

    A page from elsewhere can have its own name point to this machine, and would be let in by the
    browser of whoever looks at it.
    """
    if not is_loopback(address):
        return None
    return ("localhost", DEFAULT_ADDRESS, "[::1]", address)
