"""Looking at a state root for everything that can be wrong with it. Nothing is changed."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from statestores.arrow.progress import ProgressCallback
from statestores.changelog import ChangelogReader
from statestores.cli.operating.beside_stores import symptoms_beside_stores
from statestores.cli.operating.partition_lag import Condition, PartitionLag, lag_of
from statestores.cli.operating.symptoms import Diagnosis, Symptom
from statestores.errors import (
    MissingDriverError,
    StateStoreError,
    StorageError,
    StoreNotFoundError,
    UnknownBackendError,
    UnsupportedFormatError,
)
from statestores.files.durable_json import ENGINE_FILE, ROOT_FILE, is_left_behind
from statestores.generations import home_of
from statestores.opening import backend_of
from statestores.reading.locations import Partition, Root, locate, shown_below
from statestores.registry import load_backend
from statestores.resharding.left_over import left_over
from statestores.staging.write_intent import INTENT_FILE, read_intent, staging_directory
from statestores.state_root import StateRoot, is_state_root
from statestores.tasks.local_directory import LocalDirectory
from statestores.tasks.rebuilding import missing_for_restore
from statestores.verification import Finding, Status, check_location
from statestores.verification.findings import RESTORE_INTERRUPTED, TRUNCATION_INTERRUPTED

_LEAST_FREE = 0.05
"""The part of a disk that should be free."""

_INTERRUPTED = {
    RESTORE_INTERRUPTED: "half-restored",
    TRUNCATION_INTERRUPTED: "half-truncated",
}

_NOT_LOOKED_AT = {("changelog", Status.NOT_CHECKED): "changelog-unreadable"}
"""Of an engine that could not be checked, the lock has told who has it open."""

_TELLS_ALL = {"engine-ahead", "changelog-gone", "changelog-behind", "changelog-unreadable"}
"""Ailments after which a check of the same files has no more to say."""

_CLOCK_SLACK_MS = 60_000
"""By how much two clocks may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """How closely to look."""

    root: Path
    """The state root."""

    local: Path | None = None
    """Where the engines are, if not in it."""

    with_engine: bool = True
    """Whether engines that nobody has open are opened."""

    with_rows: bool = True
    """Whether every row is read, as `verify` does."""

    changes: int = 100_000
    """How many changes since the newest snapshot are too many."""

    options: Mapping[str, object] | None = None
    """Of the backend."""

    progress: ProgressCallback | None = None
    """Told of the rows that are read."""

    def symptoms(self) -> Iterator[Symptom]:
        """Yield what is wrong, as it is found; nothing that is wrong is raised."""
        wrong = Diagnosis(self.root, self.local)
        try:
            if not is_state_root(self.root):
                alone = _store_at(self.root)
                if alone is not None:
                    yield from self._alone(wrong, alone)
                    return
                yield wrong("no-root", self.root, _what_is_at(self.root))
                return
            state = StateRoot.open(self.root)
        except UnsupportedFormatError as error:
            yield wrong("newer-format", self.root / ROOT_FILE, str(error))
            return
        except StateStoreError as error:
            yield wrong("root-unreadable", self.root / ROOT_FILE, str(error))
            return
        location = Root(state, None, self.local)
        yield from self._places(wrong, location)
        if not state.stores:
            yield wrong("no-stores", self.root, "it is empty")
        for name in sorted(state.stores):
            yield from self._store(wrong, location, name)
        yield from symptoms_beside_stores(wrong, state)
        yield from self._strangers(wrong, state)

    def _alone(self, wrong: Diagnosis, store: Partition) -> Iterator[Symptom]:
        """Look at a store that is in no state root."""
        yield wrong("single-store", self.root, f"it has no {ROOT_FILE}")
        if not self.with_rows:
            return
        findings = check_location(
            store, options=self.options, with_engine=self.with_engine, progress=self.progress
        )
        for finding in findings:
            if finding.is_failure and finding.status is not Status.NOT_CHECKED:
                yield wrong("single-store-damaged", Path(finding.path), finding.detail)

    def _places(self, wrong: Diagnosis, location: Root) -> Iterator[Symptom]:
        """Look at directories and the disk."""
        partitions = [each for name in location.root.stores for each in location.partitions(name)]
        homes = {each.home for each in partitions} | {each.path for each in partitions}
        stores = {home.parent for home in homes}
        for place in sorted({self.root, *stores, *homes}):
            if place.exists() and not os.access(place, os.R_OK | os.W_OK | os.X_OK):
                yield wrong("not-writable", place, "this user may not read and write here")
        for disk in {self.root, self.local or self.root}:
            if not disk.is_dir():
                continue  # engines that are not there yet
            about = os.statvfs(disk)
            if about.f_flag & os.ST_RDONLY:
                yield wrong("not-writable", disk, "its file system is mounted read-only")
            elif about.f_blocks and about.f_bavail < about.f_blocks * _LEAST_FREE:
                free = 100 * about.f_bavail / about.f_blocks
                yield wrong("disk-full", disk, f"{free:.1f} % of the disk is free")

    def _store(self, wrong: Diagnosis, location: Root, name: str) -> Iterator[Symptom]:
        """Look at one store and its partitions."""
        directory = location.root.home(name)
        try:
            intent = read_intent(directory)
        except StateStoreError:
            intent = None  # the check of the store says so
        if intent is not None and not intent.finished:
            words = f"the write {intent.write_id!r} touches {len(intent.partitions)} partitions"
            yield wrong("unfinished-write", directory, words, store=name)
        entry = location.root.store(name)
        left = left_over(location.root.path, name, entry.generation)
        if left:
            names = ", ".join(sorted(path.name for path in left))
            words = f"no generation of partitions that counts has {names}"
            place = location.root.path / name
            yield wrong("reshard-left-over", place, words, store=name, partitions=entry.partitions)
        told: set[Path] = set()
        for partition in location.partitions(name):
            found = lag_of(partition, self.options, open_engine=self.with_engine)
            for symptom in self._partition(wrong, found):
                if symptom.ailment.code in _TELLS_ALL:
                    told.add(Path(symptom.path))
                yield symptom
        if self.with_rows:
            findings = check_location(
                location,
                [name],
                options=self.options,
                with_engine=self.with_engine,
                progress=self.progress,
            )
            partitions = location.partitions(name)
            for finding in findings:
                if Path(finding.path) not in told:
                    yield from _of_finding(wrong, finding, name, partitions)

    def _partition(self, wrong: Diagnosis, found: PartitionLag) -> Iterator[Symptom]:
        """Look at one partition, without its rows."""
        partition = found.partition
        yield from _of_changelog(wrong, partition)
        try:
            backend = backend_of(partition.home)
            if backend is not None:
                load_backend(backend)
        except (MissingDriverError, UnknownBackendError) as error:
            yield wrong(
                "backend-missing", partition.home, str(error), partition, backend=f"{backend}"
            )
        except StateStoreError:
            pass  # the check of the engine says so
        if found.since_snapshot is not None and found.since_snapshot > self.changes:
            words = f"{found.since_snapshot:,} changes since the newest snapshot"
            yield wrong("long-restore", partition.path, words, partition)
        now_ms = time.time_ns() // 1_000_000
        if found.last_write_ms is not None and found.last_write_ms > now_ms + _CLOCK_SLACK_MS:
            seconds = (found.last_write_ms - now_ms) // 1000
            words = f"its changelog was written {seconds:,} seconds from now"
            yield wrong("clock-ahead", partition.directory.changelog, words, partition)
        if found.condition is Condition.IN_USE and found.owner is not None:
            words = f"open in process {found.owner.pid} since {found.owner.since}"
            yield wrong("in-use", partition.engine, words, partition)
        elif (torn := _torn_bytes(partition)) > 0:
            words = f"{torn:,} bytes after the last whole append"
            yield wrong("torn-tail", partition.directory.changelog, words, partition)
        yield from _progress(wrong, found)

    def _strangers(self, wrong: Diagnosis, state: StateRoot) -> Iterator[Symptom]:
        """Look for what belongs to nothing."""
        directory = LocalDirectory(self.local or self.root)
        try:
            orphans = directory.orphans(state)
        except StateStoreError as error:
            yield wrong("not-writable", directory.path, str(error))
            orphans = []
        for orphan in orphans:
            code = "engine-kept" if orphan.reason == "damaged engine" else "orphan"
            yield wrong(code, orphan.path, orphan.reason)
        for file in _replaced_files(state, self.root):
            for entry in sorted(_entries(file.parent)):
                if is_left_behind(entry.name, file.name):
                    yield wrong("left-over", entry, f"it was to become {file.name}")


def _of_changelog(wrong: Diagnosis, partition: Partition) -> Iterator[Symptom]:
    """Say that the changelog is gone, has lost its end, or cannot be looked at."""
    path = partition.directory.changelog
    try:
        if (gone := partition.why_gone()) is not None:
            yield wrong("changelog-gone", path, gone, partition)
        elif (behind := partition.why_behind()) is not None:
            yield wrong("changelog-behind", path, behind, partition)
    except StorageError as error:
        yield wrong("changelog-unreadable", path, str(error), partition)
    except StateStoreError:
        pass  # the check of the changelog, or of the store, says so


def _progress(wrong: Diagnosis, found: PartitionLag) -> Iterator[Symptom]:
    """Compare how far an engine is with its changelog."""
    partition, ends = found.partition, found.end_offset
    if found.next_offset is None or not ends or found.condition is not Condition.IDLE:
        return
    if found.next_offset > ends:
        words = f"it has offset {found.next_offset - 1}, its changelog ends before {ends}"
        yield wrong("engine-ahead", partition.engine, words, partition)
    elif found.lag:
        yield wrong("engine-behind", partition.engine, f"{found.lag:,} changes", partition)


def _of_finding(
    wrong: Diagnosis, finding: Finding, store: str, partitions: Iterable[Partition]
) -> Iterator[Symptom]:
    """Yield the symptom that *finding* of a verification is, if it is one."""
    path = Path(finding.path)
    partition = next((each for each in partitions if _is_within(path, each)), None)
    code = _code_of(finding, path, partition)
    if code is not None:
        yield wrong(code, path, finding.detail, partition, store=store)


def _is_within(path: Path, partition: Partition) -> bool:
    return any(path == home or home in path.parents for home in (partition.path, partition.home))


def _code_of(finding: Finding, path: Path, partition: Partition | None) -> str | None:
    """Return the ailment that *finding* tells of; ``None`` when it tells of none."""
    if finding.status is Status.SKIPPED:
        return _INTERRUPTED.get(finding.detail)
    if finding.status in {Status.OK, Status.NOT_CHECKED}:
        return _NOT_LOOKED_AT.get((finding.check, finding.status))
    if finding.status is Status.MISPLACED:
        return "misplaced-keys"
    if isinstance(finding.error, UnsupportedFormatError):
        return "newer-format"
    if isinstance(finding.error, (MissingDriverError, UnknownBackendError)):
        return None  # told of the partition
    if finding.check in {"store", "changelog", "native snapshot"}:
        is_there = partition is None or partition.has_changelog
        is_gone = finding.check == "changelog" and not is_there
        return "changelog-gone" if is_gone else f"{finding.check.replace(' ', '-')}-damaged"
    missing = None if partition is None else _missing(partition)
    if partition is not None and partition.directory.snapshots in path.parents:
        return "snapshot-damaged" if missing is None else "snapshot-alone-damaged"
    if missing is not None:
        return "engine-alone-damaged"
    if partition is not None and path == partition.home:
        return "engine-file-damaged"
    return "engine-damaged" if finding.check == "engine" else "engine-wrong"


def _torn_bytes(partition: Partition) -> int:
    """Return how many bytes an append that has died left of itself."""
    try:
        with ChangelogReader.open(partition.directory.changelog) as log:
            torn = log.torn_tail
    except StateStoreError:
        return 0  # there is none, or the check of the changelog says what is wrong
    return 0 if torn is None else torn.length


def _missing(partition: Partition) -> str | None:
    """Return what keeps *partition* from being restored; ``None`` when nothing does."""
    assert partition.specification is not None  # noqa: S101  # of a state root
    try:
        return missing_for_restore(partition.directory, partition.specification)
    except StateStoreError as error:
        return str(error)


def _store_at(path: Path) -> Partition | None:
    """Return the store that *path* is the directory of, in no state root; ``None`` if it is none.

    Raises:
        StateStoreError: A file that says what it is cannot be read.
    """
    try:
        location = locate(path)
    except StoreNotFoundError:
        return None
    return location if isinstance(location, Partition) and location.root is None else None


def _what_is_at(path: Path) -> str:
    """Return what is at *path* instead of a state root."""
    if not path.exists():
        return "there is nothing at this path"
    if not path.is_dir():
        return "this is a file"
    if is_state_root(path.parent):
        return f"this is in the state root {str(path.parent)!r}; give that one"
    if not _entries(path):
        return "this directory is empty"
    below = shown_below(path)
    return f"it has no {ROOT_FILE}" + ("" if below is None else f"; {below}")


def _replaced_files(state: StateRoot, root: Path) -> Iterator[Path]:
    """Yield the files that are replaced as a whole."""
    yield root / ROOT_FILE
    for name, entry in state.stores.items():
        home = home_of(root, name, entry.generation)
        yield staging_directory(home) / INTENT_FILE
        for number in range(entry.partitions):
            yield home / str(number) / ENGINE_FILE


def _entries(path: Path) -> list[Path]:
    """Return what is in the directory *path*; nothing if it cannot be listed."""
    try:
        return list(path.iterdir())
    except OSError:
        return []
