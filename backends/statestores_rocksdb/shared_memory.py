"""What engines of one memory budget share: a block cache, and a limit on recent writes in it."""

from threading import Lock
from weakref import WeakKeyDictionary

from rocksdict import Cache, WriteBufferManager

from statestores.spi import MemoryBudget
from statestores.spi.forking import never_destroy, renew_after_fork


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


class _SharedOfBudgets:
    """What the engines of each budget share, for as long as the budget lives."""

    def __init__(self) -> None:
        self._of_budget: WeakKeyDictionary[MemoryBudget, SharedMemory] = WeakKeyDictionary()
        self._lock = Lock()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Share nothing yet, in a forked child: the driver's threads may have been in a cache."""
        never_destroy(self._of_budget)
        self._of_budget = WeakKeyDictionary()
        self._lock = Lock()

    def __getitem__(self, budget: MemoryBudget) -> SharedMemory:
        with self._lock:
            memory = self._of_budget.get(budget)
            if memory is None:
                memory = self._of_budget[budget] = SharedMemory(budget.pool_bytes)
            return memory


_SHARED = _SharedOfBudgets()


def shared_memory(budget: MemoryBudget) -> SharedMemory:
    """Return what the engines of *budget* share, for as long as the budget lives."""
    return _SHARED[budget]
