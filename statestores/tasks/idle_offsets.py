"""The offsets of local engines that are not assigned, for an assignor (KIP-441, KIP-1035).

An engine keeps its offset itself, and must be opened to be asked. So each is opened once, and again
only when its files have changed. What another process has open is that process's to report.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from statestores.changelog import changelog_partition
from statestores.engine_creation import ENGINE_DIRECTORY
from statestores.errors import StateStoreError, StoreLockedError
from statestores.files.directory_lock import LOCK_FILE
from statestores.opening import open_existing
from statestores.spi.durability import Durability
from statestores.tasks.local_directory import LocalDirectory

_Stamp = tuple[tuple[str, int, int], ...]


class IdleOffsets:
    """Knows the next offset of engines in a local directory. Any thread may ask."""

    def __init__(
        self,
        local: LocalDirectory,
        options: Mapping[str, object] | None,
        durability: Durability,
    ) -> None:
        """Look into *local* for engines, which are opened with *options*."""
        self._local = local
        self._options = options
        self._durability = durability
        self._known: dict[tuple[str, int], tuple[_Stamp, int | None]] = {}
        self._looking = Lock()

    def known(self, name: str, partition: int) -> int | None:
        """Return the next offset that was last seen; ``None`` when nothing is known."""
        return self._known.get((name, partition), ((), None))[1]

    def note(self, name: str, partition: int, next_offset: int) -> None:
        """Take note of the next offset of an engine that was closed just now."""
        stamp = self._stamp(name, partition)
        if stamp:
            self._known[name, partition] = stamp, next_offset

    def next_offset(self, name: str, partition: int, is_idle: Callable[[], bool]) -> int | None:
        """Return the next offset of an engine; ``None`` when there is none, or nobody can say.

        It is opened only if *is_idle* says that nobody here is about to open it; `wait` waits
        until that is over.
        """
        with self._looking:
            stamp = self._stamp(name, partition)
            if not stamp:
                self._known.pop((name, partition), None)
                return None
            seen, next_offset = self._known.get((name, partition), ((), None))
            if seen == stamp:
                return next_offset
            if not is_idle():
                return None
            try:
                next_offset = self._ask(name, partition)
            except StoreLockedError:
                return None
            except StateStoreError:
                next_offset = None  # whoever opens it for work is told; it counts as nothing here
            self._known[name, partition] = self._stamp(name, partition), next_offset
            return next_offset

    def wait(self) -> None:
        """Wait until no engine is open here that was idle when it was looked at."""
        with self._looking:
            pass

    def _ask(self, name: str, partition: int) -> int | None:
        with open_existing(
            self._local.partition(name, partition),
            options=self._options,
            durability=self._durability,
            decoded=False,
        ) as store:
            committed = store.committed_offset(changelog_partition(name, partition))
        return None if committed is None else committed + 1

    def _stamp(self, name: str, partition: int) -> _Stamp:
        """Return what changes when the engine is written to; nothing when there is no engine."""
        engine = self._local.partition(name, partition) / ENGINE_DIRECTORY
        return tuple(sorted(_files(engine)))


def _files(engine: Path) -> list[tuple[str, int, int]]:
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):  # not there, or no longer
        for path in engine.iterdir():
            if path.name == LOCK_FILE:
                continue
            status = path.stat()
            found.append((path.name, status.st_size, status.st_mtime_ns))
    return found
