"""Key-value stores that write and read wrongly."""

from collections.abc import Iterable, Iterator

from statestores.errors import InvalidArgumentError, StoreClosedError
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.namespaced_rows import without_namespace
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

Pairs = Iterator[tuple[bytes, bytes]]


@mutant("KVS-7")
class RangeExcludesItsEnd(EngineKeyValueStore):
    """`range` does not give the pair at *last*.

    Imitates half-open ranges, which every driver has, under the inclusive name.
    """

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Pairs:
        pairs = super().range(first, last, reverse=reverse)
        return pairs if last is None else (pair for pair in pairs if pair[0] != last)


@mutant("KVS-7")
class RangeEndsAboveItsEnd(EngineKeyValueStore):
    """`range` gives the extensions of *last* as well.

    Imitates an upper bound that was made with ``last + ff``.
    """

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Pairs:
        inverted = first is not None and last is not None and type(last) is bytes and first > last
        if last is None or type(last) is not bytes or inverted:
            return super().range(first, last, reverse=reverse)
        return super().range(first, last + b"\xff", reverse=reverse)


@mutant("KVS-18")
class InvertedRangeIsRefused(EngineKeyValueStore):
    """An inverted range of keys is an error.

    Imitates a check that is right for times: bounds of keys are often data.
    """

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Pairs:
        pairs = super().range(first, last, reverse=reverse)
        if first is not None and last is not None and first > last:
            raise InvalidArgumentError(f"first must not be above last, got {first!r} and {last!r}")
        return pairs


@mutant("KVS-8")
class ReverseTurnsTheBoundsRound(EngineKeyValueStore):
    """With `reverse=True`, *first* is the upper bound.

    Imitates iterators whose arguments say where to begin (Kafka's `reverseRange` was misread so).
    """

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Pairs:
        if reverse and first is not None and last is not None:
            first, last = last, first
        return super().range(first, last, reverse=reverse)


@mutant("KVS-9")
class PrefixScanMatchesTheNextPrefix(EngineKeyValueStore):
    """The scan of a prefix that ends in ff gives the key above it too.

    Imitates Kafka's `Bytes.increment`: above ``01 ff`` comes ``02 00``, and ``02`` lies between
    (and quixio/quix-streams #1122: a prefix deleted the keys of its siblings).
    """

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Pairs:
        pairs = super().prefix_scan(prefix, reverse=reverse)
        if not prefix.strip(b"\xff") or not prefix.endswith(b"\xff"):
            return pairs
        number = int.from_bytes(prefix, "big") + 1
        above = number.to_bytes(len(prefix), "big")
        return self._scan(DATA + prefix, DATA + above, reverse=reverse)


@mutant("KVS-9")
class PrefixScanLosesHighBytes(EngineKeyValueStore):
    """A prefix scan does not give keys that go on with ff ff.

    Imitates ``prefix + ff`` as the upper bound.
    """

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Pairs:
        pairs = super().prefix_scan(prefix, reverse=reverse)
        return (pair for pair in pairs if pair[0] < prefix + b"\xff\xff")


@mutant("KVS-9")
class EmptyPrefixMatchesNothing(EngineKeyValueStore):
    """The scan of the empty prefix is empty.

    Imitates `if not prefix: return`.
    """

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Pairs:
        pairs = super().prefix_scan(prefix, reverse=reverse)
        return pairs if prefix else iter(())


@mutant("KVS-12")
class BufferIsNotMergedInReverse(EngineKeyValueStore):
    """Reverse ranges give committed pairs only.

    Imitates a merge that was written for one direction.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        pairs = super()._scan(start, stop, reverse=reverse)
        if not reverse:
            return pairs
        return without_namespace(self._engine.scan(start, stop, reverse=True))


@mutant("KVS-12")
class PendingDeletionsDoNotHide(EngineKeyValueStore):
    """A range gives a committed pair whose deletion is pending.

    Imitates an overlay that knows values only (KAFKA-7895).
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        kept: dict[bytes, bytes | None] = {k: v for k, v in self._rows.items() if v is not None}
        whole = self._buffer.rows, self._buffer._sorted  # noqa: SLF001
        self._buffer.rows, self._buffer._sorted = kept, []  # noqa: SLF001
        try:
            return super()._scan(start, stop, reverse=reverse)
        finally:
            self._buffer.rows, self._buffer._sorted = whole  # noqa: SLF001


@mutant("KVS-12")
class PendingPairsComeLast(EngineKeyValueStore):
    """A range gives committed pairs first and pending ones then.

    Imitates two iterators that are chained and not merged.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        pending = list(self._rows)
        pairs = list(super()._scan(start, stop, reverse=reverse))
        pairs.sort(key=lambda pair: pair[0] in pending)
        return self.while_open(iter(pairs))


@mutant("KVS-11")
class IteratorSeesLaterWrites(EngineKeyValueStore):
    """A range is made when it is stepped first.

    Imitates a Python generator, and Kafka's in-memory stores.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        self.check_open()
        yield from super()._scan(start, stop, reverse=reverse)


@mutant("KVS-13")
class IteratorOfAClosedStoreEnds(EngineKeyValueStore):
    """An iterator ends quietly when its store is closed.

    Imitates "is it still valid?": half an answer that looks whole.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        pairs = super()._scan(start, stop, reverse=reverse)

        def until_closed() -> Pairs:
            try:
                yield from pairs
            except StoreClosedError:
                return

        return until_closed()


@mutant("COM-28")
class EmptyValueIsNone(EngineKeyValueStore):
    """`get` returns `None` for an empty value.

    Imitates `return value or None`.
    """

    def get(self, key: bytes) -> bytes | None:
        return super().get(key) or None


@mutant("COM-28", "KVS-1")
class EmptyKeyIsLost(EngineKeyValueStore):
    """A put of the empty key does nothing.

    Imitates `if not key: return`.
    """

    def put(self, key: bytes, value: bytes | None) -> None:
        if key != b"":
            super().put(key, value)


@mutant("COM-28", "KVS-1")
class EmptyValueDeletes(EngineKeyValueStore):
    """A put of an empty value deletes the key.

    Imitates logs in which an empty payload is a tombstone.
    """

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, None if value == b"" else value)


@mutant("KVS-2")
class PutIfAbsentLooksAtTheCommitted(EngineKeyValueStore):
    """`put_if_absent` does not see pending writes.

    Imitates a check that goes past the buffer.
    """

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if type(key) is not bytes or type(value) is not bytes:
            return super().put_if_absent(key, value)
        self.check_open()
        present = self._engine.get(DATA + key)
        if present is None:
            self.put(key, value)
        return present


@mutant("KVS-2")
class PutIfAbsentReturnsTheNewValue(EngineKeyValueStore):
    """`put_if_absent` returns the value that the key has now.

    Imitates `dict.setdefault`.
    """

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        super().put_if_absent(key, value)
        return self.get(key)


@mutant("KVS-3")
class PutAllStopsHalfWay(EngineKeyValueStore):
    """`put_all` puts entry by entry, up to the malformed one.

    Imitates a loop: KAFKA-14491's half of a write.
    """

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        pairs = as_list("entries", entries)
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            for key, value in pairs:
                self.put(key, value)
        super().put_all(pairs)


@mutant("KVS-15")
class FirstEntryWins(EngineKeyValueStore):
    """Of several entries for one key in `put_many`, the first counts.

    Imitates columns that are deduplicated.
    """

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        super().put_many(as_list("keys", keys)[::-1], as_list("values", values)[::-1])


@mutant("KVS-4")
class DeleteReturnsTheCommittedValue(EngineKeyValueStore):
    """`delete` returns what was committed, whatever is pending.

    Imitates a read that goes past the buffer.
    """

    def delete(self, key: bytes) -> bytes | None:
        super().delete(key)
        return self._engine.get(DATA + key)


@mutant("KVS-6", "COM-24")
class GetManyLooksAtTheCommitted(EngineKeyValueStore):
    """`get_many` does not see pending writes.

    Imitates a fast path to the engine's multi-get.
    """

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        listed = as_list("keys", keys)
        super().get_many(listed)
        return self._engine.get_many([DATA + key for key in listed])


@mutant("KVS-17")
class IteratorsAreReadTwice(EngineKeyValueStore):
    """`put_many` goes through its columns once to judge them, and once more to put them.

    Imitates generators that are empty the second time: nothing is put, and nobody told.
    """

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        if isinstance(keys, Iterator) and isinstance(values, Iterator):
            list(keys)
            list(values)
        super().put_many(keys, values)
