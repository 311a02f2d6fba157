"""The recovery store that a dataflow of Bytewax has left behind.

SQLite databases ``part-<n>.sqlite3``, which together have the snapshots of each stateful step's
keys by epoch, and from which epoch the dataflow would resume. A snapshot is a pickle: it is bytes
here, and nothing unpickles it.
"""

from collections.abc import Generator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from statestores.errors import (
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.files.local_path import local_path
from statestores.migration.peers.database import sqlite_rows
from statestores.migration.peers.source import PEER_ROW_SCHEMAS, PeerState, PeerStore
from statestores.migration.row_batches import as_batches
from statestores.spi.kinds import KEY_VALUE, Kind
from statestores.spi.offsets import TopicPartition

_MIGRATIONS = 5
"""The version of the tables, as Bytewax counts it in ``user_version``: that of 0.17 to 0.21."""

_PARTS = "select part_index, part_count from parts"
_EXECUTIONS = "select ex_num, worker_count, resume_epoch from exs"
_FRONTIERS = "select ex_num, worker_index, worker_frontier from fronts"
_STEPS = "select distinct step_id from snaps"
_SNAPSHOTS = """
    select state_key, snap_epoch, ser_change from snaps where step_id = ? and snap_epoch < ?
"""


class BytewaxRecoveryStore(PeerState):
    """The state of the steps of a dataflow, as it would resume. A step is a store."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open the directory that ``python -m bytewax.recovery`` made.

        Raises:
            StoreNotFoundError: There is no recovery store.
            StoreCorruptedError: Parts of it are missing.
            UnsupportedFormatError: Another release of Bytewax has made it.
            StorageError: It cannot be read.
        """
        self.path = local_path(path)
        self._parts = sorted(self.path.glob("part-*.sqlite3"))
        if not self._parts:
            raise StoreNotFoundError(
                f"there is no recovery store of Bytewax in {str(self.path)!r}; give the directory "
                "with part-0.sqlite3"
            )
        for part in self._parts:
            [(version,)] = self._query(part, "pragma user_version")
            if version != _MIGRATIONS:
                raise UnsupportedFormatError(
                    f"{str(part)!r} has tables of version {version}, and this release reads "
                    f"version {_MIGRATIONS}, which Bytewax 0.21 writes"
                )
        parts = [row for part in self._parts for row in self._query(part, _PARTS)]
        counts = {count for _, count in parts}
        if len(counts) != 1 or {index for index, _ in parts} != set(range(min(counts, default=0))):
            raise StoreCorruptedError(
                f"the recovery store in {str(self.path)!r} has the parts "
                f"{', '.join(f'{index} of {count}' for index, count in sorted(parts))}; bring all "
                "parts of one store together, as Bytewax needs them too"
            )
        self.resume_epoch = self._resume_epoch()

    def _resume_epoch(self) -> int:
        """Return the epoch from which Bytewax would resume: it has no state of later ones."""
        executions: dict[int, tuple[int, int]] = {}
        frontiers: dict[tuple[int, int], int] = {}
        for part in self._parts:
            for number, workers, epoch in self._query(part, _EXECUTIONS):
                executions[number] = (workers, epoch)
            for number, worker, frontier in self._query(part, _FRONTIERS):
                known = frontiers.get((number, worker), frontier)
                frontiers[number, worker] = max(known, frontier)
        if not executions:
            return 0
        newest = max(executions)
        workers, epoch = executions[newest]
        return min(max(frontiers.get((newest, each), epoch), epoch) for each in range(workers))

    def stores(self) -> Sequence[PeerStore]:
        """Return the steps that have state.

        Raises:
            StorageError, StoreCorruptedError: They cannot be read.
        """
        names = {name for part in self._parts for (name,) in self._query(part, _STEPS)}
        return [PeerStore(name=name, kinds=(KEY_VALUE,), partitions=()) for name in sorted(names)]

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the state of each key of the step *store*, as of the epoch of the resume (MIG-16).

        Raises:
            StoreNotFoundError: There is no such step.
            StorageError, StoreCorruptedError: It cannot be read.
        """
        self.store(store)
        newest: dict[str, tuple[int, bytes | None]] = {}
        for part in self._parts:
            for key, epoch, state in self._query(part, _SNAPSHOTS, store, self.resume_epoch):
                if key not in newest or newest[key][0] < epoch:
                    newest[key] = (epoch, state)
        if self._resume_epoch() != self.resume_epoch:
            # Bytewax has removed what it no longer needs, which is what would be read here.
            raise StorageError(
                f"the dataflow of the recovery store in {str(self.path)!r} has gone on while it "
                "was read; stop it first"
            )
        rows = (
            (key.encode(), state)
            for key, (_, state) in sorted(newest.items())
            if state is not None  # discarded
        )
        yield from as_batches(rows, PEER_ROW_SCHEMAS[kind])

    def offsets(self, store: str, partition: int) -> Mapping[TopicPartition, int]:
        """Return none: where a source resumes is in the pickles of the step that reads it."""
        return {}

    def _query(self, part: Path, statement: str, *values: object) -> list[Any]:
        remedy = "; take one of Bytewax's backups"
        return list(sqlite_rows(part, statement, *values, damaged="is damaged", remedy=remedy))

    def close(self) -> None:
        """Do nothing: databases are open only while they are read."""
