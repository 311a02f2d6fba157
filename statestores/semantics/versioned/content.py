"""Everything that a versioned store holds, as changes in key and time order (COM-17).

Latest rows and history rows are each sorted by key, so one walk over both suffices. The history
lies newest first; the versions of a key are turned round in memory, or, when there are very many,
read once more from the other end.
"""

from collections.abc import Iterator
from itertools import islice

from statestores.semantics.rows.content_chunks import FIRST_CHUNK_ROWS, next_chunk_rows
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.versioned.rows import (
    SUFFIX_BYTES,
    Version,
    history_bounds,
    read_history,
    read_latest,
)
from statestores.spi.engine import EngineReader
from statestores.spi.records import Changes

_TURNED_ROWS = 65_536
"""Versions of one key to turn round in memory."""


def version_chunks(reader: EngineReader, horizon_ms: int) -> Iterator[Changes]:
    """Yield the versions that a read can still find, in chunks.

    Superseded versions that ended by *horizon_ms* are left out, and so are latest deletions below
    it: no read tells them from nothing.
    """
    versions = _versions(reader, horizon_ms)
    count = FIRST_CHUNK_ROWS
    while chunk := list(islice(versions, count)):
        values = [version.value for _, version in chunk]
        count = next_chunk_rows(len(chunk), sum(map(len, filter(None, values))))
        yield Changes(
            [key for key, _ in chunk], values, [version.valid_from_ms for _, version in chunk]
        )


def _versions(reader: EngineReader, horizon_ms: int) -> Iterator[tuple[bytes, Version]]:
    """Yield key and version in key and time order."""
    superseded = _Superseded(reader, horizon_ms)
    for row_key, row in reader.scan(DATA, HISTORY):
        key = row_key[1:]
        for version in superseded.of(key):
            yield key, version
        latest = read_latest(row)
        if latest.value is not None or latest.valid_from_ms >= horizon_ms:
            yield key, latest


class _Superseded:
    """The history rows, key by key."""

    def __init__(self, reader: EngineReader, horizon_ms: int) -> None:
        self._reader = reader
        self._horizon_ms = horizon_ms
        self._rows = reader.scan(HISTORY, END)
        self._row = next(self._rows, None)

    def of(self, key: bytes) -> Iterator[Version]:
        """Return the superseded versions of *key*, oldest first. Call with ascending keys."""
        prefix = HISTORY + escape(key)
        rows = []
        while self._row is not None and (found := self._row[0][:-SUFFIX_BYTES]) <= prefix:
            if found == prefix:  # else: rows of a key that is gone, which have expired
                rows.append(self._row)
                if len(rows) > _TURNED_ROWS:
                    return self._from_the_other_end(key)
            self._row = next(self._rows, None)
        rows.reverse()
        return self._living(iter(rows))

    def _from_the_other_end(self, key: bytes) -> Iterator[Version]:
        """Return the same, reading each row twice instead of keeping it."""
        start, stop = history_bounds(key)
        self._rows = self._reader.scan(stop, END)
        self._row = next(self._rows, None)
        return self._living(self._reader.scan(start, stop, reverse=True))

    def _living(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[Version]:
        """Yield the versions of *rows* that have not expired, markers left out."""
        for row_key, row in rows:
            version = read_history(row_key, row)
            end = version.valid_to_ms
            if end is not None and end > self._horizon_ms and end != version.valid_from_ms:
                yield version
