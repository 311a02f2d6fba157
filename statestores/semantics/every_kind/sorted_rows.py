"""Rows of an engine that were encoded elsewhere, many at a time, for `EngineStore.commit_rows`."""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.progress import NO_STREAM_TIME

_CHUNK_ROWS: Final = 1_024
"""Of so many rows one is remembered; more would cost memory, and fewer prove less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """Rows in the order of their keys, and what the store must know about them."""

    rows: Iterable[tuple[bytes, bytes | None]] = ()
    """Keys, strictly ascending, with their new values; ``None`` deletes. Read once."""

    has_deletions: bool = False
    """Whether a value is ``None``."""

    highest_ms: int = NO_STREAM_TIME
    """The highest time in the rows and in what they have overwritten: stream time is not below."""

    lowest_ms: int = MAX_TIME_MS
    """No row expires before stream time is a retention or time to live past this: the lowest
    timestamp, the lowest end of a superseded version, the lowest time of a window or session."""

    removals: int = 0
    """How many expired rows the commits after this one are to remove on top of their share, where
    this one cannot: a sorted file deletes nothing."""

    next_number: int = 0
    """Above the sequence of every retained duplicate."""


def sampled(
    rows: Iterable[tuple[bytes, bytes]], sample: MutableMapping[bytes, bytes | None]
) -> Iterator[tuple[bytes, bytes]]:
    """Pass *rows* on to an engine, and put into *sample* by which of them they are known there.

    An engine takes all of them or none, so some tell: the first 1,024, where the rows about the
    store are, and one in 1,024 of the others. They are in *sample* when all rows were passed on;
    before that, the engine cannot have them.
    """
    return chain.from_iterable(_chunks(iter(rows), sample))


def _chunks(
    rows: Iterator[tuple[bytes, bytes]], sample: MutableMapping[bytes, bytes | None]
) -> Iterator[Iterable[tuple[bytes, bytes]]]:
    """Yield *rows* in chunks, each of which must be read to its end before the next.

    No list is made of them: a pair that nobody keeps is the next one, too.
    """
    remembered = list(islice(rows, _CHUNK_ROWS))
    yield tuple(remembered)
    for row in rows:
        remembered.append(row)
        yield chain((row,), islice(rows, _CHUNK_ROWS - 1))
    sample.update(remembered)
