"""An object store that can be sent to tasks: what is sent says how it is reached, and no more.

A connection is dear and there are many calls, so each process keeps those that it has made.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from statestores.storage import Found, Listed, ObjectStorage, Outcome, Unchanged, open_storage


@dataclass(frozen=True)
class SentStorage(ObjectStorage):
    """The objects below one URL, for whichever process has this."""

    address: str
    """The URL."""

    options: str | None = field(default=None, repr=False)
    """How it is reached, as JSON; ``None`` when the environment says it."""

    @property
    def _here(self) -> ObjectStorage:
        return storage_at(self.address, self.options)

    @property
    def url(self) -> str:
        return self._here.url

    def create(self, name: str, data: bytes) -> Outcome:
        return self._here.create(name, data)

    def replace(self, name: str, data: bytes, tag: str) -> Outcome:
        return self._here.replace(name, data, tag)

    def read(self, name: str, known_tag: str | None = None) -> Found | Unchanged | None:
        return self._here.read(name, known_tag)

    def read_range(self, name: str, start: int, length: int) -> bytes | None:
        return self._here.read_range(name, start, length)

    def read_many(self, names: Sequence[str]) -> list[Found | None]:
        return self._here.read_many(names)

    def list(self, prefix: str) -> Iterator[Listed]:
        return self._here.list(prefix)

    def delete(self, name: str) -> None:
        self._here.delete(name)

    def outer(self) -> Sequence[ObjectStorage]:
        return self._here.outer()

    def last_failure(self) -> str | None:
        return self._here.last_failure()


@lru_cache(maxsize=8)
def storage_at(url: str, options: str | None) -> ObjectStorage:
    """Return the storage at *url*; *options* are JSON.

    Raises:
        StateStoreError: As `open_storage`.
    """
    return open_storage(url, None if options is None else json.loads(options))
