"""Snapshots of stores in a directory that instances share (KFK-29).

A snapshot stands at an offset of the changelog of its store, as of one commit. So it is what the
changelog has up to there, whoever has written it, also one that has lost the task since; and who
begins with it reads the changelog from there. It is of that topic and not of another one that had
the name: the topic's id is part of its place.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from threading import Event, Thread

from statestores.arrow.progress import Progress, ProgressCallback
from statestores.arrow.restoring.restore import restore
from statestores.arrow.snapshots.directory import list_snapshots, retire
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores.errors import StateStoreError, StoreClosedError
from statestores.files.local_path import local_path
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import Cluster
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.spi import TopicPartition
from statestores.spi.closing import Closing

_KEPT = 2
"""How many snapshots of a partition stay: somebody may be reading the one before the newest."""
_LOOK_SECONDS = 1.0


class _StoppedError(Exception):
    """The run is over; what is being written is for nobody."""


class SharedSnapshots:
    """Where the snapshots of an application's stores are, and which of them may be used."""

    def __init__(
        self, directory: str | PathLike[str], cluster: Cluster, changelogs: Iterable[str]
    ) -> None:
        """Look for those of the topics *changelogs*, which are there, in *directory*.

        Raises:
            BrokerError: The cluster does not answer.
        """
        names = sorted(set(changelogs))
        root = Path(local_path(directory, "snapshots"))
        self._folders = {name: root / name / each for name, each in cluster.ids_of(names).items()}
        self._oldest_ms = {
            name: _deletions_kept_ms(settings)
            for name, settings in cluster.settings_of(names).items()
        }

    def folder(self, changelog: TopicPartition) -> Path:
        """Return where the snapshots of the store with this *changelog* are."""
        return self._folders[changelog.topic] / str(changelog.partition)

    def load(self, logged: LoggedStore, start: int, end: int, told: ProgressCallback) -> None:
        """Have a store begin with the newest snapshot that fits, if it has nothing to go on from.

        Its changelog has the offsets from *start* up to *end*, excluded. A snapshot that is damaged
        or that this release cannot read, of another store, or from outside of these offsets is
        passed over with a message; so is one from before deletions that a compacted topic may have
        forgotten.

        Raises:
            StateStoreError: The store cannot be written, or *told* has raised it.
        """
        if not logged.is_half_loaded and logged.has_all_before(start):
            return
        for offset, path in reversed(self.listed(logged.changelog).items()):
            why: object = None
            if not start <= offset + 1 <= end:
                why = f"the changelog has the offsets from {start} up to {end}"
            else:
                try:
                    snapshot = read_snapshot(path)
                    if not self._is_young(logged.changelog.topic, snapshot.manifest.created_at_ms):
                        why = "the changelog may have forgotten deletions since then"
                    else:
                        restore(
                            logged.store,
                            snapshot=snapshot,
                            partition=logged.changelog,
                            progress=told,
                        )
                except StoreClosedError:
                    raise
                except StateStoreError as error:
                    why = error
            if why is None:
                logged.has_begun_at(offset)
                return
            CLIENT_LOGGER.warning("the snapshot %s is passed over: %s", path, why)

    def listed(self, changelog: TopicPartition) -> dict[int, Path]:
        """Return the snapshots that there are, by offset; none where the directory fails."""
        try:
            return list_snapshots(self.folder(changelog))
        except StateStoreError as error:
            CLIENT_LOGGER.warning("snapshots are not looked at: %s", error)
            return {}

    def _is_young(self, topic: str, created_at_ms: int) -> bool:
        oldest_ms = self._oldest_ms[topic]
        return oldest_ms is None or time.time() * 1_000 - created_at_ms < oldest_ms


def _deletions_kept_ms(settings: Mapping[str, str]) -> int | None:
    """Return how long a topic remembers what was deleted; ``None`` if it forgets nothing."""
    if "compact" not in settings["cleanup.policy"]:
        return None
    return int(settings["delete.retention.ms"])


class SnapshotWriter(Closing):
    """One thread that writes the stores of running tasks, now and then, while they go on."""

    def __init__(
        self,
        snapshots: SharedSnapshots,
        owned: Callable[[], Iterable[LoggedStore]],
        interval_ms: int,
    ) -> None:
        """Start it: of each store that is *owned* one in *interval_ms*, if it has changed."""
        self._snapshots = snapshots
        self._owned = owned
        self._interval_s = interval_ms / 1_000
        self._due: dict[TopicPartition, float] = {}
        self._written: dict[TopicPartition, int] = {}
        self._stopping = Event()
        self._thread = Thread(target=self._work, name="snapshots", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it has not written whole never appears."""
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(min(_LOOK_SECONDS, self._interval_s)):
            for logged in self._owned():
                try:
                    if self._is_due(logged) and not self._stopping.is_set():
                        self._write(logged)
                except Exception:  # noqa: BLE001  # told; later ones are not missed for it
                    CLIENT_LOGGER.exception("no snapshot of %r is written", logged.store.name)
                    self._due[logged.changelog] = time.monotonic() + self._interval_s

    def _is_due(self, logged: LoggedStore) -> bool:
        """Whether there is something new, and the last one is long enough ago, of anybody's."""
        place = logged.changelog
        now = time.monotonic()
        if place not in self._due:
            self._due[place], self._written[place] = now, -1
            for offset, path in self._snapshots.listed(place).items():
                with suppress(FileNotFoundError):  # somebody has removed it just now
                    # By another machine's clock, which may be ahead of this one's.
                    age_s = max(0.0, time.time() - path.stat().st_mtime)
                    self._due[place] = now + max(0.0, self._interval_s - age_s)
                    self._written[place] = offset
        return now >= self._due[place] and logged.reflected - 1 > self._written[place]

    def _write(self, logged: LoggedStore) -> None:
        place = logged.changelog
        folder = self._snapshots.folder(place)
        try:
            info = write_snapshot(logged.store, folder, partition=place, progress=self._go_on)
            self._written[place] = info.offset
            for path in [*list_snapshots(folder).values()][:-_KEPT]:
                retire(path)
        except (StoreClosedError, _StoppedError):
            return  # somebody else has it now
        except (StateStoreError, OSError) as error:  # of two that write one, one may fail
            CLIENT_LOGGER.warning("no snapshot of %r is written: %s", logged.store.name, error)
        self._due[place] = time.monotonic() + self._interval_s

    def _go_on(self, _: Progress) -> None:
        if self._stopping.is_set():
            raise _StoppedError
