"""The partitions of one store wherever they are: here, or at another instance.

Each read of a partition is asked of the instances that have it, one after the other, in the order
that `statestores.query.metadata.choice` gives; and again, after a look at who is there now, until
one answers or the time is over. What is asked again is only what can succeed later: an error that
is not retryable is the answer (SRV-7). Partitions are asked side by side (SRV-24).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from statestores.errors import InvalidStateStoreError, StateStoreError
from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.metadata.application import ApplicationMetadata, MetadataWatch
from statestores.query.metadata.choice import Candidate, Choice, choose
from statestores.query.questions import Question, RemoteStores
from statestores.query.read_terms import ANY_TERMS, ReadTerms
from statestores.query.side_by_side import SideBySide
from statestores.spi.offsets import Position
from statestores.spi.stores.store import ReadOnlyStore

S = TypeVar("S", bound=ReadOnlyStore)
T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.25

_END = object()


class RoutedPartitions(LocalPartitions[S]):
    """Finds the partitions of one store, here first if an equal is elsewhere."""

    def __init__(
        self,
        source: StoreSource,
        name: str,
        accepts: Callable[[ReadOnlyStore], bool],
        terms: ReadTerms = ANY_TERMS,
        *,
        watch: MetadataWatch,
        remote: RemoteStores,
        asking: SideBySide,
        instance: str | None,
        timeout_s: float,
    ) -> None:
        """Look for *name* in *source*, and by *remote* at the instances that *watch* knows."""
        super().__init__(source, name, accepts, terms)
        self._watch = watch
        self._remote = remote
        self._instance = instance
        self._asking = asking
        self._timeout_s = timeout_s

    # Reads of one key.

    def one(self, key: bytes, read: Callable[[S], T]) -> T:
        """Return what *read* gives of the partition that has *key*.

        Raises:
            InvalidStateStoreError, UnreachableInstanceError: No instance answers, in time.
            NotUpToBoundError: None that answers has reached the bound, in time.
            MisplacedKeyError: As `LocalPartitions.one`, by the instance that was asked.
        """
        return self._ask(
            self._home(key),
            lambda: LocalPartitions.one(self, key, read),
            lambda candidate: read(self._at(candidate, self._partition)),
        )

    def many(self, keys: Sequence[bytes], read: Callable[[S, list[int]], Sequence[T]]) -> list[T]:
        """Return what *read* gives for each of *keys*: each instance is asked once for its share.

        What an instance cannot answer is asked of others, partition by partition.

        Raises:
            StateStoreError: As `one`, of any key.
        """
        rows_of: dict[int, list[int]] = {}
        for row, key in enumerate(keys):
            rows_of.setdefault(self._home(key), []).append(row)
        if not rows_of:
            return []
        shares = self._shares(list(rows_of))
        tried = self._asking.answers(
            [partial(self._answer_share, *share, keys, rows_of, read) for share in shares]
        )
        answers: dict[int, T] = {}
        for each in tried:
            answers.update(each or {})
        failed = [
            number
            for (_, partitions), each in zip(shares, tried, strict=True)
            for number in partitions
            if each is None
        ]
        if failed:
            for again in self._asking.answers(
                [partial(self._rows_of, number, keys, rows_of[number], read) for number in failed]
            ):
                answers.update(again)
        return [answers[row] for row in range(len(keys))]

    def _answer_share(
        self,
        candidate: Candidate | None,
        partitions: list[int],
        keys: Sequence[bytes],
        rows_of: Mapping[int, list[int]],
        read: Callable[[S, list[int]], Sequence[T]],
    ) -> dict[int, T] | None:
        """Return what *candidate* answers for its share; ``None`` if others are to be asked."""
        rows = sorted(row for number in partitions for row in rows_of[number])
        try:
            return dict(zip(rows, self._read_rows(candidate, keys, rows, read), strict=True))
        except StateStoreError as error:
            if not error.retryable:
                raise
            return None

    def iterate(self, key: bytes, read: Callable[[S], Iterator[T]]) -> Iterator[T]:
        """Yield what *read* gives of the partition that has *key*.

        Raises:
            StateStoreError: As `one`, at the call; and once something was given, without asking
                another instance, since what that one has may be of another commit.
        """
        return self._ask(
            self._home(key),
            lambda: _begun(LocalPartitions.iterate(self, key, read)),
            lambda candidate: read(self._at(candidate, self._partition)),
        )

    # Reads of many keys: of every partition, wherever it is.

    def merge(
        self,
        read: Callable[[S], Iterator[T]],
        order: Callable[[T], Any],
        *,
        reverse: bool,
    ) -> Iterator[T]:
        """Yield what *read* gives of every partition, wherever it is, in one *order*.

        Raises:
            StateStoreError: As `iterate`.
        """
        parts = self._asking.answers(
            [
                partial(
                    self._of_partition,
                    number,
                    lambda local: _begun(local.merge(read, order, reverse=reverse)),
                    read,
                )
                for number in self._numbers()
            ]
        )
        return self._merged(parts, order, reverse=reverse)

    def each(self, read: Callable[[S], T]) -> list[T]:
        """Return what *read* gives of every partition, wherever it is.

        Raises:
            StateStoreError: As `one`.
        """
        return self._asking.answers(
            [
                partial(self._of_partition, number, lambda local: local.each(read)[0], read)
                for number in self._numbers()
            ]
        )

    def positions(self) -> dict[int, Position]:
        """Return the input offsets that each partition reflects, wherever it is.

        Raises:
            StateStoreError: As `one`.
        """
        return dict(zip(self._numbers(), self.each(lambda store: store.position), strict=True))

    # Whom to ask.

    def _home(self, key: bytes) -> int:
        """Return the partition in which *key* is."""
        if self._partition is not None:
            return self._partition
        return self._partition_of(key, self._partitions)

    def _numbers(self) -> list[int]:
        """Return every partition that is read."""
        return list(range(self._partitions)) if self._partition is None else [self._partition]

    def _choice(self, known: ApplicationMetadata, number: int) -> Choice:
        return choose(
            known.candidates(self._name, number, local=self._instance),
            include_stale=self._terms.include_stale,
            max_lag=self._terms.max_lag,
        )

    def _shares(self, numbers: list[int]) -> list[tuple[Candidate | None, list[int]]]:
        """Return who is asked first for which of the partitions *numbers*."""
        known = self._watch.now
        shares: dict[tuple[bool, str], tuple[Candidate | None, list[int]]] = {}
        for number in numbers:
            first = next(iter(self._choice(known, number).order), None)
            name = (False, "") if first is None else (True, first.instance)
            shares.setdefault(name, (first, []))[1].append(number)
        return list(shares.values())

    def _ask(self, number: int, here: Callable[[], T], elsewhere: Callable[[Candidate], T]) -> T:
        """Return what the first instance answers that can, of those that have partition *number*.

        Raises:
            StateStoreError: The first error that is not retryable; or, when the time is over, the
                last one.
        """
        deadline = time.monotonic() + self._timeout_s
        pause = _FIRST_PAUSE_SECONDS
        known = self._watch.now
        while True:
            choice = self._choice(known, number)
            last: StateStoreError | None = None
            for candidate in choice.order:
                try:
                    return here() if candidate.is_local else elsewhere(candidate)
                except StateStoreError as error:
                    if not error.retryable:
                        raise
                    last = error
            if time.monotonic() >= deadline:
                if last is not None:
                    raise last
                raise InvalidStateStoreError(
                    f"no instance can be asked for partition {number} of {self._name!r}: "
                    f"{choice.reasons() or 'none says that it has it'}; try again"
                )
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            with suppress(StateStoreError):  # who was there may answer still
                self._watch.look()
            known = self._watch.now

    def _of_partition(
        self, number: int, here: Callable[[LocalPartitions[S]], T], there: Callable[[S], T]
    ) -> T:
        """Return what partition *number* gives, wherever it is."""
        return self._ask(
            number,
            lambda: self._here(number, here),
            lambda candidate: there(self._at(candidate, number)),
        )

    def _at(self, candidate: Candidate, partition: int | None) -> S:
        """Return the store at *candidate*, or only *partition* of it."""
        host = candidate.host
        if host is None:
            raise InvalidStateStoreError(f"{candidate.instance!r} answers no queries")
        store: Any = self._remote.store(
            host,
            Question.on(replace(self._terms, partition=partition), self._specification),
        )
        return cast("S", store)  # of the kind that the specification says

    def _here(self, number: int, read: Callable[[LocalPartitions[S]], T]) -> T:
        """Return what *read* gives of partition *number*, which is here."""
        local: LocalPartitions[S] = LocalPartitions(
            self._source,
            self._name,
            self._accepts,
            replace(self._terms, partition=number),
        )
        return read(local)

    def _read_rows(
        self,
        candidate: Candidate | None,
        keys: Sequence[bytes],
        rows: list[int],
        read: Callable[[S, list[int]], Sequence[T]],
    ) -> Sequence[T]:
        """Return what *candidate* answers for *rows* of *keys*."""
        if candidate is None:
            raise InvalidStateStoreError(f"nobody says that they have {self._name!r}")
        if candidate.is_local:
            own = [keys[row] for row in rows]
            return LocalPartitions.many(
                self, own, lambda store, some: read(store, [rows[each] for each in some])
            )
        return read(self._at(candidate, self._partition), rows)

    def _rows_of(
        self,
        number: int,
        keys: Sequence[bytes],
        rows: list[int],
        read: Callable[[S, list[int]], Sequence[T]],
    ) -> dict[int, T]:
        """Return what whoever can answers for *rows*, which are of partition *number*."""
        found = self._ask(
            number,
            lambda: LocalPartitions.many(
                self,
                [keys[row] for row in rows],
                lambda store, some: read(store, [rows[each] for each in some]),
            ),
            lambda candidate: read(self._at(candidate, self._partition), rows),
        )
        return dict(zip(rows, found, strict=True))


def _begun(items: Iterator[T]) -> Iterator[T]:
    """Return *items*, of which the first was asked for: so an error comes at the call."""
    first = next(items, _END)

    def rest() -> Iterator[T]:
        if first is not _END:
            yield cast("T", first)
            yield from items

    return rest()
