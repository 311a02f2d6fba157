"""Opening the files: the driver's options, and the ways in which RocksDB recovers."""

from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
)

from statestores_rocksdb.failures import fail
from statestores_rocksdb.inspection import inspect
from statestores_rocksdb.options import Compression, RocksDBOptions, WalRecovery
from statestores_rocksdb.shared_memory import shared_memory

_COMPRESSION = {
    Compression.LZ4: DBCompressionType.lz4,
    Compression.ZSTD: DBCompressionType.zstd,
    Compression.NONE: DBCompressionType.none,
}

_RECOVERY = {
    # Refuses a log that fails its checksums, and accepts one that is cut: `inspect` has made sure
    # that only the newest is.
    WalRecovery.REFUSE_DAMAGE: DBRecoveryMode.tolerate_corrupted_tail_records,
    # Stops for good at the first damage.
    WalRecovery.CUT_AT_DAMAGE: DBRecoveryMode.point_in_time,
}

_TEXT_LOG_BYTES = 256 * 1024
"""A text log of RocksDB, of which three are kept: enough for some hundred compactions."""

_MANIFEST_BYTES = 1024 * 1024
"""A list of the database's files and of their changes; the next one begins with the files alone."""

_FILES_PER_THREAD = 4
_MOST_THREADS = 16
"""RocksDB's own number of threads for checking the files when it opens. Starting them takes a third
of the time in which a small store opens."""

_COLUMN_FAMILY = "default"
"""The only one: several cannot be flushed, ingested or recovered together."""


def open_database(path: Path, options: RocksDBOptions) -> Rdict:
    """Open or create the database in the directory *path*.

    Requires: the directory exists and the caller holds its lock.

    Raises:
        StoreCorruptedError: The files are damaged or incomplete; nothing was changed.
        StorageError: They cannot be read or written.
        StoreLockedError: A program that does not take our lock has the database open.
    """
    tuned = driver_options(options)
    tuned.set_wal_recovery_mode(_RECOVERY[options.wal_recovery]())
    opened: list[Rdict] = []
    try:
        tuned.set_max_file_opening_threads(_opening_threads(path))
        inspect(path, options.wal_recovery, lambda: _oldest_log(path, tuned))
        database = _open(path, tuned, AccessType.read_write())
        opened.append(database)
        _leave_sequence_zero(database)
    except Exception as error:  # noqa: BLE001  # the driver raises the class itself
        for each in opened:
            # It fails to close where it failed to write: the first failure is the one to report.
            with suppress(Exception):
                each.close()
        fail(error, f"open the RocksDB database in {str(path)!r}")
    return database


def _opening_threads(path: Path) -> int:
    """Return how many threads are worth starting for the files in *path*."""
    files = sum(1 for _ in path.glob("*.sst"))
    return min(1 + files // _FILES_PER_THREAD, _MOST_THREADS)


def _leave_sequence_zero(database: Rdict) -> None:
    """Let no snapshot be taken at sequence number 0.

    In a database into which rows were only ingested, nothing has changed that RocksDB counts. While
    there is a snapshot of that instant, any compaction drops all the ingested rows, which have
    number 0 too (facebook/rocksdb#13155). One change is enough; no row has the empty key.
    """
    if not database.latest_sequence_number():
        change = WriteBatch(raw_mode=True)
        change.delete(b"")
        database.write(change)


def _oldest_log(path: Path, tuned: Options) -> int:
    """Return the number of the oldest log that is needed, of a database that is not open."""
    database = _open(path, tuned, AccessType.read_only(error_if_log_file_exist=False))
    try:
        return cast("int", database.property_int_value("rocksdb.min-log-number-to-keep"))
    finally:
        database.close()


def _open(path: Path, tuned: Options, access: AccessType) -> Rdict:
    # With column families left out, the driver opens with the options that an earlier opening
    # stored, not with these.
    database = Rdict(str(path), tuned, {_COLUMN_FAMILY: tuned}, access)
    # A handle on the column family need not look it up at each read. Dropping the other one does
    # not close the database.
    return database.get_column_family(_COLUMN_FAMILY)


_COMPACTED_BUFFERS = 4
"""How much one compaction reads, unless a single file overlaps more: it is on the disk twice."""

_MOST_WAITING_FILES = 6
"""When the first level has this many files, of a write buffer each, writers are slowed down.
Compaction begins with four; the driver's own limit is twenty."""

_MOST_WAITING_BUFFERS = 4
"""When all levels together have this much to compact, in write buffers, writers are slowed down.
The default is 64 GB."""

_DELETIONS: Final = (1_000, 200, 0.3)
"""A table is compacted soon if it has so many deletions (second) in so many consecutive rows
(first), or that share of deletions (third) in all of it."""


_FILTER_OF_RECENT_WRITES: Final = 0.02
"""Which part of the write buffer is a filter of the keys in it, so that a get of a row in a file
does not search the table of recent writes: 24 bits a row of 100 bytes, 8 a row of 10
(docs/decisions/0218-recent-writes-have-a-filter.md)."""


def driver_options(options: RocksDBOptions) -> Options:
    """Return *options*, and what is not up to the user, as the driver takes them."""
    table = BlockBasedOptions()
    table.set_block_size(options.block_bytes)
    tuned = Options(raw_mode=True)
    if options.memory_budget is not None:
        shared = shared_memory(options.memory_budget)
        table.set_block_cache(shared.cache)
        # Otherwise they would lie beside the cache, and grow with the number of keys.
        table.set_cache_index_and_filter_blocks(v=True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(v=True)
        tuned.set_write_buffer_manager(shared.writes)
    elif options.block_cache_bytes:
        table.set_block_cache(Cache(options.block_cache_bytes))
    else:
        table.disable_cache()
    if options.bloom_bits_per_key:
        table.set_bloom_filter(options.bloom_bits_per_key, block_based=False)
        tuned.set_memtable_whole_key_filtering(whole_key_filter=True)
        tuned.set_memtable_prefix_bloom_ratio(_FILTER_OF_RECENT_WRITES)

    tuned.create_if_missing(create_if_missing=True)
    tuned.set_block_based_table_factory(table)
    tuned.set_write_buffer_size(options.write_buffer_bytes)
    _bound_garbage(tuned, options.write_buffer_bytes)
    tuned.set_compression_type(_COMPRESSION[options.compression]())
    tuned.set_max_background_jobs(options.max_background_jobs)
    tuned.set_max_open_files(-1 if options.max_open_files is None else options.max_open_files)
    # Both are the driver's defaults, and both carry a promise: stop at the first damage that is
    # met, and never reuse a log file, whose old records could pass for new ones.
    tuned.set_paranoid_checks(enabled=True)
    tuned.set_recycle_log_file_num(0)
    # A process may have hundreds of engines: no timer threads for statistics that nobody reads,
    # and no thousand old text logs in each directory.
    tuned.set_stats_dump_period_sec(0)
    tuned.set_stats_persist_period_sec(0)
    # And no endless text log: each compaction writes some kilobytes about itself, which over fifty
    # retentions of a store of 40 MB came to as much as the store. Its changes to the list of files
    # are smaller, and by default are kept up to a gigabyte.
    tuned.set_max_log_file_size(_TEXT_LOG_BYTES)
    tuned.set_max_manifest_file_size(_MANIFEST_BYTES)
    tuned.set_keep_log_file_num(3)
    return tuned


def _bound_garbage(tuned: Options, write_buffer_bytes: int) -> None:
    """Make compactions small, and early where rows were deleted.

    By default a store of up to 256 MiB is one sorted run, and a compaction holds all of it twice.
    Levels in proportion to the buffers are compacted in pieces. Deletions sink slowly through
    levels, a table of them being no bargain to the driver; so tables with many are taken first.
    Each measure works only with the other (docs/decisions/0035-the-sweep-follows-what-it-finds.md).
    Also, a compaction reads little at a time, and writers wait for compactions before the files
    that have not been compacted are a large part of the store.
    """
    tuned.set_level_compaction_dynamic_level_bytes(v=False)
    tuned.set_max_bytes_for_level_base(4 * write_buffer_bytes)
    tuned.set_target_file_size_base(write_buffer_bytes)
    tuned.set_max_compaction_bytes(_COMPACTED_BUFFERS * write_buffer_bytes)
    tuned.set_level_zero_slowdown_writes_trigger(_MOST_WAITING_FILES)
    tuned.set_soft_pending_compaction_bytes_limit(_MOST_WAITING_BUFFERS * write_buffer_bytes)
    tuned.add_compact_on_deletion_collector_factory(*_DELETIONS)
