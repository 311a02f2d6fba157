"""Where what a micro-batch has emitted lies: files of a directory, or objects, by one name each.

They are written once, by one attempt of a task, and read by whoever has their descriptions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import pyarrow as pa

from statestores.arrow.file_access import reporting
from statestores.errors import (
    CommitInDoubtError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
)
from statestores.object_log.driver import run
from statestores.object_log.names import Names
from statestores.object_log.settling import settle
from statestores.spark.given_root import GivenRoot
from statestores.staging.staged_rows import StagedFile, check_staged
from statestores.storage import Found


@dataclass(frozen=True)
class OutputPlace:
    """Where files lie. Made to be sent to tasks."""

    root: GivenRoot
    """The state root."""

    name: str
    """The directory in it, or what the names of objects begin with before a slash."""

    @property
    def directory(self) -> Path | None:
        """The directory; ``None`` in an object store."""
        root = self.root.directory
        return None if root is None else root / self.name

    def put(self, name: str, data: bytes, *, partition: int, rows: int) -> StagedFile:
        """Put the object *name*, and describe it.

        Requires: the root is in an object store, and nobody else uses the name.

        Raises:
            StorageError: It cannot be put.
        """
        storage = self.root.objects
        names, full = Names(self.name, storage.url), f"{self.name}/{name}"
        try:
            run(settle(names, full, data), storage)
        except CommitInDoubtError as error:
            raise StorageError(
                f"cannot write {names.shown(full)}: {storage.last_failure() or 'no answer'}; check "
                "the network, the credentials and their rights, and start the query again"
            ) from error
        return StagedFile(
            name=name,
            partition=partition,
            rows=rows,
            bytes=len(data),
            crc32c=google_crc32c.value(data),
        )

    @contextmanager
    def opened(self, file: StagedFile) -> Iterator[pa.RecordBatchFileReader]:
        """Give a reader of *file*, of which every byte was checked.

        Raises:
            StoreNotFoundError, StoreCorruptedError, StorageError: It is not what it was.
        """
        directory = self.directory
        if directory is None:
            with pa.ipc.open_file(pa.BufferReader(self._object(file))) as rows:
                yield rows
            return
        check_staged(directory, [file])
        path = directory / file.name
        with reporting("read", path), pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as r:
            yield r

    def _object(self, file: StagedFile) -> bytes:
        storage, name = self.root.objects, f"{self.name}/{file.name}"
        shown = Names(self.name, storage.url).shown(name)
        found = storage.read(name)
        if not isinstance(found, Found):
            raise StoreNotFoundError(
                f"the object {shown}, which a micro-batch has emitted, is not there; read what is "
                "emitted before the next micro-batch begins"
            )
        if len(found.data) != file.bytes or google_crc32c.value(found.data) != file.crc32c:
            raise StoreCorruptedError(
                f"the object {shown} has {len(found.data)} bytes, and not those that a micro-batch "
                "has emitted; put back an earlier version of it, if the bucket keeps them"
            )
        return found.data
