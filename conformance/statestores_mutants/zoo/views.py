"""Engines whose snapshots move, and whose closing is not an end."""

from collections.abc import Callable, Iterator, Sequence

from statestores.errors import StorageError, StoreClosedError
from statestores.spi import EngineSnapshot
from statestores_memory.content import Content
from statestores_memory.snapshot import MemorySnapshot
from statestores_mutants.file_engine import FileEngine
from statestores_mutants.registry import mutant

Pair = tuple[bytes, bytes]


class _SnapshotEngine(FileEngine):
    """A sound engine that takes snapshots of the class `kind`."""

    kind: Callable[[FileEngine, Content], MemorySnapshot] = MemorySnapshot

    def snapshot(self) -> EngineSnapshot:
        with self._lock:
            snapshot = type(self).kind(self, self._readable())
            self._sharers.add(snapshot)
            return snapshot


class _LiveSnapshot(MemorySnapshot):
    def __init__(self, engine: FileEngine, content: Content) -> None:
        super().__init__(engine, content)
        self._live = engine

    def get(self, key: bytes) -> bytes | None:
        self.check_open()
        return self._live.get(key)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        self.check_open()
        return self._live.scan(start, stop, reverse=reverse)


@mutant("ENG-9")
class SnapshotIsLive(_SnapshotEngine):
    """Point reads and scans of a snapshot see later batches.

    Imitates a second connection that was opened for reading without a transaction.
    """

    kind = _LiveSnapshot


class _SnapshotWithLiveGetMany(MemorySnapshot):
    def __init__(self, engine: FileEngine, content: Content) -> None:
        super().__init__(engine, content)
        self._live = engine

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.check_open()
        return self._live.get_many(keys)


@mutant("ENG-9")
class SnapshotForgetsItselfInGetMany(_SnapshotEngine):
    """`get_many` of a snapshot reads the engine; every other read is frozen.

    Imitates a multi-get to which nobody passed the read options with the snapshot.
    """

    kind = _SnapshotWithLiveGetMany


class _EverlastingSnapshot(MemorySnapshot):
    def close(self) -> None:
        """Stay."""


@mutant("ENG-22")
class ClosedSnapshotStillReads(_SnapshotEngine):
    """A snapshot answers after it was closed.

    Imitates a handle that the garbage collector frees some day: memory read after its release.
    """

    kind = _EverlastingSnapshot


class _SnapshotOfOnce(MemorySnapshot):
    def close(self) -> None:
        if self._content is None:
            raise StorageError("the snapshot was released already")
        super().close()


@mutant("ENG-9", "ENG-10")
class SnapshotCannotBeClosedTwice(_SnapshotEngine):
    """Closing a snapshot a second time is an error.

    Imitates a driver's release call without a guard.
    """

    kind = _SnapshotOfOnce


@mutant("ENG-10")
class ClosingTwiceIsAnError(FileEngine):
    """The second `close` of an engine raises.

    Imitates KAFKA-20753, where the second closing found what the first had removed.
    """

    def close(self) -> None:
        if not self.is_open:
            raise StorageError("the engine was closed already")
        super().close()


@mutant("ENG-10")
class ScanGoesOnAfterClose(FileEngine):
    """A scan left open gives its pairs after the engine was closed.

    Imitates pairs that were read ahead: data of a store that somebody else may own by now.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return iter(list(super().scan(start, stop, reverse=reverse)))


@mutant("ENG-10")
class ScanEndsQuietlyAtClose(FileEngine):
    """A scan left open ends at `close`, as if the data were over.

    Imitates an iterator that asks "is it still valid?": half an answer that looks whole.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return _until_closed(super().scan(start, stop, reverse=reverse))


def _until_closed(rows: Iterator[Pair]) -> Iterator[Pair]:
    try:
        yield from rows
    except StoreClosedError:
        return


@mutant("ENG-10")
class ScanAtItsEndEndsQuietly(FileEngine):
    """A scan that has given its last pair ends without an error when the engine is closed.

    Imitates a check before each pair and none after the last one.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        expected = list(super().scan(start, stop, reverse=reverse))
        return self._checked(expected)

    def _checked(self, pairs: list[Pair]) -> Iterator[Pair]:
        for number, pair in enumerate(pairs):
            self.check_open()
            yield pair
            if number + 1 == len(pairs):
                return
        self.check_open()


@mutant("ENG-22")
class ClosedEngineIsEmpty(FileEngine):
    """`get` on a closed engine returns `None`.

    Imitates a closed database that looks like an empty one: a counter begins at zero again.
    """

    def get(self, key: bytes) -> bytes | None:
        return super().get(key) if self.is_open else None


@mutant("ENG-22")
class ClosedEngineAnswersWhatIsEmpty(FileEngine):
    """Calls that have nothing to do succeed on a closed engine.

    Imitates an early return in front of the check.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return super().get_many(keys) if keys else []
