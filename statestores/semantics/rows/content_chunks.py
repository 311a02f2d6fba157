"""How much of a store's content is handed out at a time, and what is held meanwhile."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from statestores.semantics.rows.layout import read_offsets, read_position
from statestores.semantics.rows.progress import NO_STREAM_TIME, known_time
from statestores.spi.engine import EngineSnapshot
from statestores.spi.records import Changes
from statestores.spi.stores.store import CommittedContent

T = TypeVar("T")

FIRST_CHUNK_ROWS = 64
"""Rows of the first chunk: small, because nobody knows yet how large a row is."""

CHUNK_ROWS = 1_024
"""The most rows in a chunk. A chunk is read more than once, into lists and from them, and this many
rows of the usual size are still in the processor's cache: 65,536 take a third longer."""

CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of values that the rows of a chunk are chosen for, so that large values do not take much
memory."""


def next_chunk_rows(rows: int, size: int) -> int:
    """Return the rows of the chunk after one of *rows* rows with values of *size* bytes.

    At most twice as many, since the next values may be larger.

    >>> next_chunk_rows(64, 64 * 100), next_chunk_rows(8_192, 100), next_chunk_rows(64, 1 << 30)
    (128, 1024, 1)
    """
    fitting = CHUNK_BYTES * rows // max(size, 1)
    return max(1, min(2 * rows, CHUNK_ROWS, fitting))


def frozen_content(
    snapshot: EngineSnapshot, chunks: Iterator[Changes], stream_time: int = NO_STREAM_TIME
) -> CommittedContent:
    """Return *chunks*, which are read from *snapshot*, with what the same commit says of itself."""
    return CommittedContent(
        offsets=read_offsets(snapshot),
        position=read_position(snapshot),
        stream_time_ms=known_time(stream_time),
        changes=until_closed(snapshot, chunks),
    )


def until_closed(
    snapshot: AbstractContextManager[Any], items: Iterator[T]
) -> Generator[T, None, None]:
    """Return *items*, which are read from *snapshot*; it is closed at their end, or with them.

    Closing a generator that was never started does nothing: its ``finally`` does not run. So this
    one has been started when it is returned.
    """
    running = _holding(snapshot, items)
    next(running)
    return cast("Generator[T, None, None]", running)


def _holding(
    snapshot: AbstractContextManager[Any], items: Iterator[T]
) -> Generator[T | None, None, None]:
    with snapshot:
        yield None
        yield from items
