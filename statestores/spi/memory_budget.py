"""Memory that the stores of a process share, so that their number does not multiply it.

A store that is opened with the option ``memory_budget`` has its cache and its engine's caches and
buffers within the budget. A quarter is for the stores' own caches, in equal parts. Three quarters
are for the engines: those that can share memory share all of it, the others have equal parts. Parts
are equal and fixed because most engines cannot change theirs while they are open.
"""

from dataclasses import dataclass, field
from threading import Lock

from statestores.errors import InvalidArgumentError, MemoryBudgetExceededError
from statestores.spi.forking import renew_after_fork

_LEAST_SHARE_BYTES = 256 * 1024


class MemoryBudget:
    """A number of bytes for a number of stores that are open at the same time.

    It bounds caches and buffers: not what is pending in a write buffer until the next commit, nor
    the interpreter's own objects. Any thread may use it.
    """

    def __init__(self, total_bytes: int, *, stores: int) -> None:
        """Divide *total_bytes* among up to *stores* stores.

        Raises:
            InvalidArgumentError: One is not a whole number or is below 1, or a store would have
                less than 256 KiB.
        """
        for name, value in (("total_bytes", total_bytes), ("stores", stores)):
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(
                    f"{name} of a memory budget must be a whole number from 1 on, got {value!r}"
                )
        if total_bytes // stores < _LEAST_SHARE_BYTES:
            raise InvalidArgumentError(
                f"{total_bytes} bytes for {stores} stores are {total_bytes // stores} for each, "
                f"and no store works with less than {_LEAST_SHARE_BYTES}; make the budget larger"
            )
        self._total_bytes = total_bytes
        self._stores = stores
        self._open = 0
        self._lock = Lock()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Have no engine, in a forked child: those that had joined are the parent's (ENG-37)."""
        self._lock = Lock()
        self._open = 0

    @property
    def total_bytes(self) -> int:
        """What all stores have together."""
        return self._total_bytes

    @property
    def stores(self) -> int:
        """How many may be open at the same time."""
        return self._stores

    @property
    def open_stores(self) -> int:
        """How many are open."""
        return self._open

    @property
    def cache_bytes(self) -> int:
        """What one store's own cache may have."""
        return self._total_bytes // 4 // self._stores

    @property
    def engine_bytes(self) -> int:
        """What one engine that shares nothing may have."""
        return self.pool_bytes // self._stores

    @property
    def pool_bytes(self) -> int:
        """What all engines that share everything may have together."""
        return self._total_bytes - self._total_bytes // 4

    def join(self, *, least_bytes: int = 0) -> "MemoryShare":
        """Count an engine that is being opened; its owner releases the share when it is closed.

        Raises:
            MemoryBudgetExceededError: As many stores are open as there may be, or `engine_bytes`
                are less than the *least_bytes* that this engine needs.
        """
        if self.engine_bytes < least_bytes:
            raise MemoryBudgetExceededError(
                f"an engine needs {least_bytes} bytes at least, and has {self.engine_bytes} of "
                f"{self!r}; make the budget larger, or for fewer stores"
            )
        with self._lock:
            if self._open == self._stores:
                raise MemoryBudgetExceededError(
                    f"{self!r} has as many open stores as it is for; close one, or make the budget "
                    "for more"
                )
            self._open += 1
        return MemoryShare(self)

    def leave(self) -> None:
        """Count one engine fewer; called by `MemoryShare.release`."""
        with self._lock:
            self._open -= 1

    def __repr__(self) -> str:
        return f"MemoryBudget({self._total_bytes}, stores={self._stores})"


@dataclass(slots=True)
class MemoryShare:
    """The place of one open engine in a budget."""

    budget: MemoryBudget
    """The budget."""

    _is_released: bool = field(default=False, init=False)

    def release(self) -> None:
        """Give the place up. Idempotent."""
        if not self._is_released:
            self._is_released = True
            self.budget.leave()
