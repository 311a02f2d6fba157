"""How a LevelDB database is opened."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from statestores.errors import InvalidOptionError
from statestores.spi import MemoryBudget, MemoryShare

_LEAST_BYTES = 1024 * 1024
"""The least that an engine takes of a budget."""

_LEAST_WRITE_BUFFER_BYTES = 64 * 1024
"""LevelDB's own lower bound."""

_BOUNDS = {
    "write_buffer_bytes": (_LEAST_WRITE_BUFFER_BYTES, 1024 * 1024 * 1024),
    "cache_bytes": (0, 1 << 40),
    "block_bytes": (1024, 4 * 1024 * 1024),
    "bloom_bits": (0, 64),
    "max_open_files": (74, 50_000),
}
"""The least and the most of each size. LevelDB would silently bend what is beyond its limits."""


class Compression(Enum):
    """How blocks are compressed on disk."""

    NONE = "none"
    SNAPPY = "snappy"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDBOptions:
    """The choices for a LevelDB database.

    What protects the data is not a choice: paranoid checks and checksum verification are always on.
    """

    write_buffer_bytes: int = 16 * 1024 * 1024
    """Memory for the newest changes before they become a sorted file. LevelDB's own 4 MiB makes
    four times as many files to look through after a load; more makes opening after a crash slower,
    since up to this much log is replayed. Twice this may be in use for a moment."""

    cache_bytes: int = 32 * 1024 * 1024
    """Memory for uncompressed blocks that have been read, for each open engine. The operating
    system caches the files as well, so this saves decompression and checksums rather than the
    disk. A process that opens many partitions pays it for each of them."""

    block_bytes: int = 4096
    """Uncompressed size of a block, the unit of reading. Smaller suits point reads, larger suits
    scans and compresses better. New files only."""

    bloom_bits: int = 10
    """Bits for each key in the filters that tell when a file lacks a key: 10 give about 1 % wrong
    guesses. 0 writes no filters; reads of absent keys then cost a block for each level."""

    max_open_files: int = 500
    """Sorted files kept open. Half of LevelDB's own 1,000, because 1,024 descriptors are a common
    limit of a process, and it opens an engine for each store and partition."""

    compression: Compression = Compression.SNAPPY
    """Snappy costs little and reads less from the disk; ``none`` suits values that are compressed
    or encrypted already. New files only; both can be read at any time."""

    memory_budget: MemoryBudget | None = None
    """The memory that the write buffer and the cache share with other engines. Where an engine's
    part is less than both ask for, both are smaller in proportion. ``None`` gives them what they
    ask for."""

    def __post_init__(self) -> None:
        """Refuse what is out of `_BOUNDS`."""
        for name, (lowest, highest) in _BOUNDS.items():
            value: int = getattr(self, name)
            if not lowest <= value <= highest:
                raise InvalidOptionError(
                    f"option {name!r} must be from {lowest} to {highest}, got {value!r}"
                )

    def within_budget(self) -> tuple[Self, MemoryShare | None]:
        """Return the options with the sizes that the budget grants, and the place in it.

        Raises:
            MemoryBudgetExceededError: It has no room for one more store.
        """
        if self.memory_budget is None:
            return self, None
        share = self.memory_budget.join(least_bytes=_LEAST_BYTES)
        # Two write buffers are in use while one of them becomes a file.
        wanted = 2 * self.write_buffer_bytes + self.cache_bytes
        granted = min(wanted, self.memory_budget.engine_bytes)
        write_buffer = max(_LEAST_WRITE_BUFFER_BYTES, self.write_buffer_bytes * granted // wanted)
        fitted = replace(
            self,
            write_buffer_bytes=write_buffer,
            cache_bytes=max(0, granted - 2 * write_buffer),
        )
        return fitted, share
