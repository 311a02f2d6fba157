"""Who takes part, in files of a state root: one for each instance, renewed as a sign of life.

``ROOT/@serving/<instance>.json`` is replaced whole, so a reader sees one record or another. An
instance is alive while its record changes (`statestores.query.metadata.signs_of_life`).

Whoever publishes also removes the records that it has seen unchanged for a hundred leases. An
instance that comes to life after that publishes anew, and is there again.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from threading import Lock

from statestores.errors import InvalidArgumentError, StateStoreError, StorageError
from statestores.files.durable_json import read_fields
from statestores.files.local_path import local_path
from statestores.query.metadata.instance import InstanceMetadata
from statestores.query.metadata.signs_of_life import DEFAULT_LEASE_MS, SignsOfLife

LEASES_DIRECTORY = "@serving"
"""Where the records are. No store can have such a name."""

_FORGOTTEN_AFTER_LEASES = 100
"""How long a record is kept that has not changed."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MAX_RECORD_BYTES = 16 * 1024 * 1024


class LeaseMembership:
    """Instances that share a state root, or any directory that all of them see."""

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        lease_ms: int = DEFAULT_LEASE_MS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep records in *root*; believe an instance for *lease_ms* after its last sign of life.

        *clock* is in seconds and never goes back, for those who test with one of their own.

        Raises:
            InvalidTypeError, InvalidArgumentError: The path or the lease is none.
        """
        self._signs = SignsOfLife(lease_ms=lease_ms, clock=clock)
        self._directory = local_path(root) / LEASES_DIRECTORY
        self._lock = Lock()
        self._clock = clock
        self._look_due = clock()

    @property
    def lease_ms(self) -> int:
        """How long an instance is believed without a sign of life."""
        return self._signs.lease_ms

    def publish(self, instance: InstanceMetadata) -> None:
        """Replace the record of *instance* by one with a new beat; remove those long forgotten.

        Raises:
            InvalidArgumentError: Its name is no name of a file.
            StorageError: The directory cannot be written.
        """
        path = self._path(instance.instance)
        with self._lock:
            beat = self._signs.next_beat(instance.instance)
            text = json.dumps({"beat": beat, "record": instance.as_json()}, sort_keys=True)
            temporary = path.with_name(f".{path.name}.tmp")
            try:
                self._directory.mkdir(exist_ok=True, parents=True)
                # Not synced: a record that a power failure takes is of an instance that it took.
                temporary.write_text(text, "utf-8")
                temporary.replace(path)
            except OSError as error:
                raise StorageError(
                    f"cannot write {str(path)!r}: {error.strerror or error}"
                ) from error

        if self._clock() >= self._look_due:
            self._look_due = self._clock() + self.lease_ms / 1000
            self._remove_forgotten()

    def _remove_forgotten(self) -> None:
        """Remove the records that have not changed for long, unless they change just now.

        Raises:
            StorageError: The directory cannot be read or written.
        """
        self.instances()
        with self._lock:
            for instance, beat in self._signs.silent(_FORGOTTEN_AFTER_LEASES).items():
                path = self._path(instance)
                name, aside = path.name, path.with_name(f".{path.name}.gone")
                try:
                    with suppress(FileNotFoundError):  # another one was faster
                        path.replace(aside)
                        found = self._read(aside, name)
                        if found is not None and found[0] != beat and not path.exists():
                            aside.replace(path)
                            continue  # it lives, and may be writing its next one
                        aside.unlink()
                        path.with_name(f".{name}.tmp").unlink(missing_ok=True)
                except OSError as error:
                    raise StorageError(
                        f"cannot remove {str(path)!r}: {error.strerror or error}"
                    ) from error

    def leave(self, instance: str) -> None:
        """Remove the record of *instance*.

        Raises:
            StorageError: The directory cannot be written.
        """
        path = self._path(instance)
        try:
            with suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            raise StorageError(f"cannot remove {str(path)!r}: {error.strerror or error}") from error

    def instances(self) -> Mapping[str, InstanceMetadata]:
        """Return the instances whose records have changed within the lease.

        A record that cannot be read is that of nobody: one bad instance keeps nobody from the rest.

        Raises:
            StorageError: The directory cannot be read.
        """
        try:
            files = sorted(self._directory.glob("*.json"))
        except OSError as error:
            raise StorageError(
                f"cannot read {str(self._directory)!r}: {error.strerror or error}"
            ) from error
        with self._lock:
            there = set()
            for file in files:
                found = None if file.name.startswith(".") else self._read(file, file.name)
                if found is not None:
                    self._signs.see(*found)
                    there.add(found[1].instance)
            for name in self._signs.known():
                if name not in there:
                    self._signs.forget(name)
            return self._signs.alive()

    @staticmethod
    def _read(file: Path, name: str) -> tuple[int, InstanceMetadata] | None:
        try:
            if file.stat().st_size > _MAX_RECORD_BYTES:
                return None
            fields = read_fields(file)
            if fields is None:
                return None
            record = InstanceMetadata.from_fields(fields.inside("record"))
            return (fields.integer("beat"), record) if f"{record.instance}.json" == name else None
        except (StateStoreError, OSError):
            return None

    def _path(self, instance: str) -> Path:
        if not _NAME.fullmatch(instance) or instance.startswith("."):
            raise InvalidArgumentError(
                "an instance is named by up to 200 of the characters a-z, A-Z, 0-9, '.', '_' and "
                f"'-', and does not begin with '.'; got {instance!r}"
            )
        return self._directory / f"{instance}.json"
