"""The seam between a protocol and an object store: six verbs, and three outcomes of a put.

Assumptions about the store (OBJ-1): it is strongly consistent, of many creations of one name one
wins, and of many replacements of one tag one wins. Nothing is assumed about time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What an object store has said about a put. Only `DONE` settles anything (OBJ-5)."""

    DONE = "done"
    """The object is there as it was given."""

    REFUSED = "refused"
    """The name was said to be taken, or to have another tag. It may be our own put that has it:
    clients repeat a request whose answer was lost, and some stores answer a conflict with this."""

    UNKNOWN = "unknown"
    """The request failed or was not answered: it may have happened, or happen later."""


class Found(NamedTuple):
    """An object."""

    data: bytes
    """All of its bytes."""

    tag: str
    """What `ObjectStorage.replace` compares. It may be a hash of the bytes."""


class Unchanged(NamedTuple):
    """The object still has the tag that the reader knows."""


class Listed(NamedTuple):
    """An object in a listing."""

    name: str
    """Its name, below the root."""

    size: int
    """Its length in bytes."""

    modified_ms: int
    """When it was put, by the store's clock: good enough to tell old garbage from new work."""


class ObjectStorage(ABC):
    """Objects below one root. Many threads may use it."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The root, as messages show it: without credentials."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> Outcome:
        """Make the object *name* of *data* if there is none. Nothing is raised for a failure."""

    @abstractmethod
    def replace(self, name: str, data: bytes, tag: str) -> Outcome:
        """Make the object *name* of *data* if it has *tag*. Nothing is raised for a failure."""

    @abstractmethod
    def read(self, name: str, known_tag: str | None = None) -> Found | Unchanged | None:
        """Return the object *name*, `Unchanged` if it has *known_tag*, or ``None`` without one.

        Raises:
            StorageError: It cannot be read.
        """

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> bytes | None:
        """Return *length* bytes of the object *name* from *start* on, or ``None`` without one.

        Fewer where it ends before.

        Raises:
            StorageError: It cannot be read.
        """

    @abstractmethod
    def read_many(self, names: Sequence[str]) -> list[Found | None]:
        """Return each of *names* as `read` does; at the same time, and in no order.

        Raises:
            StorageError: One cannot be read.
        """

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield what is below *prefix*, which ends at a slash.

        Raises:
            StorageError: It cannot be listed.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete the object *name*, if there is one.

        Raises:
            StorageError: It cannot be deleted.
        """

    def outer(self) -> Sequence["ObjectStorage"]:
        """Return what lies above the root, place by place, the nearest first, without a request.

        None by default: for a store whose names begin at the root.
        """
        return ()

    def last_failure(self) -> str | None:
        """Return why the last put of this thread was `Outcome.UNKNOWN`, for a message."""
        return None

    def was_denied(self) -> bool:
        """Return whether that was for want of a right: waiting gives nobody one."""
        return False
