"""Where a Kafka Streams application keeps its stores: tasks, stores and segments, by their names.

Only names are looked at here; the databases are opened by `statestores.migration.kafka.database`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnsupportedFormatError,
)

_TASK = re.compile(r"(\d+)_(\d+)", re.ASCII)
_TOPOLOGY = re.compile(r"__(.+)__")
_MINUTES = re.compile(r"\d{12}", re.ASCII)
_GLOBAL = "global"
_DATABASES = "rocksdb"
_KNOWN_FILES = re.compile(r"\.checkpoint(_.+)?|.+\.position|.+\.lock|\.lock")
"""What lies beside the stores of a task, and is read elsewhere or means nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One database of a window or session store."""

    start_ms: int
    """The lowest time in it, and a multiple of the store's segment interval."""

    path: Path
    """The database's directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePartition:
    """One partition of one store, as it lies there."""

    store: str
    """The store's name."""

    partition: int
    """The task's partition; 0 for a global store, whose rows are of all partitions."""

    task: Path
    """The task's directory, where its offsets are."""

    database: Path | None
    """The database of a store that has one."""

    segments: tuple[Segment, ...]
    """The databases of a store that has one for each span of time, the earliest first."""

    is_global: bool
    """Whether it is of a global store."""

    @property
    def databases(self) -> tuple[Path, ...]:
        """All databases."""
        return (
            tuple(each.path for each in self.segments)
            if self.database is None
            else (self.database,)
        )


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something in the directory that holds no rows that could be read."""

    path: Path
    """What it is."""

    reason: str
    """Why it is left alone."""


def find_application(path: Path) -> Path:
    """Return the directory of the application at *path*: that one, or the only one within.

    Raises:
        StoreNotFoundError: There is none.
        InvalidArgumentError: There are several.
        StorageError: The directory cannot be read.
    """
    if not path.is_dir():
        raise StoreNotFoundError(f"there is no directory {str(path)!r}; check the path")
    if _is_application(path):
        return path
    if _TASK.fullmatch(path.name) and _holds_stores(path):
        raise InvalidArgumentError(
            f"{str(path)!r} is the directory of one task; give the application's, "
            f"{str(path.parent)!r}"
        )
    found = [each for each in _entries(path) if each.is_dir() and _is_application(each)]
    if not found:
        raise StoreNotFoundError(
            f"there is no state of Kafka Streams in {str(path)!r}, expected the directory of an "
            "application, with task directories such as 0_0 in it"
        )
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise InvalidArgumentError(
            f"{str(path)!r} has the state of several applications; give the directory of one of "
            f"them: {names}"
        )
    return found[0]


def find_partitions(application: Path) -> tuple[list[StorePartition], list[Ignored]]:
    """Return the partitions of all stores of *application*, and what else lies there.

    Raises:
        StoreCorruptedError: A database has lost its file CURRENT.
        UnsupportedFormatError: A segment's name is of no form that is known.
        InvalidArgumentError: Two tasks have the same partition of one store.
        StorageError: A directory cannot be read.
    """
    partitions: list[StorePartition] = []
    ignored: list[Ignored] = []
    for entry in _entries(application):
        task = _TASK.fullmatch(entry.name)
        if task and entry.is_dir():
            partitions += _in_task(entry, int(task[2]), ignored)
        elif entry.name == _GLOBAL and entry.is_dir():
            partitions += _in_task(entry, 0, ignored, is_global=True)
        elif _TOPOLOGY.fullmatch(entry.name) and entry.is_dir():
            for below in _entries(entry):
                task = _TASK.fullmatch(below.name)
                if task and below.is_dir():
                    partitions += _in_task(below, int(task[2]), ignored)
                else:
                    ignored.append(Ignored(below, "no task directory"))
        else:
            ignored.append(Ignored(entry, _meaning(entry)))
    _refuse_doubles(partitions)
    return sorted(partitions, key=lambda each: (each.store, each.partition)), ignored


def _is_application(path: Path) -> bool:
    return any(
        each.is_dir()
        and (_TASK.fullmatch(each.name) or _TOPOLOGY.fullmatch(each.name) or each.name == _GLOBAL)
        for each in _entries(path)
    )


def _in_task(
    task: Path, partition: int, ignored: list[Ignored], *, is_global: bool = False
) -> Iterator[StorePartition]:
    """Yield the stores of one task, or the global ones."""
    for entry in _entries(task):
        if entry.name == _DATABASES and entry.is_dir():
            for database in _entries(entry):
                if _is_database(database, ignored):
                    yield StorePartition(
                        store=database.name,
                        partition=partition,
                        task=task,
                        database=database,
                        segments=(),
                        is_global=is_global,
                    )
        elif entry.is_dir():
            segments = _segments(entry, ignored)
            if segments is not None:
                yield StorePartition(
                    store=entry.name,
                    partition=partition,
                    task=task,
                    database=None,
                    segments=segments,
                    is_global=is_global,
                )
        elif not _KNOWN_FILES.fullmatch(entry.name):
            ignored.append(Ignored(entry, _meaning(entry)))
        elif entry.name.endswith(".lock"):
            ignored.append(Ignored(entry, "a lock"))


def _segments(store: Path, ignored: list[Ignored]) -> tuple[Segment, ...] | None:
    """Return the segments in the directory *store*; ``None`` when it is not a segmented store's."""
    segments: list[Segment] = []
    unknown: list[Ignored] = []
    for entry in _entries(store):
        if not entry.is_dir() or not _is_database(entry, unknown):
            unknown.append(Ignored(entry, "no segment of a store"))
            continue
        start_ms = _start_of(store.name, entry.name)
        if start_ms is None:
            raise UnsupportedFormatError(
                f"{str(entry)!r} is a database, and its name is not that of a segment, expected "
                f"{store.name + '.<milliseconds>'!r}; move it away if it is not a part of the store"
            )
        segments.append(Segment(start_ms, entry))
    if not segments and unknown:
        ignored.append(Ignored(store, "no store that Kafka Streams writes itself"))
        return None
    ignored += unknown
    return tuple(sorted(segments))


def _start_of(store: str, name: str) -> int | None:
    """Return the time in a segment's *name*, in any form that a version of Kafka Streams wrote."""
    if not name.startswith(store) or len(name) <= len(store) + 1:
        return None
    separator, number = name[len(store)], name[len(store) + 1 :]
    if separator in ".:" and number.isascii() and number.isdigit():
        return int(number)
    if separator == "-" and _MINUTES.fullmatch(number):
        try:
            start = datetime.strptime(number, "%Y%m%d%H%M").replace(tzinfo=UTC)
        except ValueError:
            return None
        return round(start.timestamp() * 1000)
    return None


def _is_database(path: Path, ignored: list[Ignored]) -> bool:
    """Return whether *path* is a database; one that was never finished is among the *ignored*.

    Raises:
        StoreCorruptedError: It has tables, and no CURRENT.
    """
    if not path.is_dir():
        ignored.append(Ignored(path, "no database"))
        return False
    if (path / "CURRENT").is_file():
        return True
    tables = sorted(each.name for each in _entries(path) if each.suffix == ".sst")
    if tables:
        raise StoreCorruptedError(
            f"the file CURRENT of the RocksDB database in {str(path)!r} is missing, and there are "
            f"tables ({tables[0]}, ...); put it back, or let Kafka Streams restore the store"
        )
    ignored.append(Ignored(path, "a database that was never finished"))
    return False


def _holds_stores(path: Path) -> bool:
    return any(each.is_dir() for each in _entries(path))


def _meaning(entry: Path) -> str:
    """Return what a file is that is not a store's."""
    if entry.name == "kafka-streams-process-metadata":
        return "the process id"
    if entry.name.endswith(".lock"):
        return "a lock"
    if entry.name.endswith(".tmp"):
        return "left over from a crash"
    return "not a part of Kafka Streams' state"


def _refuse_doubles(partitions: list[StorePartition]) -> None:
    seen: dict[tuple[str, int], Path] = {}
    for each in partitions:
        other = seen.setdefault((each.store, each.partition), each.task)
        if other != each.task:
            raise InvalidArgumentError(
                f"partition {each.partition} of the store {each.store!r} is in {str(other)!r} and "
                f"in {str(each.task)!r}; move away the task that the application does not have"
            )


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
