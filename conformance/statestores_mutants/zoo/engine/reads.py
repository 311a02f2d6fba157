"""Engines that answer point reads, seeks and scans wrongly."""

from collections.abc import Iterator, Sequence

from statestores_mutants.file_engine import FileEngine
from statestores_mutants.registry import mutant

Pair = tuple[bytes, bytes]


@mutant("ENG-3")
class GetManyInKeyOrder(FileEngine):
    """`get_many` returns the values in key order, whatever the order of the question.

    Imitates `SELECT ... WHERE key IN (...)`, whose rows come as the table has them.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return super().get_many(sorted(keys))


@mutant("ENG-3")
class GetManyLeavesMissingOut(FileEngine):
    """`get_many` returns no element for a key that is missing.

    Imitates the same query: no row, no answer, and every later value moves up by one.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [value for value in super().get_many(keys) if value is not None]


@mutant("ENG-3")
class GetManyAnswersOnce(FileEngine):
    """`get_many` answers a key that is asked for twice once only.

    Imitates a multi-get that goes through a dict of its keys.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return super().get_many(list(dict.fromkeys(keys)))


@mutant("ENG-3")
class GetManyStopsAtParameterLimit(FileEngine):
    """`get_many` answers the first 32,766 keys and says that the others are missing.

    Imitates SQLITE_MAX_VARIABLE_NUMBER, met by a chunk loop that ends one chunk too early.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        answered = super().get_many(keys[:32_766])
        return answered + [None] * (len(keys) - len(answered))


@mutant("ENG-2")
class EmptyValueIsAbsent(FileEngine):
    """An empty value is returned as `None`.

    Imitates `return value or None`, and drivers whose empty slice is a null pointer.
    """

    def get(self, key: bytes) -> bytes | None:
        return super().get(key) or None


@mutant("ENG-2")
class ValuesAreBytearrays(FileEngine):
    """`get` returns a `bytearray`, which equals the value, and is neither hashable nor constant.

    Imitates a driver that hands out its own buffer (KAFKA-20749: bytes have to be preserved).
    """

    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        return None if value is None else bytearray(value)  # type: ignore[return-value]  # wrong


@mutant("ENG-5")
class FirstSkipsTheKeyItself(FileEngine):
    """`first(start)` begins above *start* and not at it.

    Imitates `WHERE key > ?`, or a seek that was written for "the next one".
    """

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return super().first(start + b"\x00" if start else start, stop)


@mutant("ENG-5")
class FirstIgnoresStop(FileEngine):
    """`first` returns the pair after the range when the range is empty.

    Imitates a bare seek: an as-of read then finds a version of the neighbour.
    """

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return super().first(start)


@mutant("ENG-5")
class LastIgnoresStop(FileEngine):
    """`last` looks for the highest key of all, and then whether it is in the range.

    Imitates `seek_to_last` in the place of `seek_for_prev`.
    """

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        found = super().last(start)
        return found if found is None or stop is None or found[0] < stop else None


@mutant("ENG-5")
class LastIncludesStop(FileEngine):
    """`last(start, stop)` returns the pair at *stop*.

    Imitates RocksDB's `seek_for_prev(stop)`, which stops at an equal key.
    """

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return super().last(start, None if stop is None else stop + b"\x00")


@mutant("ENG-6")
class ScanIncludesStop(FileEngine):
    """A scan gives the pair at *stop*.

    Imitates an upper bound passed on to a driver whose ranges are closed, such as SQL's BETWEEN.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return super().scan(start, None if stop is None else stop + b"\x00", reverse=reverse)


@mutant("ENG-6")
class ReverseScanIncludesStop(FileEngine):
    """A reverse scan begins at *stop* and not below it; forward scans are right.

    Imitates `seek_for_prev(stop)` once more: faust-streaming/faust #155 was one off at the end too.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        end = None if stop is None else stop + b"\x00"
        return super().scan(
            start, end if reverse and start < (stop or b"") else stop, reverse=reverse
        )


@mutant("ENG-6")
class ReverseScanIgnoresStart(FileEngine):
    """A reverse scan goes on below *start*.

    Imitates an iterator with an upper bound and no lower one (RocksDB's `iterate_lower_bound`).
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        begin = b"" if reverse and (stop is None or start < stop) else start
        return super().scan(begin, stop, reverse=reverse)


@mutant("ENG-6")
class ScanLosesPairAtPageEdge(FileEngine):
    """A scan reads pages of 1,000 pairs and begins each one above the pair that it left off before.

    Imitates keyset pagination that goes on after the first key of the next page.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return _without_every(1_001, super().scan(start, stop, reverse=reverse))


@mutant("ENG-6")
class ExhaustedScanBeginsAgain(FileEngine):
    """A scan that came to its end gives pairs again when a batch has added some.

    Imitates a cursor that is asked once more and looks into the live table.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return _Restarting(
            self, super().scan(start, stop, reverse=reverse), start, stop, reverse=reverse
        )


@mutant("ENG-20")
class ScanFrozenAtItsFirstStep(FileEngine):
    """A scan takes its view when it is stepped first, and not when it is made.

    Imitates a Python generator: nothing of its body runs at the call.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        yield from super().scan(start, stop, reverse=reverse)


@mutant("ENG-20")
class ScanSeesLaterBatches(FileEngine):
    """A scan looks for its next key in the present content, at every step.

    Imitates a B-tree cursor without a transaction (SQLite in one connection, LMDB after a write).
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        self.check_open()
        return self._live(start, stop, reverse=reverse)

    def _live(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Pair]:
        while (found := self.last(start, stop) if reverse else self.first(start, stop)) is not None:
            yield found
            start, stop = (start, found[0]) if reverse else (found[0] + b"\x00", stop)


@mutant("ENG-21")
class InvertedRangeIsTurnedRound(FileEngine):
    """A scan of an inverted range gives the pairs between its two ends.

    Imitates a helpful `start, stop = sorted((start, stop))`.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        if stop is not None and stop < start:
            start, stop = stop, start
        return super().scan(start, stop, reverse=reverse)


class _Restarting(Iterator[Pair]):
    """A scan that does not know its end."""

    def __init__(
        self,
        engine: FileEngine,
        rows: Iterator[Pair],
        start: bytes,
        stop: bytes | None,
        *,
        reverse: bool,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._last = start
        self._stop = stop
        self._reverse = reverse

    def __next__(self) -> Pair:
        pair = next(self._rows, None)
        if pair is None and not self._reverse:
            pair = self._engine.first(self._last + b"\x00", self._stop)
        if pair is None:
            raise StopIteration
        self._last = pair[0]
        return pair


def _without_every(number: int, rows: Iterator[Pair]) -> Iterator[Pair]:
    for place, pair in enumerate(rows, 1):
        if place % number:
            yield pair
