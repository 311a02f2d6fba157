"""What engines of one memory budget share: a block cache, and a limit on recent writes in it."""

from threading import Lock
from weakref import WeakKeyDictionary

from rocksdict import Cache, WriteBufferManager

from statestores.spi import MemoryBudget


class SharedMemory:
    """A block cache of all engines of a budget, in which their recent writes are counted as well.

    When the recent writes of all engines together fill half of it, the one that writes next moves
    its own into a file.
    """

    def __init__(self, total_bytes: int) -> None:
        self.cache = Cache(total_bytes)
        """Blocks that were read, filters and indexes, and placeholders for recent writes."""

        self.writes = WriteBufferManager.new_write_buffer_manager_with_cache(
            total_bytes // 2, allow_stall=False, cache=self.cache
        )
        """The limit."""


_SHARED: WeakKeyDictionary[MemoryBudget, SharedMemory] = WeakKeyDictionary()
_LOCK = Lock()


def shared_memory(budget: MemoryBudget) -> SharedMemory:
    """Return what the engines of *budget* share, for as long as the budget lives."""
    with _LOCK:
        memory = _SHARED.get(budget)
        if memory is None:
            memory = _SHARED[budget] = SharedMemory(budget.pool_bytes)
        return memory
