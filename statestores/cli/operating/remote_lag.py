"""The lags that running instances tell of, through the HTTP face of one of them."""

import json
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from statestores.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnreachableInstanceError,
)
from statestores.files.failures import storage_error
from statestores.query.metadata import InstanceMetadata

_SECONDS = 10
"""How long an answer may take."""

_MAX_BYTES = 64 << 20
"""A longer answer is not one of ours."""

_DENIED = frozenset({401, 403})


def remote_lags(
    url: str, token_file: str | None, store: str | None
) -> Iterator[tuple[str, int, str, str, int | None, int | None, int | None]]:
    """Yield store, partition, instance, role, next offset, end offset and lag, as told at *url*.

    Raises:
        InvalidArgumentError: It is no URL of HTTP.
        UnreachableInstanceError: Nobody answers there.
        AccessDeniedError: The token is missing, or another one.
        StoreNotFoundError: No instance has *store*.
        StoreCorruptedError: The answer is not one of ours.
        StorageError: The file of the token cannot be read.
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidArgumentError(f"--url is as http://127.0.0.1:7070, got {url!r}")
    instances = _instances(url.rstrip("/"), None if token_file is None else _token(token_file))
    if store is not None and not any(store in each.stores for each in instances):
        known = ", ".join(sorted({name for each in instances for name in each.stores})) or "none"
        raise StoreNotFoundError(f"no instance at {url!r} has a store {store!r}; known: {known}")
    rows = [
        (
            name,
            number,
            each.instance,
            partition.role.value,
            partition.current_offset,
            partition.end_offset,
            partition.offset_lag,
        )
        for each in instances
        for name in each.partitions
        if store in {None, name}
        for number, partition in each.of(name).items()
    ]
    yield from sorted(rows, key=lambda row: row[:3])


def _instances(url: str, token: str | None) -> list[InstanceMetadata]:
    """Return all instances that the one at *url* knows."""
    asked = f"{url}/v1/metadata"
    request = Request(asked, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310  # http(s) only
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # the same
            data: bytes = answer.read(_MAX_BYTES)
    except HTTPError as error:
        with error:
            if error.code in _DENIED:
                raise AccessDeniedError(
                    f"{asked!r} asks for another token ({error.code}); give it with --token-file"
                ) from error
            raise UnreachableInstanceError(f"{asked!r} answers {error.code}") from error
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableInstanceError(
            f"nobody answers at {asked!r}: {reason}; check the URL, and that serve runs there"
        ) from error
    try:
        content: Any = json.loads(data)
        found = [json.dumps(each).encode() for each in content["instances"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreCorruptedError(f"{asked!r} answers something else than instances") from error
    return [InstanceMetadata.from_json(each, asked) for each in found]


def _token(file: str) -> str:
    """Return the token in *file*, without the line's end."""
    try:
        return Path(file).read_text("utf-8").strip()
    except OSError as error:
        raise storage_error("read the token in", Path(file), error) from error
    except UnicodeDecodeError as error:
        raise StorageError(f"the token in {file!r} is no text: {error}; check the path") from error
