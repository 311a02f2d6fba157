"""How a RocksDB database is opened."""

from dataclasses import dataclass
from enum import Enum

from statestores.errors import InvalidOptionError
from statestores.spi import MemoryBudget

_MOST_BYTES = 1 << 40
"""More is a mistake, and RocksDB has no numbers above 2^63."""

_BOUNDS = {
    "block_cache_bytes": (0, _MOST_BYTES),
    "block_bytes": (1024, 1 << 30),
    "write_buffer_bytes": (64 * 1024, _MOST_BYTES),
    "bloom_bits_per_key": (0, 1024),
    # Each is a thread. RocksDB ends the process when the system has no more of them.
    "max_background_jobs": (1, 256),
    "max_open_files": (16, (1 << 31) - 1),
}
"""The least and the most of each number. RocksDB would silently correct what is beyond, or fail."""


class Compression(Enum):
    """How blocks of pairs are compressed on disk."""

    LZ4 = "lz4"
    """Fast in both directions."""

    ZSTD = "zstd"
    """About a third smaller than lz4, and several times slower to write."""

    NONE = "none"
    """As they are: for values that are compressed already."""


class WalRecovery(Enum):
    """What opening does about damage in the write-ahead log, which only a crash leaves behind.

    A record that a crash cut short at the end of the log is not damage: it was never committed, and
    both ways forget it.
    """

    REFUSE_DAMAGE = "refuse-damage"
    """Raise `StoreCorruptedError`: commits after the damage would be lost without a word."""

    CUT_AT_DAMAGE = "cut-at-damage"
    """Open with the commits before the damage and forget all that follow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksDBOptions:
    """How a RocksDB database is opened. The defaults suit many stores in one process."""

    block_cache_bytes: int = 64 * 1024 * 1024
    """Memory for uncompressed blocks that were read, filled as needed and not shared between
    engines. Larger: fewer reads of a store that does not fit; 0 turns it off."""

    block_bytes: int = 4096
    """Size of a block, the unit of reading and compressing. Larger: smaller files and faster
    scans; smaller: cheaper gets of what is not cached."""

    write_buffer_bytes: int = 32 * 1024 * 1024
    """Memory for one table of recent writes, of which there are up to two. Larger: fewer files
    and less compaction; smaller: less memory and less to recover after a crash."""

    bloom_bits_per_key: int = 10
    """Memory and disk for the filters that spare a get most files without the key: at 10 bits one
    in a hundred is read in vain. 0 turns them off, and so that of the recent writes, which takes a
    fiftieth of the write buffer."""

    compression: Compression = Compression.LZ4
    """How blocks are compressed; files written before a change stay readable."""

    max_background_jobs: int = 2
    """Threads that write and compact files, shared by all engines of a process: the largest
    number wins."""

    max_open_files: int | None = None
    """Files kept open. ``None`` keeps all: gets are fastest and every file is looked at when the
    database opens. Set it where file descriptors are scarce; not below 16."""

    wal_recovery: WalRecovery = WalRecovery.REFUSE_DAMAGE
    """What opening does about damage in the write-ahead log: the default reports it, so that the
    store can be restored from its changelog (docs/decisions/0010-rocksdb-wal-recovery.md)."""

    memory_budget: MemoryBudget | None = None
    """The budget from which all engines that are given it take their memory: one block cache, with
    filters, indexes and recent writes in it. ``block_cache_bytes`` then means nothing, and
    ``write_buffer_bytes`` is how much of the recent writes one engine may have. ``None``: each
    engine has its own memory."""

    def __post_init__(self) -> None:
        """Refuse what is out of `_BOUNDS`.

        Raises:
            InvalidOptionError: A number is out of bounds.
        """
        for name, (first, last) in _BOUNDS.items():
            value: int | None = getattr(self, name)
            if value is not None and not first <= value <= last:
                raise InvalidOptionError(
                    f"option {name!r} must be from {first} to {last}, got {value!r}"
                )
