"""Who runs a topology on a state: a file for each instance, which anybody may read.

The files::

    STATE/@instances/<instance>.json   what the instance has, replaced as a whole
    STATE/@instances/<instance>.alive  locked for as long as the process lives

An instance is there while its lock is held. The kernel lets go of it when the process ends, in
whatever way; not when it is stopped. The lock file gets its name when it is locked already, so one
that is not locked is that of a dead process.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from io import FileIO
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from statestores.errors import StorageError
from statestores.files.durable_directory import make_directory
from statestores.files.durable_json import check_format, read_fields
from statestores.files.local_path import local_path
from statestores.files.strict_json import Fields
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import TopicPartition
from statestores.spi.closing import Closing
from statestores.spi.forking import disown_after_fork

INSTANCES_DIRECTORY = "@instances"
"""Where the files are, in a state root."""

_FORMAT = 1
_JSON, _TEMPORARY, _LOCK = ".json", ".json.tmp", ".alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTask:
    """A task that an instance runs."""

    task: str
    """Its name, such as ``0_1``."""

    part: str
    """The part of the topology; ``@source/lines`` or ``@sink/counts`` for a source or a sink."""

    reads: Mapping[TopicPartition, int]
    """The offset, in each partition that it reads, up to which it has committed, exclusive."""

    stores: Mapping[str, int]
    """Its stores, and for each the offset at which the changelog ends."""

    is_feeding: bool = False
    """Whether a source has more for its topic, or has not committed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyTask:
    """A task of which an instance keeps a copy."""

    task: str
    """Its name."""

    part: str
    """The part of the topology."""

    stores: Mapping[str, int]
    """Its stores, and for each the offset in the changelog up to which the copy is, exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What an instance says of itself: true when it was written, a moment ago."""

    instance: str
    """Its name: random, and never used again."""

    process: int
    """The process id."""

    host: str
    """The machine."""

    since_ms: int
    """When it began."""

    written_ms: int
    """When it said this. One that has said nothing for long is stopped, or waits for something."""

    topology: str
    """The name of the topology."""

    form: Mapping[str, str]
    """What all instances on a state have to have in common."""

    endpoint: str | None = None
    """Where it can be asked, if it can."""

    active: tuple[ActiveTask, ...] = ()
    """The tasks that it runs."""

    standby: tuple[StandbyTask, ...] = ()
    """Those of which it has a copy."""


def read_instances(state: str | PathLike[str]) -> list[Instance]:
    """Return the instances that run on the state root *state* now, those that began first in front.

    Takes no lock and changes nothing; a dead process is not among them.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: A file cannot be read.
    """
    directory = local_path(state) / INSTANCES_DIRECTORY
    found = []
    for name in _names(directory):
        if _is_alive(directory / f"{name}{_LOCK}"):
            instance = _read(directory / f"{name}{_JSON}")
            if instance is not None:  # else it ends just now
                found.append(instance)
    return sorted(found, key=lambda each: (each.since_ms, each.instance))


def remove_dead_instances(state: str | PathLike[str]) -> None:
    """Remove what dead processes have left of their files.

    Raises:
        StorageError: One cannot be removed.
    """
    directory = local_path(state) / INSTANCES_DIRECTORY
    for name in _names(directory):
        lock = directory / f"{name}{_LOCK}"
        if not _is_alive(lock):
            for suffix in (_JSON, _TEMPORARY, _LOCK):
                _unlink(directory / f"{name}{suffix}")


class InstanceFile(Closing):
    """The file of this process. One thread uses it."""

    def __init__(self, state: Path, topology: str, form: Mapping[str, str]) -> None:
        """Appear among the instances on *state*, with nothing yet.

        Raises:
            StorageError: It cannot be written.
        """
        self.instance = Instance(
            instance=uuid4().hex,
            process=os.getpid(),
            host=os.uname().nodename,
            since_ms=wall_clock_ms(),
            written_ms=wall_clock_ms(),
            topology=topology,
            form=form,
        )
        directory = state / INSTANCES_DIRECTORY
        self._file = directory / f"{self.instance.instance}{_JSON}"
        self._name = directory / f"{self.instance.instance}{_LOCK}"
        try:
            make_directory(directory)
            unnamed = self._name.with_suffix(".new")
            descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._lock = FileIO(descriptor, "r+")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write()
            unnamed.rename(self._name)
        except OSError as error:
            raise StorageError(
                f"cannot write {str(self._file)!r}: {error.strerror or error}"
            ) from error
        disown_after_fork(self)

    def publish(
        self,
        active: Iterable[ActiveTask],
        standby: Iterable[StandbyTask] = (),
        endpoint: str | None = None,
    ) -> None:
        """Say what this instance has now.

        Raises:
            StorageError: It cannot be written.
        """
        self.instance = replace(
            self.instance,
            written_ms=wall_clock_ms(),
            endpoint=endpoint,
            active=tuple(active),
            standby=tuple(standby),
        )
        try:
            self._write()
        except OSError as error:
            raise StorageError(
                f"cannot write {str(self._file)!r}: {error.strerror or error}"
            ) from error

    def close(self) -> None:
        """Be no longer there. Idempotent."""
        if not self._lock.closed:
            _unlink(self._file)
            _unlink(self._name)
            self._lock.close()

    def disown(self) -> None:
        """Drop a forked child's copy of the lock."""
        self._lock.close()

    def _write(self) -> None:
        """Replace the file. No crash has to be survived: nobody reads a dead one's."""
        temporary = self._file.with_suffix(_TEMPORARY)
        temporary.write_text(json.dumps(_content(self.instance)), "utf-8")
        temporary.replace(self._file)


def _names(directory: Path) -> list[str]:
    try:
        return sorted(each.stem for each in directory.iterdir() if each.suffix == _LOCK)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot list {str(directory)!r}: {error.strerror or error}") from error


def _is_alive(lock: Path) -> bool:
    """Return whether somebody holds *lock*."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise StorageError(f"cannot lock {str(lock)!r}: {error.strerror or error}") from error
    return False


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {str(path)!r}: {error.strerror or error}") from error


def _content(instance: Instance) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "instance": instance.instance,
        "process": instance.process,
        "host": instance.host,
        "since_ms": instance.since_ms,
        "written_ms": instance.written_ms,
        "topology": instance.topology,
        "form": dict(instance.form),
        "endpoint": instance.endpoint,
        "active": {
            each.task: {
                "part": each.part,
                "reads": _by_topic(each.reads),
                "stores": dict(each.stores),
                "feeding": each.is_feeding,
            }
            for each in instance.active
        },
        "standby": {
            each.task: {"part": each.part, "stores": dict(each.stores)} for each in instance.standby
        },
    }


def _by_topic(reads: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place, offset in reads.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def _read(file: Path) -> Instance | None:
    fields = read_fields(file)
    if fields is None:
        return None
    check_format(fields, file, _FORMAT)
    form = fields.inside("form")
    return Instance(
        instance=fields.text("instance"),
        process=fields.integer("process"),
        host=fields.text("host"),
        since_ms=fields.integer("since_ms"),
        written_ms=fields.integer("written_ms"),
        topology=fields.text("topology"),
        form={name: form.text(name) for name in form},
        endpoint=fields.text_or_none("endpoint"),
        active=tuple(
            ActiveTask(
                task=task,
                part=of_task.text("part"),
                reads={
                    TopicPartition(topic, partition): offsets.integer(name)
                    for topic, offsets in of_task.inside("reads").items()
                    for partition, name in offsets.numbered()
                },
                stores=_offsets(of_task.inside("stores")),
                is_feeding=of_task.flag("feeding"),
            )
            for task, of_task in fields.inside("active").items()
        ),
        standby=tuple(
            StandbyTask(
                task=task, part=of_task.text("part"), stores=_offsets(of_task.inside("stores"))
            )
            for task, of_task in fields.inside("standby").items()
        ),
    )


def _offsets(stores: Fields) -> dict[str, int]:
    return {name: stores.integer(name) for name in stores}
