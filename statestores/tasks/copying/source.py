"""Where a standby has its rows from, be that a directory or an object store."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import NamedTuple

from statestores.arrow.snapshots.reader import Snapshot
from statestores.opening import BytesStore
from statestores.tasks.copying.steady_changelog import SteadyLog
from statestores.tasks.lag import LagInfo


class Missing(NamedTuple):
    """What a copy may lack."""

    log: SteadyLog
    """The changelog, up to where it ends now."""

    snapshot: Snapshot | None
    """What must be loaded before it; ``None`` for nothing."""


class CopySource(ABC):
    """One partition of a state root, as those see it who copy it. Any thread may ask."""

    @abstractmethod
    def lag(self, next_offset: int) -> LagInfo:
        """Return the lag of a copy that applies *next_offset* next.

        Raises:
            ChangelogCorruptedError, StorageError: The changelog cannot be read.
        """

    @abstractmethod
    def is_unloaded(self, store: BytesStore) -> bool:
        """Return whether what *store* holds is no commit: it lacks something, or has half of it."""

    @abstractmethod
    def is_left_behind(self, store: BytesStore) -> bool:
        """Return whether the changelog begins, or is complete, only after what *store* has."""

    @abstractmethod
    def missing(self, store: BytesStore) -> AbstractContextManager[Missing | None]:
        """Give what *store* may lack; ``None`` while the writer has not begun.

        Raises:
            OffsetOutOfRangeError: What it lacks is gone.
            ChangelogCorruptedError, StorageError: It cannot be read.
        """
