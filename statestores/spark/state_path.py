"""The paths that Spark users give, as paths of this machine."""

import re
from glob import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from statestores.errors import InvalidArgumentError, InvalidOptionError, StoreNotFoundError
from statestores.storage import StorageUrl, is_storage_url

_USER = re.compile(r"//[^/@]*@")
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
        InvalidOptionError: It is empty, or of another file system.
    """
    if not path:
        raise InvalidOptionError(
            "the path of a state root is empty; say '.' if the working directory is meant"
        )
    local = local_path(path)
    if is_storage_url(path):
        raise InvalidOptionError(
            f"{StorageUrl.parse(path)!s} is in an object store, and this needs a state root in a "
            "directory that all machines see; load(), save(), stateful(), run() and "
            "temporal_join() take URLs, and `statestores reshard URL STORE --partitions N --to "
            "DIRECTORY` copies a store into one (docs/object-stores.md)"
        )
    if local is None:
        raise InvalidOptionError(
            f"the path of a state root is one of a local or mounted file system, got "
            f"{_without_user(path)!r}; say s3:// instead of s3a:// and s3n://, gs:// or az:// for "
            "object stores, or mount what it is"
        )
    return local


def _without_user(path: str) -> str:
    """Return *path* without the credentials that a URL may have before its host."""
    return _USER.sub("//", path)


def staged_store(path: Path, name: str | None = None) -> str | None:
    """Return the store *name*, or any, to which rows are staged below *path*; ``None`` if none."""
    from statestores.staging.write_intent import STAGING_DIRECTORY  # noqa: PLC0415  # needs pyarrow

    staged = sorted(path.glob(f"{'*' if name is None else escape(name)}/{STAGING_DIRECTORY}"))
    return staged[0].parent.name if staged else None


def is_kafka_state(path: Path) -> bool:
    """Return whether Kafka Streams has left state at *path*, of one application or of several."""
    from statestores.migration.kafka.layout import find_application  # noqa: PLC0415  # needs pyarrow

    try:
        find_application(path)
    except StoreNotFoundError:
        return False
    except InvalidArgumentError:
        return True  # and opening it says what is wrong
    return True
