"""The reference engine: the contract in its simplest form, with nothing on disk.

Two ideas carry it:

* *Copy on write.* Snapshots and iterators hold the content itself. A batch copies the content
  first when one of them is still around, so they are free for as long as nobody writes.
* *One lock.* A batch changes the content under it and every read of the engine takes it, so no
  thread ever sees half a batch. A forked child has a copy with a lock of its own, and takes back
  the batch that another thread was applying (ENG-43).
"""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from threading import Lock
from typing import ClassVar, Self
from weakref import WeakSet

from statestores.errors import InvalidTypeError, StoreClosedError
from statestores.spi import Capabilities, Durability, Engine, EngineSnapshot, parse_options
from statestores.spi.engine import WriteBatch
from statestores.spi.forking import renew_after_fork
from statestores_memory.content import Content
from statestores_memory.iterators import rows
from statestores_memory.options import MemoryOptions
from statestores_memory.snapshot import MemorySnapshot


class MemoryEngine(Engine):
    """An ordered map in memory, gone when it is closed.

    The path is not used: each `open` gives a store of its own, even at the same path, and there is
    no lock to take. Every commit is as durable as the process.

    >>> with MemoryEngine.open("anywhere") as engine:
    ...     engine.apply({b"b": b"2", b"a": b"1"}, Durability.PROCESS_CRASH)
    ...     print(engine.get(b"a"), engine.get(b"c"), list(engine.scan(b"", b"b")))
    b'1' None [(b'a', b'1')]
    """

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self) -> None:
        self._content = Content([], {})
        self._sharers: WeakSet[object] = WeakSet()
        """The living snapshots and iterators of the present content."""
        self._lock = Lock()
        self._open = True
        renew_after_fork(self)

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        parse_options(MemoryOptions, options)
        return cls()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            return self._readable().values.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._lock:
            return list(map(self._readable().values.get, keys))

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        with self._lock:
            content = self._readable()
            bounds = content.bounds(start, stop)
            return content.pair(bounds[0]) if bounds else None

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        with self._lock:
            content = self._readable()
            bounds = content.bounds(start, stop)
            return content.pair(bounds[-1]) if bounds else None

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            scan = rows(self, self._readable(), start, stop, reverse=reverse)
            self._sharers.add(scan)
            return scan

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self.check_open()
        _check_bytes(batch)
        with self._lock:
            content = self._readable()
            if not self._sharers:
                content.update(batch)
                return
            content = content.copy()
            content.update(batch)
            self._content = content
            self._sharers = WeakSet()  # last: a forked child must not change what is shared

    def snapshot(self) -> EngineSnapshot:
        with self._lock:
            snapshot = MemorySnapshot(self, self._readable())
            self._sharers.add(snapshot)
            return snapshot

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        with self._lock:
            return len(self._readable().bounds(start, stop))

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._content = Content([], {})

    def renew_after_fork(self) -> None:
        """Have a free lock and whole batches, in a forked child (ENG-43)."""
        self._lock = Lock()
        self._content.undo()

    def check_open(self) -> None:
        """Raise `StoreClosedError` when the engine has been closed."""
        if not self._open:
            raise StoreClosedError("the memory engine is closed, and its content is gone")

    def _readable(self) -> Content:
        """Return the present content. Requires: the lock."""
        self.check_open()
        return self._content


def _check_bytes(batch: WriteBatch) -> None:
    """Refuse a batch that could fail half-way: keys of other types would not sort.

    Raises:
        InvalidTypeError: A key is not bytes, or a value neither bytes nor ``None``.
    """
    for key, value in batch.items():
        if type(key) is not bytes:
            raise InvalidTypeError(f"a key must be bytes, got {key!r}")
        if value is not None and type(value) is not bytes:
            raise InvalidTypeError(f"the value of {key!r} must be bytes or None, got {value!r}")
