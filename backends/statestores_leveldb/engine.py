"""The LevelDB engine, through plyvel."""

import os
import weakref
from collections.abc import Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from statestores.errors import StorageError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import engine_directory
from statestores.files.plain_files import check_plain_files
from statestores.spi import (
    Capabilities,
    Durability,
    Engine,
    MemoryShare,
    WriteBatch,
    parse_options,
)
from statestores.spi.forking import use_driver
from statestores.spi.write_order import in_write_order
from statestores_leveldb.binding import plyvel
from statestores_leveldb.database_files import (
    check_completeness,
    commit_logs,
    is_last_batch,
    kept_info_log,
    log_numbers,
)
from statestores_leveldb.failures import DRIVER_ERRORS, closed, in_doubt, translated
from statestores_leveldb.options import Compression, LevelDBOptions
from statestores_leveldb.reads import LevelDBReads
from statestores_leveldb.snapshot import LevelDBSnapshot

_COUNTED_KEYS = 10_000
"""This many keys are counted one by one; beyond that, their number is estimated from sizes on
disk."""


class LevelDBEngine(LevelDBReads, Engine):
    """A LevelDB database in a directory."""

    name: ClassVar[str] = "leveldb"
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, detects_corruption=True
    )

    def __init__(
        self,
        database: Any,
        directory: Path,
        lock: DirectoryLock,
        memory: MemoryShare | None = None,
    ) -> None:
        """Take over an open ``plyvel.DB``, which has no types; callers use `open`."""
        super().__init__(database, str(directory))
        self._database = database
        self._directory = directory
        self._directory_lock = lock
        self._memory = memory
        self._snapshots: weakref.WeakSet[LevelDBSnapshot] = weakref.WeakSet()
        # Whether a batch was applied since the logs were last known to be on disk.
        self._logs_uncommitted = False
        self._log_torn = False

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        use_driver("LevelDB")
        chosen = parse_options(LevelDBOptions, options)
        directory = engine_directory(path)
        check_plain_files(directory)
        lock = DirectoryLock.acquire(directory)
        memory = database = None
        try:
            check_completeness(directory)
            chosen, memory = chosen.within_budget()
            with kept_info_log(directory):
                database = _open_database(directory, chosen)
            return cls(database, directory, lock, memory)
        except BaseException:
            if database is not None:
                database.close()
            lock.release()
            if memory is not None:
                memory.release()
            raise

    @property
    def is_open(self) -> bool:
        return self._reading

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        if not self._reading:
            raise closed(self._path)
        wait = durability is Durability.POWER_LOSS
        changes = self._database.write_batch(sync=wait)
        put, delete = changes.put, changes.delete
        for key, value in in_write_order(batch):
            if value is None:
                delete(key)
            else:
                put(key, value)
        if self._log_torn:
            self._leave_torn_log()
        if wait and self._logs_uncommitted:
            # LevelDB waits for its newest log only, and this batch may be the one that begins it.
            commit_logs(self._directory)
        # Before the write, since an interrupt may come between it and the next line.
        self._is_stale = self._logs_uncommitted = True
        try:
            # An empty batch is written, and waited for, like any other.
            changes.write()
        except DRIVER_ERRORS as error:
            self._log_torn = True
            if is_last_batch(in_write_order(batch), self._directory):
                # The text is that of a failed write, but what failed is the wait for the disk.
                raise in_doubt(error, self._path) from error
            raise translated(error, self._path) from error
        self._logs_uncommitted = not wait
        with self._lock:
            self._drop_seeker()
            self._is_stale = False

    def _leave_torn_log(self) -> None:
        """Begin a new log after a write that failed.

        The log may end in half a record. LevelDB would write after it, and refuse the log as
        damaged at the next opening. Turning the changes in memory into a sorted file begins a new
        log and removes the old one; the range is empty, so nothing else is compacted.
        """
        torn = log_numbers(self._directory)
        self._database.compact_range(start=b"", stop=b"")
        if not set(torn).isdisjoint(log_numbers(self._directory)):
            raise StorageError(
                f"LevelDB takes no more batches in {self._path!r} since one has failed; make room "
                "on the disk, then close the engine and open it again"
            )
        self._log_torn = False

    def snapshot(self) -> LevelDBSnapshot:
        with self._lock:
            if not self._reading:
                raise closed(self._path)
            snapshot = LevelDBSnapshot(self._database.snapshot(), self._path)
            self._snapshots.add(snapshot)
        return snapshot

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Count up to 10,000 keys; beyond that, estimate.

        The estimate assumes that the rest of the range holds as many keys per byte on disk as its
        beginning. It leaves out what is still in memory, up to twice the write buffer.
        """
        counted, key = 0, start
        for key, _ in islice(self.scan(start, stop), _COUNTED_KEYS):  # noqa: B007  # the last key
            counted += 1
        if counted < _COUNTED_KEYS:
            return counted
        highest = self.last(start, stop) or (key, b"")
        with self._lock:
            if not self._reading:
                raise closed(self._path)
            sample, whole = self._database.approximate_sizes((start, key), (start, highest[0]))
        if not sample:  # they are all still in memory
            return super().approximate_num_keys(start, stop)
        return int(max(counted, counted * whole // sample))

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be repeated too.
        self._stop_reads()
        for snapshot in list(self._snapshots):
            snapshot.close()
        self._database.close()
        self._directory_lock.release()
        if self._memory is not None:
            self._memory.release()


def _open_database(directory: Path, options: LevelDBOptions) -> Any:
    """Open LevelDB in *directory*; it takes its own lock there as well."""
    try:
        return plyvel.DB(
            os.fsencode(directory),
            create_if_missing=True,
            # Without it, LevelDB skips what is damaged in a log and goes on with what follows:
            # 27 of 30 flipped bits gave a database with holes.
            paranoid_checks=True,
            write_buffer_size=options.write_buffer_bytes,
            lru_cache_size=options.cache_bytes,
            block_size=options.block_bytes,
            bloom_filter_bits=options.bloom_bits,
            max_open_files=options.max_open_files,
            compression=None if options.compression is Compression.NONE else "snappy",
        )
    except DRIVER_ERRORS as error:
        raise translated(error, str(directory)) from error
