"""The partitions of one store that can be read here, found anew by each operation.

Partitions come and go while an application runs. So nothing here keeps a store between two
operations, and what closes while it is read is an `InvalidStateStoreError`, which says: ask again.

Every read of a composite store is one of the methods here, so what holds for reads is written once:
a bound is judged on the commit that is read, and a key is missed only where it is not elsewhere.
"""

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Protocol, TypeVar, cast

from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    MisplacedKeyError,
    StoreClosedError,
    UnknownStateStoreError,
)
from statestores.partitioning import partitioner_by_name, placed_elsewhere
from statestores.query.commit_bound import CommitBound
from statestores.query.read_terms import ANY_TERMS, ReadTerms
from statestores.semantics.rows.content_chunks import until_closed
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore

S = TypeVar("S", bound=ReadOnlyStore)
T = TypeVar("T")

_END = object()


class StoreSource(Protocol):
    """Where stores come from: a `statestores.tasks.TaskManager`, or something like it."""

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: There is no such store.
        """

    def unready(self, name: str) -> Mapping[int, str]:
        """Return the partitions of the store *name* that become active here, each with its state.

        Expect them from `local_stores` soon; they are not there yet.

        Raises:
            UnknownStateStoreError: There is no such store.
        """

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: There is no such store.
        """

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has, here and elsewhere.

        Raises:
            UnknownStateStoreError: There is no such store.
        """


class LocalPartitions(Generic[S]):
    """Finds the partitions of one store that are here; what a composite store is made of."""

    def __init__(
        self,
        source: StoreSource,
        name: str,
        accepts: Callable[[ReadOnlyStore], bool],
        terms: ReadTerms = ANY_TERMS,
    ) -> None:
        """Look for *name* in *source*, on *terms*.

        Raises:
            UnknownStateStoreError: There is no store of that name.
            InvalidTypeError: The bound is neither a position nor a mapping of such.
            InvalidArgumentError: The store has no such partition, or the lag is none.
            CapabilityNotSupportedError: *source* cannot judge a lag.
        """
        count = source.partition_count(name)
        partition = terms.partition
        if partition is not None and (type(partition) is not int or not 0 <= partition < count):
            raise InvalidArgumentError(
                f"{name!r} has the partitions 0 to {count - 1}, got {partition!r}"
            )
        self._source = source
        self._name = name
        self._accepts = accepts
        self._terms = terms
        self._partition = partition
        self._bound = CommitBound(source, name, count, terms.at_least, terms.max_lag)
        self._specification = source.specification(name)
        self._partitions = count
        self._partition_of = partitioner_by_name(self._specification.partitioner).partition

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""
        return self._specification

    def find(self) -> dict[int, S]:
        """Return the partitions that are here now, in their order: at least one.

        Whether they have reached a bound is judged by the reads below, not here.

        Raises:
            InvalidStateStoreError: No partition is here, or they are moving.
            UnknownStateStoreError: What is here is of another type than was asked for.
        """
        found = self._source.local_stores(self._name, include_stale=self._terms.include_stale)
        chosen: dict[int, Any] = {
            number: store
            for number, store in sorted(found.items())
            if self._partition is None or number == self._partition
        }
        if not chosen:
            self._refuse_unready(self._source.unready(self._name), {})
            wanted = "" if self._partition is None else f"partition {self._partition} of "
            raise InvalidStateStoreError(
                f"{wanted}{self._name!r} is not here now: it may have moved to another process, or "
                "is not open yet; find out where it is and try again"
            )
        for store in chosen.values():
            if not self._accepts(store):
                raise UnknownStateStoreError(
                    f"{self._name!r} is {self._specification.kind}, and was asked for as another "
                    "type"
                )
        return chosen

    def find_all(self) -> dict[int, S]:
        """Return the same, for a read of many keys: none that becomes active here may be missing.

        Raises:
            InvalidStateStoreError: One is restoring or promoting; or as `find`.
            UnknownStateStoreError: As `find`.
        """
        unready = self._source.unready(self._name)  # before: what is ready since is found
        found = self.find()
        self._refuse_unready(unready, found)
        return found

    def _refuse_unready(
        self, unready: Mapping[int, str], found: Mapping[int, S], wanted: int | None = None
    ) -> None:
        """Return if no wanted partition is *unready* and not among *found*; ``None``: any."""
        wanted = self._partition if wanted is None else wanted
        for number, state in sorted(unready.items()):
            if number not in found and wanted in (None, number):
                raise InvalidStateStoreError(
                    f"partition {number} of {self._name!r} is {state} here; try again"
                )

    def positions(self) -> dict[int, Position]:
        """Return the input offsets that each partition here reflects (QRY-8).

        Raises:
            InvalidStateStoreError: No partition is here, or one is closed meanwhile.
            NotUpToBoundError: A partition has not reached the bound.
        """
        with reading(self._name), ExitStack() as held:
            return {
                number: self._as_read(number, store, held).position
                for number, store in self.find().items()
            }

    # Reads of many keys.

    def merge(
        self,
        read: Callable[[S], Iterator[T]],
        order: Callable[[T], Any],
        *,
        reverse: bool,
    ) -> Iterator[T]:
        """Yield what *read* gives of every partition, in one *order* (QRY-3).

        Raises:
            InvalidStateStoreError: No partition is here, or one was closed before the end.
            NotUpToBoundError: A partition has not reached the bound.
        """
        with reading(self._name), ExitStack() as held:
            parts = [
                read(self._as_read(number, store, held))
                for number, store in self.find_all().items()
            ]
            return self._held(held, self._merged(parts, order, reverse=reverse))

    def _merged(
        self, parts: list[Iterator[T]], order: Callable[[T], Any], *, reverse: bool
    ) -> Iterator[T]:
        with reading(self._name):
            yield from heapq.merge(*parts, key=order, reverse=reverse)

    def each(self, read: Callable[[S], T]) -> list[T]:
        """Return what *read* gives of every partition: a value, and nothing that goes on reading.

        Raises:
            InvalidStateStoreError: No partition is here, or one is closed meanwhile.
            NotUpToBoundError: A partition has not reached the bound.
        """
        with reading(self._name), ExitStack() as held:
            return [
                read(self._as_read(number, store, held))
                for number, store in self.find_all().items()
            ]

    # Reads of one key.

    def one(self, key: bytes, read: Callable[[S], T]) -> T:
        """Return what *read* gives of the partition that has *key*; ``None`` is a miss.

        After a miss the other partitions here are asked too, since a wrong miss is the worst answer
        that there is (QRY-10).

        Raises:
            InvalidStateStoreError: The partition is not here, or is closed meanwhile.
            NotUpToBoundError: It has not reached the bound.
            MisplacedKeyError: The key is missed, and *read* gives something from another partition.
        """

        def find_in(store: S) -> bytes | None:
            return None if read(store) is None else key

        with reading(self._name), ExitStack() as held:
            found = self.find()
            number = self._place_of(key, found, find_in)
            answer = read(self._as_read(number, found[number], held))
            if answer is None:
                self._refuse_if_elsewhere(number, found, find_in)
            return answer

    def many(self, keys: Sequence[bytes], read: Callable[[S, list[int]], Sequence[T]]) -> list[T]:
        """Return what *read* gives for each of *keys*, asked once of each partition that has some.

        It is given the rows of *keys* that are in the partition, and answers in their order. So
        all answers are of one commit of it (QRY-2).

        Raises:
            InvalidStateStoreError, NotUpToBoundError, MisplacedKeyError: As `one`, of any key.
        """

        def find_of(rows: list[int]) -> Callable[[S], bytes | None]:
            def find_in(store: S) -> bytes | None:
                answers = zip(rows, read(store, rows), strict=True)
                return next((keys[row] for row, answer in answers if answer is not None), None)

            return find_in

        answers: dict[int, T] = {}
        with reading(self._name), ExitStack() as held:
            found = self.find()
            rows_of: dict[int, list[int]] = {}
            for row, key in enumerate(keys):
                rows_of.setdefault(self._place_of(key, found, find_of([row])), []).append(row)
            for number, rows in rows_of.items():
                store = self._as_read(number, found[number], held)
                answers.update(zip(rows, read(store, rows), strict=True))
                missed = [row for row in rows if answers[row] is None]
                if missed:
                    self._refuse_if_elsewhere(number, found, find_of(missed))
        return [answers[row] for row in range(len(keys))]

    def iterate(self, key: bytes, read: Callable[[S], Iterator[T]]) -> Iterator[T]:
        """Yield what *read* gives of the partition that has *key*; nothing at all is a miss.

        Raises:
            InvalidStateStoreError, NotUpToBoundError: As `one`, at the call.
            MisplacedKeyError: As `one`, at the end.
        """

        def find_in(store: S) -> bytes | None:
            items = read(store)
            try:
                return key if next(items, _END) is not _END else None
            finally:
                if isinstance(items, Generator):
                    items.close()

        def items_or_error(items: Iterator[T], number: int) -> Iterator[T]:
            with reading(self._name):
                first = next(items, _END)
                if first is _END:
                    self._refuse_if_elsewhere(number, found, find_in)
                    return
                yield cast("T", first)
                yield from items

        with reading(self._name), ExitStack() as held:
            found = self.find()
            number = self._place_of(key, found, find_in)
            items = read(self._as_read(number, found[number], held))
            return self._held(held, items_or_error(items, number))

    # Where a key is, and at which commit.

    def _place_of(
        self, key: bytes, found: Mapping[int, S], find_in: Callable[[S], bytes | None]
    ) -> int:
        """Return the partition in which to look for *key*, which is one of *found*."""
        if self._partition is not None:
            return self._partition
        number = self._partition_of(key, self._partitions)
        if number not in found:
            self._refuse_if_elsewhere(number, found, find_in)
            self._refuse_unready(self._source.unready(self._name), found, number)
            raise InvalidStateStoreError(
                f"the key {key!r} is in partition {number} of {self._name!r}, which is not here; "
                f"here: {', '.join(map(str, found))}"
            )
        return number

    def _refuse_if_elsewhere(
        self, home: int, found: Mapping[int, S], find_in: Callable[[S], bytes | None]
    ) -> None:
        """Return if none of *found* but *home*, where it was missed, has what is looked for.

        *find_in* gives a key that a partition has. A caller who names the partition knows where
        the data is, and is not contradicted: no other one is among *found*.
        """
        for number, store in found.items():
            key = None if number == home else find_in(self.of_bytes(store))
            if key is not None:
                raise MisplacedKeyError(
                    placed_elsewhere(key, self._specification, self._partitions, number)
                    + f"or read it with partition={number}"
                )

    def _held(self, held: ExitStack, items: Iterator[T]) -> Iterator[T]:
        """Return *items*; at their end everything that *held* closes is closed."""
        return until_closed(held.pop_all(), items) if self._bound.is_bounded else items

    def of_bytes(self, store: S) -> S:
        """Return *store* without its serdes: partitions are merged by the bytes of their keys."""
        inner: Any = store
        if isinstance(inner, DelegatingReadOnlyStore):
            inner = inner.store_of_bytes
        return inner  # type: ignore[no-any-return]  # of the same kind, without types

    def _as_read(self, number: int, store: S, held: ExitStack) -> S:
        """Return *store*, partition *number*, as a read sees it: of bytes, and up to the bound.

        With a bound it is frozen at one commit, which was judged. *held* closes what that takes.
        """
        return self._bound.as_read(number, self.of_bytes(store), held)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn "closed" into "not here now": the store moved while it was read (QRY-4)."""
    try:
        yield
    except StoreClosedError as error:
        raise InvalidStateStoreError(
            f"a partition of {name!r} was closed while it was read: it moves; try again"
        ) from error
