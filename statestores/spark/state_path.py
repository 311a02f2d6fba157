"""The paths that Spark users give, as paths of this machine."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from statestores.errors import InvalidArgumentError, InvalidOptionError, StoreNotFoundError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def local_path(path: str) -> Path | None:
    """Return *path* or a ``file:`` URI as an absolute path; ``None`` when it is of another kind.

    >>> local_path("file:///state/rates%201"), local_path("s3a://bucket/state")
    (PosixPath('/state/rates 1'), None)
    """
    if not _SCHEME.match(path):
        return Path(path).absolute()
    parts = urlsplit(path)
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return Path(unquote(parts.path)).absolute()


def require_local_path(path: str) -> Path:
    """Return *path* as an absolute path of this machine.

    Raises:
        InvalidOptionError: It is of another file system.
    """
    local = local_path(path)
    if local is None:
        raise InvalidOptionError(
            f"the path of a state root is one of a local or mounted file system, got {path!r}; "
            "mount it, or copy the state root"
        )
    return local


def is_kafka_state(path: Path) -> bool:
    """Return whether Kafka Streams has left state at *path*, of one application or of several."""
    from statestores.migration.kafka_layout import find_application  # noqa: PLC0415  # needs pyarrow

    try:
        find_application(path)
    except StoreNotFoundError:
        return False
    except InvalidArgumentError:
        return True  # and opening it says what is wrong
    return True
