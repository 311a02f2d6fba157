"""Stores with a changelog, written as their owner writes them, for readers that take no lock."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.changelog import FileChangelog, changelog_partition
from statestores.spi import KeyValueStore, StateStore, VersionedStore
from statestores.state_root import PartitionDirectory

KeyValueChange = tuple[bytes, bytes | None]
VersionedChange = tuple[bytes, bytes | None, int]
Row = tuple[Any, ...]


class Written:
    """One partition, its store in memory and its changelog open."""

    def __init__(self, directory: PartitionDirectory, store: Any, log: FileChangelog) -> None:
        self.directory = directory
        self.store = store
        self.log = log

    def commit(self, changes: list[Row]) -> None:
        """Put *changes* and commit them: to the changelog first, then to the store."""
        for change in changes:
            self.store.put(*change)
        pending = self.store.pending_changes()
        last = self.log.append(pending).last
        self.store.commit({self.partition: last})

    def snapshot(self) -> None:
        """Write a snapshot of what is committed."""
        write_snapshot(self.store, self.directory.snapshots, partition=self.partition)

    @property
    def partition(self) -> ss.TopicPartition:
        """The partition whose offset the store commits."""
        return changelog_partition(self.store.name, int(self.directory.path.name))

    def shown(self, as_of_ms: int | None = None) -> list[Row]:
        """Return the rows that the store shows."""
        store: StateStore = self.store
        if isinstance(store, KeyValueStore):
            return list(store.range())
        assert isinstance(store, VersionedStore)
        return [(key, *record) for key, record in store.scan_as_of(as_of_ms)]


Open = Callable[[ss.KeyValue[Any, Any] | ss.Versioned[Any, Any], Path], Written]


@pytest.fixture
def written() -> Iterator[Open]:
    """Open partition 0 of a store below a directory; closed at the end."""
    with ExitStack() as resources:

        def open_written(
            specification: ss.KeyValue[Any, Any] | ss.Versioned[Any, Any], root: Path
        ) -> Written:
            directory = PartitionDirectory(root / specification.name / "0")
            store = resources.enter_context(
                ss.open_store("unused", specification, backend="memory")
            )
            log = resources.enter_context(
                FileChangelog.create(directory.changelog, specification.kind)
            )
            return Written(directory, store, log)

        yield open_written


def as_rows(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    """Return the rows of *batches*."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def rows_of() -> Callable[[Iterator[pa.RecordBatch]], list[Row]]:
    return as_rows
