"""At which offsets a temporal join reads its table: decided once for each plan or micro-batch.

A task that is repeated, and a micro-batch that comes again after a crash, must see the table as
it was the first time. A batch is pinned by the driver, in the plan. The plan of a stream is made
once for all of its micro-batches, so there the first task of a micro-batch pins, for all of them,
in a file or an object (OBJ-42) that is never replaced::

    ROOT/@pins/<query>/<store>-<batch>.json
    URL/@pins/<query>/<store>-<batch>

What another task finds there counts, whatever it would have seen itself. The pins of all but the
last two micro-batches are removed: Spark repeats none of them.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import TaskContext

from statestores.arrow.file_access import reporting
from statestores.errors import (
    ChangelogCorruptedError,
    CommitInDoubtError,
    StorageError,
    StoreCorruptedError,
)
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.durable_json import read_fields, write_json
from statestores.files.strict_json import Fields
from statestores.object_log.documents import pack_document, unpack_document
from statestores.object_log.driver import run
from statestores.object_log.names import Names
from statestores.object_log.settling import settle
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.spark.given_root import GivenRoot
from statestores.spark.session.query_session import QUERY_PROPERTY
from statestores.spi.specification import StoreSpecification
from statestores.storage import Found, ObjectStorage

PINS_DIRECTORY = "@pins"
"""Where streams pin what they read, in a state root. No store can have such a name."""

_BATCH = "streaming.sql.batchId"
_KEPT = 2
_KIND = "pins"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePins:
    """The offsets of one table. Made to be sent to tasks."""

    root: GivenRoot
    """The state root."""

    specification: StoreSpecification[Any, Any]
    """The table."""

    partitions: int
    """How many partitions it has."""

    planned: Mapping[int, int]
    """The end offset of each partition, for jobs that belong to no query."""

    def end_offset(self, partition: int) -> int:
        """Return the end offset of *partition*, within a task.

        Raises:
            StoreCorruptedError, ChangelogCorruptedError: The pins of the micro-batch are damaged.
            StoreReshardedError: The table has another number of partitions by now.
            UnsupportedFormatError: They are of a later release.
            StorageError: They cannot be read or written.
        """
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return self.planned[partition]
        return self.pinned(query, int(batch))[partition]

    def pinned(self, query: str, batch: int) -> dict[int, int]:
        """Return the pins of micro-batch *batch* of *query*, and make them if nobody has.

        Raises:
            StoreCorruptedError, UnsupportedFormatError, StorageError: As `end_offset`.
        """
        directory = self.root.directory
        if directory is None:
            shown, fields = self._in_objects(self.root.objects, query, batch)
        else:
            shown, fields = self._in_directory(directory / PINS_DIRECTORY / query, batch)
        pins = {} if fields is None else {n: fields.integer(name) for n, name in fields.numbered()}
        if pins.keys() != set(range(self.partitions)):
            raise StoreCorruptedError(
                f"{shown} does not say where the {self.partitions} partitions of "
                f"{self.specification.name!r} end; it was edited, or is of another table, or of "
                "this one before a reshard: then remove it, and the micro-batch sees the table as "
                "it is"
            )
        return pins

    def _ends(self) -> dict[str, int]:
        """Return where each partition ends now, by its number as text."""
        ends = table_ends(self.root, self.specification, self.partitions)
        return {str(number): end for number, end in ends.items()}

    def _in_directory(self, directory: Path, batch: int) -> tuple[str, Fields | None]:
        path = directory / f"{self.specification.name}-{batch}.json"
        fields = read_fields(path)
        if fields is None:
            make_directory(directory)
            self._pin(path, batch)
            fields = read_fields(path)
        return repr(str(path)), fields

    def _pin(self, path: Path, batch: int) -> None:
        """Pin the ends as they are now in the file *path*, unless another task was faster."""
        directory = path.parent
        proposed = directory / f"{uuid4().hex}.json"
        with reporting("write", path):
            try:
                write_json(proposed, self._ends())
                os.link(proposed, path)
            except FileExistsError:
                pass  # what the other one has pinned counts
            else:
                for each in directory.iterdir():
                    if self._is_older(each.name.removesuffix(".json"), batch):
                        each.unlink(missing_ok=True)
            finally:
                proposed.unlink(missing_ok=True)
            make_durable(directory)

    def _in_objects(
        self, storage: ObjectStorage, query: str, batch: int
    ) -> tuple[str, Fields | None]:
        directory = f"{PINS_DIRECTORY}/{query}/"
        name = f"{directory}{self.specification.name}-{batch}"
        names = Names(self.specification.name, storage.url)
        found = storage.read(name)
        if found is None:
            proposed = pack_document(_KIND, {"ends": self._ends()})
            try:
                run(settle(names, name, proposed), storage)
            except CommitInDoubtError as error:
                raise StorageError(
                    f"cannot write {names.shown(name)}: {storage.last_failure() or 'no answer'}; "
                    "check the network, the credentials and their rights, and start the query again"
                ) from error
            found = storage.read(name)
            for each in list(storage.list(directory)):
                if self._is_older(each.name.removeprefix(directory), batch):
                    storage.delete(each.name)
        shown = names.shown(name)
        if not isinstance(found, Found):
            return shown, None
        kind, fields = unpack_document(found.data, shown)
        if kind != _KIND:
            raise ChangelogCorruptedError(f"the object {shown} is a {kind!r}, and no pins")
        return shown, fields.inside("ends")

    def _is_older(self, name: str, batch: int) -> bool:
        """Return whether *name* is of pins of a micro-batch that does not come again."""
        found = re.fullmatch(rf"{re.escape(self.specification.name)}-(\d+)", name)
        return found is not None and int(found[1]) <= batch - _KEPT


def table_ends(
    root: GivenRoot, specification: StoreSpecification[Any, Any], partitions: int
) -> dict[int, int]:
    """Return where each partition ends now; a staged write is before all of them or after all."""
    home = root.home(specification.name, partitions)
    readers = [
        PartitionReader(root.partition(specification, partitions, number, home=home), specification)
        for number in range(partitions)
    ]
    return dict(enumerate(end_offsets(readers)))
