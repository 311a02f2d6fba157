"""URLs of object stores: which ones there are, and what a message may show of one."""

import os
import re
from dataclasses import dataclass
from os import PathLike
from typing import Self

from statestores.errors import InvalidArgumentError

SCHEMES = ("s3", "gs", "az", "memory")
"""Amazon S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, and the memory of
this process, for tests."""

# `Path` folds the slashes of a URL into one: then it is taken for what was meant.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)", re.DOTALL)
_PLACE = re.compile(r"/?(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*)(?:/(?P<prefix>.*))?", re.DOTALL)
_PREFIX = re.compile(r"[A-Za-z0-9!_.'()=-]+(?:/[A-Za-z0-9!_.'()=-]+)*")


@dataclass(frozen=True, slots=True)
class StorageUrl:
    """Where a state root lies in an object store."""

    scheme: str
    """One of `SCHEMES`."""

    bucket: str
    """The bucket, or the container in Azure's words."""

    prefix: str
    """The root's place in the bucket, without slashes around it; empty for the bucket itself."""

    @classmethod
    def parse(cls, url: str | PathLike[str]) -> Self:
        """Return the parts of *url*.

        Raises:
            InvalidArgumentError: It is none of an object store, or has what no name here has. The
                message does not show what may be a secret.
        """
        found = _URL.fullmatch(os.fspath(url))
        scheme = "" if found is None else found["scheme"].lower()
        if found is None or scheme not in SCHEMES:
            raise InvalidArgumentError(
                f"an object store is given as one of {', '.join(f'{s}://' for s in SCHEMES)}, "
                f"followed by bucket and root, got one of {scheme!r}"
            )
        place = _PLACE.fullmatch(found["rest"])
        prefix = "" if place is None else (place["prefix"] or "").strip("/")
        dots = {".", ".."} & set(prefix.split("/"))
        if place is None or dots or (prefix and not _PREFIX.fullmatch(prefix)):
            raise InvalidArgumentError(
                f"the URL of a state root is {scheme}://BUCKET/ROOT with ASCII letters, digits and "
                "any of !_.'()=- in its names; credentials, queries and fragments belong into the "
                "environment or storage_options"
            )
        return cls(scheme, place["bucket"], prefix)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def is_storage_url(path: object) -> bool:
    """Return whether *path* is the URL of an object store, well-formed or not."""
    text = os.fspath(path) if isinstance(path, PathLike) else path
    found = _URL.fullmatch(text) if isinstance(text, str) else None
    return found is not None and found["scheme"].lower() in SCHEMES
