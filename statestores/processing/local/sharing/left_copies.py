"""Removes copies that nobody keeps any more: of tasks that moved on, and of places that are empty.

A copy is of use to the process that gets its place next, so it stays for a while. Then it gets a
name that no store has, and is removed under that: what a crash leaves of it is nobody's copy, and
goes with the next look.
"""

import logging
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from statestores.errors import StoreLockedError
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock

KEPT_SECONDS = 600.0
"""How long a copy stays that nobody keeps, as Kafka's `state.cleanup.delay.ms`."""

_LOOK_SECONDS = 30.0
_GONE = "@gone"
_LOGGER = logging.getLogger("statestores.processing")


class LeftCopies:
    """What lies in the places of a state root. One thread uses it."""

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Look after the places in *directory*. *clock* is in seconds and never goes back."""
        self._directory = directory
        self._clock = clock
        self._due = clock()
        self._unused_since: dict[Path, float] = {}

    def remove(self, own: Path | None, kept: Collection[tuple[str, int]]) -> None:
        """Remove what has not been kept for long, if it is time to look.

        Of the place *own*, whose lock the caller has, those stay that are *kept*, by store and
        partition; of places whose lock nobody has, none. A run does not fail for it.
        """
        now = self._clock()
        if now < self._due:
            return
        self._due = now + min(_LOOK_SECONDS, KEPT_SECONDS)
        unused: dict[Path, float] = {}
        try:
            for place in _directories(self._directory):
                if place == own:
                    self._look(place, kept, now, unused)
                else:
                    with suppress(StoreLockedError):  # somebody else's
                        lock = DirectoryLock.acquire(place)
                        try:
                            self._look(place, (), now, unused)
                        finally:
                            lock.release()
        except OSError as error:
            _LOGGER.warning(
                "copies below %s cannot be removed: %s", self._directory, error.strerror or error
            )
        self._unused_since = unused

    def _look(
        self, place: Path, kept: Collection[tuple[str, int]], now: float, unused: dict[Path, float]
    ) -> None:
        """Remove what is over in *place*, and note since when the rest of it is unused."""
        for copy in _copies(place):
            if (copy.parent.name, int(copy.name)) in kept:
                continue
            since = self._unused_since.get(copy, now)
            if now - since < KEPT_SECONDS:
                unused[copy] = since
                continue
            gone = place / _GONE / uuid4().hex
            gone.parent.mkdir(exist_ok=True)
            copy.rename(gone)
            reach("copies.renamed")
            with suppress(OSError):  # it has other partitions
                copy.parent.rmdir()
        if (place / _GONE).exists():
            shutil.rmtree(place / _GONE)


def _copies(place: Path) -> Iterator[Path]:
    for store in _directories(place):
        if store.name != _GONE:
            yield from (each for each in _directories(store) if each.name.isdigit())


def _directories(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []
