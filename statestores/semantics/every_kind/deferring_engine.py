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


MOST_LAYERS: Final = 2
"""Who reads single keys joins more. Each takes a read 0.15 us longer, and a thousand reads between
two commits as long as joining; a commit that nobody reads after should not pay for it."""


class _Absent:
    """Nothing waits for the key; ``None`` says that it is deleted."""


_ABSENT: Final = _Absent()


class _Waiting(NamedTuple):
    """What some commits change. It is never changed itself: readers look into it at any time.

    Nothing is done with a commit while it waits. Joining many at once takes half of joining each to
    those before: what was put long ago is no longer in the processor's cache.
    """

    layers: tuple[CommitBatch, ...] = ()
    """Batches, the latest first. Of a key the first that has it says what the row is."""

    rows: int = 0
    """How many rows they have, each by itself."""

    commits: int = 0
    """How many commits they are."""

    put_bytes: int = 0
    """The bytes of keys and values that were put for them."""

    def followed_by(self, batch: CommitBatch, put_bytes: int) -> "_Waiting":
        """Return what waits after the commit of *batch*."""
        layers = (batch, *self.layers)
        rows, put_bytes = self.rows + len(batch), self.put_bytes + put_bytes
        return _Waiting(layers, rows, self.commits + 1, put_bytes)

    def joined(self) -> "_Waiting":
        """Return the same as one layer, with one row for each key."""
        if len(self.layers) < 2:  # noqa: PLR2004  # there is nothing to be joined
            return self
        rows = _joined(self.layers[::-1])
        return self._replace(layers=(rows,), rows=len(rows))


_NOTHING: Final = _Waiting()


def _joined(batches: Sequence[CommitBatch]) -> CommitBatch:
    """Return the rows that any of *batches* changes, of each key that of the last one."""
    views = [batch for batch in batches if isinstance(batch, NamespacedRows)]
    if len(views) == len(batches):
        return NamespacedRows.joined(views)
    rows: dict[bytes, bytes | None] = {}
    for batch in batches:
        rows.update(batch.items())  # by pairs: a batch itself would be asked for each key
    return rows


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
        was put for it. Nobody changes it any more.

        Raises:
            StateStoreError: As `apply`, of *batch* or of what waits already; no read sees *batch*.
        """
        rows = len(batch)
        if put_bytes > MOST_BYTES or rows > MOST_ROWS or not self._engine.is_open:
            self.apply(batch, Durability.PROCESS_CRASH)
            return
        with self._lock:
            if self._waiting.rows + rows > MOST_ROWS:
                self._waiting = self._waiting.joined()
            waiting = self._waiting
            if (
                waiting.commits >= MOST_COMMITS
                or waiting.put_bytes + put_bytes > MOST_BYTES
                or waiting.rows + rows > MOST_ROWS
            ):
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
            self._waiting = waiting = self._waiting.joined()
            (rows,) = waiting.layers
            # Perhaps again, after an interrupt; nothing else was applied in between.
            self._engine.apply(rows, Durability.PROCESS_CRASH)
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
        layers = self._waiting.layers
        if len(layers) > MOST_LAYERS:
            layers = self._few_layers()
        for rows in layers:
            row = rows.get(key, _ABSENT)
            if not isinstance(row, _Absent):
                return row
        return self._engine.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        rows: list[bytes | _Absent | None] = [_ABSENT] * len(keys)
        for batch in reversed(self._few_layers()):
            find = batch.get
            rows = [find(key, row) for key, row in zip(keys, rows, strict=True)]
        missing = [key for key, row in zip(keys, rows, strict=True) if row is _ABSENT]
        stored = iter(self._engine.get_many(missing))  # also of no keys: it may be closed
        return [next(stored) if isinstance(row, _Absent) else row for row in rows]

    def _few_layers(self) -> tuple[CommitBatch, ...]:
        """Return the layers that wait: one, where there were many, if nobody has the lock."""
        if len(self._waiting.layers) > MOST_LAYERS and self._lock.acquire(blocking=False):
            try:
                self._waiting = self._waiting.joined()
            finally:
                self._lock.release()
        return self._waiting.layers

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
