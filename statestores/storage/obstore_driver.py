"""Object stores through obstore: S3, Google Cloud Storage, Azure, and memory.

A driver's error may quote a signed URL or a header, so none of them is shown or chained: what is
said of one is its class, and its first line without queries and without the options' values.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import local
from typing import Any, Self

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from statestores.errors import InvalidOptionError, StorageError
from statestores.spi.forking import use_driver
from statestores.storage.contract import Found, Listed, ObjectStorage, Outcome, Unchanged
from statestores.storage.url import StorageUrl

_STORES: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_AT_ONCE = 16
_TRIES = 3
"""The client repeats what was refused or not answered, and gives up when an answer ends early."""

_RETRIES: dict[str, Any] = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
"""What the client tries by itself. Conditional puts that it repeats are read back (OBJ-5)."""

_SHOWN = 300
_QUERY = re.compile(r"\?(?!xml\s|>)[^\s\"')]*")  # none begins as XML does
_USER = re.compile(r"//[^/\s@]*@")
_LEAST_SECRET = 4
_PLACES = ("endpoint", "region")
_ELEMENT = re.compile(r"<([^<>/]*(?:Token|AccessKey|Sign|CanonicalRequest)[^<>/]*)>[^<]*")
"""What a service quotes of a request that it refuses, such as the token that has expired."""

_VARIABLES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_SECRET_VARIABLE = re.compile("KEY|SECRET|TOKEN|PASSWORD|SAS")

_memories: dict[str, Any] = {}


class ObstoreStorage(ObjectStorage):
    """The objects below one URL."""

    def __init__(self, place: StorageUrl, store: Any, secrets: Sequence[str]) -> None:
        """Use `open`."""
        self._place = place
        self._store = store
        self._secrets = tuple(secret for secret in secrets if len(secret) >= _LEAST_SECRET)
        self._prefix = f"{place.prefix}/" if place.prefix else ""
        self._failures = local()

    @classmethod
    def open(
        cls, place: StorageUrl, options: Mapping[str, str], nested: Mapping[str, dict[str, Any]]
    ) -> Self:
        """Return the storage at *place*, without a request.

        Raises:
            InvalidOptionError: An option is not known.
        """
        if place.scheme == "memory":  # one step: nobody else makes another one meanwhile
            return cls(place, _memories.setdefault(place.bucket, MemoryStore()), ())
        nested = {"retry_config": _RETRIES, **nested}
        try:
            store = _STORES[place.scheme](place.bucket, config=dict(options), **nested)
        except (BaseError, TypeError, ValueError) as error:
            shown = _without_secrets(error, _secrets_of(options)).rstrip(".")
            raise InvalidOptionError(
                f"{str(place)!r} cannot be reached with these storage_options: {shown}; they are "
                "those of obstore (docs/object-stores.md)"
            ) from None
        texts = [value for each in nested.values() for value in each.values()]
        inside = [value for value in texts if isinstance(value, str)]
        outside = _secrets_of_environment(place.scheme)
        return cls(place, store, [*_secrets_of(options), *inside, *outside])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The root without credentials."""
        return str(self._place)

    def create(self, name: str, data: bytes) -> Outcome:
        """Put *data* under *name* if nothing is there."""
        return self._put(name, data, "create", AlreadyExistsError)

    def replace(self, name: str, data: bytes, tag: str) -> Outcome:
        """Put *data* under *name* if *tag* is there."""
        return self._put(name, data, _split_tag(tag), (AlreadyExistsError, PreconditionError))

    def read(self, name: str, known_tag: str | None = None) -> Found | Unchanged | None:
        """Get *name*, if its tag is not *known_tag*."""
        known = None if known_tag is None else _split_tag(known_tag)["e_tag"]
        options: Any = None if known is None else {"if_none_match": known}
        return self._get(name, options)

    def read_range(self, name: str, start: int, length: int) -> bytes | None:
        """Get a part of *name*."""
        found = self._get(name, {"range": (start, start + length)})
        return found.data if isinstance(found, Found) else None

    def _get(self, name: str, options: Any) -> Found | Unchanged | None:
        """Get *name* as *options* say, and again where an answer ends early."""
        use_driver("obstore")
        why: Exception | None = None
        for _ in range(_TRIES):
            try:
                result = obstore.get(self._store, self._prefix + name, options=options)
            except FileNotFoundError:
                return None
            except NotModifiedError:
                return Unchanged()
            except (BaseError, OSError) as error:
                why = error
                if _ended_early(error):  # also the answer that says that nothing is there
                    continue
                break
            try:
                data = result.bytes().to_bytes()
            except (BaseError, OSError) as error:
                why = error  # the answer ended early
                continue
            meta = result.meta
            first, stop = result.range
            if len(data) == stop - first:
                return Found(data, _join_tag(meta["e_tag"], meta["version"]))
            why = StorageError(f"the answer ended after {len(data)} bytes")
        raise self._failed("read", name, why) from None

    def read_many(self, names: Sequence[str]) -> list[Found | None]:
        """Get *names*, several at once."""
        if len(names) == 1 or self._place.scheme == "memory":
            return [self._found(name) for name in names]
        with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as threads:
            return list(threads.map(self._found, names))

    def _found(self, name: str) -> Found | None:
        found = self.read(name)
        return found if isinstance(found, Found) else None

    def list(self, prefix: str) -> Iterator[Listed]:
        """List what is below *prefix*, and again where an answer ends early.

        Again is from the beginning, without what was given: not every store lists by names.
        """
        use_driver("obstore")
        given: set[str] = set()
        for left in reversed(range(_TRIES)):
            try:
                for chunk in obstore.list(self._store, self._prefix + prefix):
                    for each in chunk:
                        name = each["path"].removeprefix(self._prefix)
                        if name not in given:
                            given.add(name)
                            modified_ms = int(each["last_modified"].timestamp() * 1000)
                            yield Listed(name, each["size"], modified_ms)
            except (BaseError, OSError) as error:
                if not left or not _ended_early(error):
                    raise self._failed("list", prefix, error) from None
            else:
                return

    def delete(self, name: str) -> None:
        """Delete *name*, and again where an answer ends early."""
        use_driver("obstore")
        for left in reversed(range(_TRIES)):
            try:
                obstore.delete(self._store, self._prefix + name)
            except FileNotFoundError:
                return
            except (BaseError, OSError) as error:
                if not left or not _ended_early(error):
                    raise self._failed("delete", name, error) from None
            else:
                return

    def outer(self) -> Sequence[ObjectStorage]:
        """Return the places above the root in the bucket, the bucket last."""
        parts = self._place.prefix.split("/") if self._place.prefix else []
        above = ["/".join(parts[:length]) for length in reversed(range(len(parts)))]
        return [
            type(self)(replace(self._place, prefix=prefix), self._store, self._secrets)
            for prefix in above
        ]

    def last_failure(self) -> str | None:
        """Return what the last put of this thread met."""
        return getattr(self._failures, "last", None)

    def was_denied(self) -> bool:
        """Return whether the last put of this thread met that a right is missing."""
        return getattr(self._failures, "denied", False)

    def _put(
        self,
        name: str,
        data: bytes,
        mode: Any,
        refusals: type[BaseError] | tuple[type[BaseError], ...],
    ) -> Outcome:
        use_driver("obstore")
        self._failures.last, self._failures.denied = None, False
        try:
            # A condition holds for one request; several parts have none.
            obstore.put(self._store, self._prefix + name, data, mode=mode, use_multipart=False)
        except refusals:
            return Outcome.REFUSED
        except (BaseError, OSError) as error:
            self._failures.last = self._describe(error)
            self._failures.denied = isinstance(error, PermissionDeniedError | UnauthenticatedError)
            return Outcome.UNKNOWN
        return Outcome.DONE

    def _describe(self, error: Exception | None) -> str:
        return _without_secrets(error, self._secrets)

    def _failed(self, action: str, name: str, error: Exception | None) -> StorageError:
        return StorageError(
            f"cannot {action} {name!r} in {self.url!r}: {self._describe(error)}; check the "
            "network, the credentials and their rights"
        )


def _ended_early(error: Exception) -> bool:
    """Return whether *error* is of an answer that ended early: the client gives up there."""
    return any(each in str(error) for each in ("body error", "invalid list response"))


def _join_tag(e_tag: str | None, version: str | None) -> str:
    """Return as one text what tells an object from the others of its name.

    S3 and Azure compare the tag when an object is replaced, and Google Cloud Storage the version.
    """
    return f"{version or ''} {e_tag or ''}"


def _split_tag(tag: str) -> dict[str, str]:
    """Return the parts of *tag* by name, those that there are: None is an error there."""
    version, _, e_tag = tag.partition(" ")
    return {"e_tag": e_tag} | ({"version": version} if version else {})


def _secrets_of(options: Mapping[str, str]) -> list[str]:
    """Return what no message may show: every value but those that say where the store is."""
    return [
        value
        for name, value in options.items()
        if len(value) >= _LEAST_SECRET and not name.lower().endswith(_PLACES)
    ]


def _secrets_of_environment(scheme: str) -> list[str]:
    """Return what no message may show of the variables that the driver takes options from."""
    return [
        value
        for name, value in os.environ.items()
        if name.upper().startswith(_VARIABLES[scheme]) and _SECRET_VARIABLE.search(name.upper())
    ]


def _without_secrets(error: BaseException | None, secrets: Sequence[str]) -> str:
    """Return what may be shown of *error*."""
    (first, *_) = str(error).splitlines() or [""]
    text = _ELEMENT.sub(r"<\1>…", _USER.sub("//", _QUERY.sub("", first)))
    for secret in secrets:
        text = text.replace(secret, "…")
    return f"{type(error).__name__}: {text[:_SHOWN]}".rstrip(": ")
