"""An engine that is given what commits bring some time after they have returned (LGS-15).

For a store whose journal is an object store: what a commit brings is durable there before the
engine is told, and writing it to the engine takes as long as half of a put. So the commits wait
here, and reach the engine together: what they change again is written once. Invariants:

* only what the journal has waits, so the engine has whole commits, and none that the journal lacks;
* commits go in their order: no other batch is applied while one waits;
* every read sees what waits: those of single keys look here first, all others have it written;
* what could not be written goes on waiting, and whoever asked for the write is told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from threading import Lock
from typing import Final, NamedTuple, Self

from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.namespaced_rows import NamespacedRows
from statestores.spi.capabilities import Capabilities
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineSnapshot, WriteBatch
from statestores.spi.forking import renew_after_fork

MOST_COMMITS: Final = 32
"""So many commits wait at most: as many objects more are replayed after a crash."""

MOST_ROWS: Final = 10_000
"""So many rows wait at most: some 2 MiB of memory, and in one batch 10 to 20 ms of an engine."""

MOST_BYTES: Final = 1 << 20
"""So many bytes of keys and values were put at most in commits that wait."""


class _Absent:
    """Nothing waits for the key; ``None`` says that it is deleted."""


_ABSENT: Final = _Absent()


class _Waiting(NamedTuple):
    """What some commits change. It is never changed itself: readers look into it at any time."""

    rows: CommitBatch
    """The last row of each key."""

    commits: int
    """How many they are."""

    put_bytes: int
    """The bytes of keys and values that were put for them."""

    def has_room(self, batch: CommitBatch, put_bytes: int) -> bool:
        """Return whether one more commit may wait; each is small enough by itself."""
        return (
            self.commits < MOST_COMMITS
            and self.put_bytes + put_bytes <= MOST_BYTES
            and len(self.rows) + len(batch) <= MOST_ROWS
        )

    def followed_by(self, batch: CommitBatch, put_bytes: int) -> Self:
        """Return what waits after the commit of *batch*, which may be a view."""
        return type(self)(_joined(self.rows, batch), self.commits + 1, self.put_bytes + put_bytes)


_NOTHING: Final = _Waiting({}, 0, 0)


def _joined(earlier: CommitBatch, later: CommitBatch) -> CommitBatch:
    """Return the rows that either changes, the later one where both do."""
    if isinstance(later, NamespacedRows):
        if not earlier:
            return later.after(NamespacedRows({}))
        if isinstance(earlier, NamespacedRows):
            return later.after(earlier)
    # By pairs: `dict(later)` would look each key up.
    return {**dict(earlier.items()), **dict(later.items())}


class DeferringEngine(Engine):
    """Passes everything on to another engine: what is deferred later, all else at once."""

    def __init__(self, engine: Engine) -> None:
        """Take *engine* over: it is closed with this one."""
        self._engine = engine
        self._lock = Lock()  # of whoever writes, or has more wait
        self._waiting = _NOTHING
        renew_after_fork(self)

    # What waits.

    @property
    def name(self) -> str:  # type: ignore[override]  # of the engine behind
        """The name of the engine behind."""
        return self._engine.name

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # of the engine behind
        """What the engine behind promises."""
        return self._engine.capabilities

    @property
    def behind(self) -> Engine:
        """The engine that gets everything in the end."""
        return self._engine

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        raise NotImplementedError("a DeferringEngine is made of an engine that is open")

    def defer(self, batch: CommitBatch, put_bytes: int) -> None:
        """Have every later read see *batch*, and the engine when there is enough to write.

        Requires: *batch* is that of a commit which the journal has, durably, and *put_bytes* what
        was put for it.

        Raises:
            StateStoreError: As `apply`, of *batch* or of what waits already; no read sees *batch*.
        """
        if put_bytes > MOST_BYTES or len(batch) > MOST_ROWS or not self._engine.is_open:
            self.apply(batch, Durability.PROCESS_CRASH)
            return
        with self._lock:
            if not self._waiting.has_room(batch, put_bytes):
                self._write()
            self._waiting = self._waiting.followed_by(batch, put_bytes)

    def write_waiting(self) -> None:
        """Write what waits, if anything does. Any thread may call it.

        Raises:
            StateStoreError: As `apply`. It goes on waiting.
        """
        if self._waiting.commits:
            with self._lock:
                self._write()

    def _write(self) -> None:
        """Write what waits. Requires: the caller holds the lock."""
        if self._waiting.commits:
            # Perhaps again, after an interrupt; nothing else was applied in between.
            self._engine.apply(self._waiting.rows, Durability.PROCESS_CRASH)
            self._waiting = _NOTHING

    # The engine.

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        with self._lock:
            self._write()
            self._engine.apply(batch, durability)

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.write_waiting()
        self._engine.ingest(pairs)

    def get(self, key: bytes) -> bytes | None:
        row = self._waiting.rows.get(key, _ABSENT)
        return self._engine.get(key) if isinstance(row, _Absent) else row

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        find = self._waiting.rows.get
        rows = [find(key, _ABSENT) for key in keys]
        missing = [key for key, row in zip(keys, rows, strict=True) if row is _ABSENT]
        stored = iter(self._engine.get_many(missing))  # also of no keys: it may be closed
        return [next(stored) if isinstance(row, _Absent) else row for row in rows]

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        self.write_waiting()
        return self._engine.first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        self.write_waiting()
        return self._engine.last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self.write_waiting()
        return self._engine.scan(start, stop, reverse=reverse)

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[Sequence[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]] | None]:
        self.write_waiting()
        return self._engine.scan_ahead(start, stop, limit, reverse=reverse)

    def snapshot(self) -> EngineSnapshot:
        self.write_waiting()
        return self._engine.snapshot()

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        self.write_waiting()
        return self._engine.approximate_num_keys(start, stop)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.write_waiting()
        self._engine.checkpoint(path)

    def renew_after_fork(self) -> None:
        """Have a free lock, in a forked child: the engine is another copy there (ENG-43)."""
        self._lock = Lock()  # what was being written waits still, and is written again

    @property
    def is_open(self) -> bool:
        return self._engine.is_open

    def close(self) -> None:
        """Write what waits, and close the engine behind; idempotent.

        Raises:
            StateStoreError: It could not be written: the engine is closed, and the next opening
                replays what it lacks.
        """
        with self._lock:
            try:
                if self._engine.is_open:
                    self._write()
            finally:
                self._waiting = _NOTHING
                self._engine.close()
