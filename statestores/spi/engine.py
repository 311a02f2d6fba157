"""The engine: an ordered map of bytes that applies batches atomically (door one).

An author implements `Engine` and `EngineSnapshot`; every kind of store then works, because the
semantics above are the project's own. Read `statestores_memory` next: it is the reference.

Invariants that every engine keeps:

* keys are non-empty ``bytes`` in unsigned lexicographic order; a strict prefix sorts first (ENG-4);
* values are ``bytes``; ``b""`` is a value and differs from absence (ENG-2);
* reads may come from any thread, even while one thread applies a batch (ENG-11);
* one thread at a time calls `Engine.apply`, `Engine.ingest` and `Engine.close`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import ClassVar, Self, TypeAlias, final

from statestores.errors import CapabilityNotSupportedError
from statestores.spi.capabilities import Capabilities
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.forking import disown_after_fork, disowned, never_destroy

WriteBatch: TypeAlias = Mapping[bytes, bytes | None]
"""Changes that are applied together: a key's new value, or ``None`` to delete it.

A mapping, because a batch says at most one thing about a key."""


class EngineReader(ABC):
    """The reading half, shared by an engine and its snapshots."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value of *key*, or ``None`` when there is none (ENG-2).

        Raises:
            StoreClosedError: The engine or snapshot is closed.
            StoreCorruptedError: The stored bytes are damaged.
        """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of *keys* in their order, ``None`` where there is none (ENG-3).

        A key may occur more than once. The values need not come from one instant when another
        thread applies a batch meanwhile; on a snapshot they do.
        """
        return [self.get(key) for key in keys]

    @abstractmethod
    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Return the lowest pair with ``start <= key < stop``, or ``None`` (ENG-5).

        ``stop=None`` means no upper bound. One seek: as-of reads rest on it.
        """

    @abstractmethod
    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Return the highest pair with ``start <= key < stop``, or ``None`` (ENG-5)."""

    @abstractmethod
    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the pairs with ``start <= key < stop`` in key order (ENG-6).

        Frozen at the call, not at the first ``next``: a batch applied afterwards does not show
        up. ``reverse=True`` gives the same pairs from the highest key down. An inverted or empty
        range gives nothing. When the engine is closed while the iterator is open, the next step
        raises `StoreClosedError` (ENG-10); it never ends early as if the data were over.
        """

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[Sequence[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]] | None]:
        """Return what `scan` gives, in two parts: up to *limit* pairs, 1 or more, at once (ENG-6).

        The second part is an iterator over the others, frozen at the same call, or ``None`` where
        the first *limit* - 1 pairs were all. A short range costs no iterator this way, where an
        engine reads it in one step; this default scans.
        """
        rows = self.scan(start, stop, reverse=reverse)
        ahead = list(islice(rows, limit))
        return ahead, rows if len(ahead) == limit else None


class EngineSnapshot(EngineReader, Closing):
    """A view of an engine frozen at `Engine.snapshot`, usable from any one thread at a time."""

    @abstractmethod
    def close(self) -> None:
        """Release the view. Idempotent.

        Reads afterwards raise `StoreClosedError`, and so do the next steps of its scans (ENG-40).
        """


class Engine(EngineReader, Closing):
    """An ordered map ``bytes -> bytes`` that applies batches atomically."""

    name: ClassVar[str]
    """The name under which the backend is registered."""

    capabilities: ClassVar[Capabilities]
    """What the engine promises beyond this contract."""

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Make an engine that a forked child lets go of."""
        engine = super().__new__(cls)
        disown_after_fork(engine)
        return engine

    @final
    def disown(self) -> None:
        """Refuse every call from now on, in a forked child; the parent's engine goes on (ENG-37).

        What is only in memory stays usable: the child has a copy of its own (ENG-43).
        """
        if self.capabilities.persistent:
            never_destroy(self)
            self.__class__ = disowned(type(self))

    @classmethod
    @abstractmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        """Open the engine in the directory *path*, creating both when they are missing (ENG-1).

        *options* are the backend's own; values may be strings, as they arrive from Spark and from
        the command line. A persistent engine takes an exclusive lock for its lifetime.

        Raises:
            InvalidOptionError: An option is unknown or unreadable (ENG-13).
            StoreClosedError: This process was forked from one that had used the driver, whose
                threads stayed there (ENG-44).
            StoreLockedError: The directory is open elsewhere; the message names the owner's
                process id and host, and since when (ENG-1).
            StoreCorruptedError: The files are damaged (ENG-14). Nothing is repaired or removed.
            StorageError: The directory cannot be created, read or written.
        """

    @abstractmethod
    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply all of *batch*, or nothing, whatever dies in between (ENG-7).

        When it returns, every later read sees the batch and *durability* holds (ENG-8). When it
        raises, no read sees any of it, now or after reopening (ENG-16). An empty batch is not an
        error; with `Durability.POWER_LOSS` it still makes earlier batches durable.

        Raises:
            StoreClosedError: The engine is closed.
            CapabilityNotSupportedError: `Durability.POWER_LOSS` is asked of a persistent engine
                that does not declare ``durable_commit``.
            StorageError: The disk is full, read-only, or failed.
        """

    @abstractmethod
    def snapshot(self) -> EngineSnapshot:
        """Return a read-only view frozen at this call (ENG-9). The caller closes it."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether `close` has not been called."""

    @abstractmethod
    def close(self) -> None:
        """Close the engine and release its lock (ENG-10). Idempotent.

        Open iterators and snapshots end with `StoreClosedError` at their next step.
        """

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Estimate the number of keys with ``start <= key < stop``.

        The estimate may count keys that have been overwritten or deleted and not yet compacted.
        This default counts, and is exact.
        """
        return sum(1 for _ in self.scan(start, stop))

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Copy the engine's present state into the new directory *path*.

        Directories above it that are missing are made (ENG-45).

        Requires: ``capabilities.native_checkpoint``.

        Raises:
            CapabilityNotSupportedError: The engine does not promise it.
            InvalidArgumentError: There is something at *path* already (ENG-41).
        """
        raise CapabilityNotSupportedError(
            f"the {self.name!r} backend has no native checkpoint; export a snapshot instead"
        )

    @classmethod
    def driver(cls) -> str | None:
        """Return what reads and writes the files, with its version, such as ``rocksdict 0.3.29``.

        A copy of the files is opened by the same one only (SNP-28). ``None``, the default, says
        that nobody should rely on the files of a `checkpoint` but whoever made it.
        """
        return None

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Load *pairs*, strictly ascending by key, atomically; later pairs replace stored ones.

        Requires: ``capabilities.bulk_ingest``. Durable as `Durability.POWER_LOSS`.

        Raises:
            CapabilityNotSupportedError: The engine does not promise it.
            InvalidArgumentError: The keys do not ascend; nothing is loaded.
        """
        raise CapabilityNotSupportedError(
            f"the {self.name!r} backend has no bulk ingestion; apply sorted batches instead"
        )
