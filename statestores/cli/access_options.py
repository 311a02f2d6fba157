"""Options that say who may ask a server: the same for the commands `serve` and `run`."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from statestores.errors import StorageError
from statestores.files.failures import storage_error

if TYPE_CHECKING:
    from statestores.serving import Access

TokenOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Ask for the token that this file has. Further lines are let in as well.",
    ),
]
CertificateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="Encrypt, with this certificate (PEM)."),
]
PrivateKeyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--private-key", metavar="FILE", help="The key of the certificate (PEM)."),
]
ClientAuthorityOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--client-authority",
        metavar="FILE",
        help="Let in only who has a certificate of this authority (PEM).",
    ),
]
InsecureOption: TypeAlias = Annotated[
    bool,
    typer.Option("--insecure", help="Let anybody in who reaches the address, unencrypted."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFiles:
    """Who may ask, as options say it."""

    certificate: Path | None
    """The server's certificate."""

    private_key: Path | None
    """Its key."""

    client_authority: Path | None
    """The authority of clients' certificates."""

    insecure: bool
    """Whether an address may do without."""

    @property
    def given(self) -> tuple[object, ...]:
        """What is said by them."""
        return (self.certificate, self.private_key, self.client_authority, self.insecure)

    def access(self, token_file: Path | None) -> "Access":
        """Return that, for who has a token that is in *token_file*.

        Raises:
            StorageError: The file cannot be read.
            InvalidArgumentError: It makes no sense.
        """
        serving: Any = import_module("statestores.serving")  # late: it needs another extra
        settings: dict[str, Any] = {
            "certificate": self.certificate,
            "private_key": self.private_key,
            "client_authority": self.client_authority,
            "insecure": self.insecure,
        }
        found: Access
        if token_file is None:
            found = serving.Access(**settings)
        else:
            of_tokens: Any = import_module("statestores.serving.access").access_of_tokens
            found = of_tokens(_text(token_file), **settings)
        return found


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise storage_error("read the token in", file, error) from error
    except UnicodeDecodeError as error:
        raise StorageError(
            f"the token in {str(file)!r} is no text: {error}; check the path"
        ) from error
