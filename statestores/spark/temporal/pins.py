"""At which offsets a temporal join reads its table: decided once for each plan or micro-batch.

A task that is repeated, and a micro-batch that comes again after a crash, must see the table as
it was the first time. A batch is pinned by the driver, in the plan. The plan of a stream is made
once for all of its micro-batches, so there the first task of a micro-batch pins, for all of them,
in a file that is never replaced::

    ROOT/@pins/<query>/<store>-<batch>.json

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
from statestores.errors import StoreCorruptedError
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.durable_json import read_fields, write_json
from statestores.generations import current_home
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.spark.session.query_session import QUERY_PROPERTY
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

PINS_DIRECTORY = "@pins"
"""Where streams pin what they read, in a state root. No store can have such a name."""

_BATCH = "streaming.sql.batchId"
_KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePins:
    """The offsets of one table. Made to be sent to tasks."""

    root: Path
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
            StoreCorruptedError: The pins of the micro-batch are damaged.
            StorageError: They cannot be read or written.
        """
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return self.planned[partition]
        return self._pinned(self.root / PINS_DIRECTORY / query, int(batch))[partition]

    def _pinned(self, directory: Path, batch: int) -> dict[int, int]:
        """Return the pins of a micro-batch, and make them if nobody has."""
        name = self.specification.name
        path = directory / f"{name}-{batch}.json"
        fields = read_fields(path)
        if fields is None:
            make_directory(directory)
            ends = table_ends(self.root, self.specification, self.partitions)
            proposed = directory / f"{uuid4().hex}.json"
            write_json(proposed, {str(number): end for number, end in ends.items()})
            with reporting("write", path):
                try:
                    os.link(proposed, path)
                except FileExistsError:
                    pass  # another task was faster, and what it has pinned counts
                else:
                    self._remove_older(directory, batch)
                proposed.unlink()
                make_durable(directory)
            fields = read_fields(path)
        pins = {} if fields is None else {n: fields.integer(name) for n, name in fields.numbered()}
        if pins.keys() != set(range(self.partitions)):
            raise StoreCorruptedError(
                f"{str(path)!r} does not say where the {self.partitions} partitions of {name!r} "
                "end; it was edited, or is of another table"
            )
        return pins

    def _remove_older(self, directory: Path, batch: int) -> None:
        """Remove the pins of micro-batches that do not come again."""
        pattern = re.compile(rf"{re.escape(self.specification.name)}-(\d+)\.json")
        for path in directory.iterdir():
            found = pattern.fullmatch(path.name)
            if found is not None and int(found[1]) <= batch - _KEPT:
                path.unlink(missing_ok=True)


def table_ends(
    root: Path, specification: StoreSpecification[Any, Any], partitions: int
) -> dict[int, int]:
    """Return where each partition ends now; a staged write is before all of them or after all."""
    home = current_home(root, specification.name)
    readers = [
        PartitionReader(PartitionDirectory(home / str(number)), specification)
        for number in range(partitions)
    ]
    return dict(enumerate(end_offsets(readers)))
