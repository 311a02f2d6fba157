"""How the stores of a task commit as one, wherever what is recorded of that lies."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from statestores.logged_store import LoggedStore
from statestores.spi.offsets import Position


class TaskCommits(ABC):
    """The commits of one task. One thread at a time uses it."""

    @property
    @abstractmethod
    def emits(self) -> bool:
        """Whether the next commit emits something, and so is recorded."""

    @abstractmethod
    def record(self, stores: Sequence[LoggedStore[Any]], position: Position) -> Callable[[], None]:
        """Record the pending changes of *stores*, and *position*: from here on committed (TSK-3).

        Returns what carries the commit out. When it raises, nothing is committed, unless
        `is_recorded` says so.

        Raises:
            FencedError: Another process has the task; nothing is committed.
            StorageError: It cannot be recorded.
        """

    @abstractmethod
    def is_recorded(self) -> bool:
        """Return whether a commit is recorded, or may be, and was not carried out.

        Raises:
            StorageError: It cannot be told.
        """

    @abstractmethod
    def note(
        self, committed: Iterable[LoggedStore[Any]], stores: Iterable[LoggedStore[Any]]
    ) -> None:
        """Take note of a commit that is made: of *committed*, which are among all *stores*.

        Raises:
            StorageError: It cannot be noted.
        """

    @abstractmethod
    def forget(self) -> None:
        """Have nothing pending that is not in a store: it is rolled back."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the task. Idempotent."""
