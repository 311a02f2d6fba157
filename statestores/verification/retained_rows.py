"""The rows of a window or session store, and that each has its row in the index (LAY-20)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from statestores.errors import StateStoreError
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi.engine import EngineReader
from statestores.spi.session_specification import Session
from statestores.spi.window_specification import Window
from statestores.verification.row_walk import Problems, RowCounter

_LOOKED_UP_ROWS = 1_024
"""Rows whose counterparts are looked up together."""

_TIMES = 1 << 63
"""Above every time and every sequence."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What the key of each row must be like."""

    rows: RetainedRows
    is_session: bool
    progress: RetainedProgress

    def malformed(self, data_key: bytes) -> str | None:
        """Return what is wrong with the key of a row, in words."""
        rows = self.rows
        terminator_at = len(data_key) - rows.suffix_bytes
        if terminator_at < 1 or data_key[terminator_at : terminator_at + 2] != b"\x00\x00":
            return "has no terminator before its time (LAY-19)"
        if data_key[1:terminator_at] != escape(rows.key_of(data_key)):
            return "has a key that is not escaped (LAY-19)"
        time_ms = rows.time_of(data_key)
        number = rows.number_of(data_key) if rows.has_number else 0
        if time_ms >= _TIMES or number >= _TIMES:
            return "has a time or a sequence above the largest one (LAY-19)"
        if time_ms > self.progress.stream_time_ms:
            return (
                f"has the time {time_ms}, after the stream time {self.progress.stream_time_ms} "
                "(LAY-21)"
            )
        if self.is_session and number > time_ms:
            return f"starts at {number} and ends at {time_ms}, before that (LAY-19)"
        if rows.has_number and not self.is_session and number >= self.progress.next_sequence:
            return (
                f"has the sequence {number}, and the next one is to be "
                f"{self.progress.next_sequence} (LAY-21)"
            )
        return None


def check_retained(
    reader: EngineReader,
    specification: Window[Any, Any] | Session[Any, Any],
    problems: Problems,
    counted: RowCounter,
) -> None:
    """Check rows and index, each against the other. Memory is that of a chunk of rows."""
    try:
        progress = read_retained_progress(reader)
    except StateStoreError as error:
        problems.add(f"{error} (LAY-21)")
        return  # nothing can be said of rows whose stream time is not known
    if not progress.cursor.startswith(HISTORY):
        problems.add(f"the cursor {progress.cursor!r} is no key of the index (LAY-21)")
    is_session = isinstance(specification, Session)
    has_number = not isinstance(specification, Window) or specification.retain_duplicates
    form = _Form(RetainedRows(has_number=has_number), is_session, progress)
    rows = counted.through(reader.scan(DATA, HISTORY))
    for data_key in _without_counterpart(
        reader, _well_formed(rows, form, problems), form.rows.index_key
    ):
        problems.add(f"the row {data_key!r} has none in the index (LAY-20)")
    index = counted.through(reader.scan(HISTORY, END))
    for index_key in _without_counterpart(
        reader, _in_index(index, form, problems), form.rows.indexed_key
    ):
        problems.add(f"the index row {index_key!r} stands for a row that is not there (LAY-20)")
    if progress.stream_time_ms == NO_STREAM_TIME and counted.rows:
        problems.add("there are rows, and the stream time says that there were none (LAY-21)")


def _well_formed(
    rows: Iterable[tuple[bytes, bytes]], form: _Form, problems: Problems
) -> Iterator[bytes]:
    """Yield the keys of *rows* that have the form of one."""
    for data_key, _ in rows:
        wrong = form.malformed(data_key)
        if wrong is None:
            yield data_key
        else:
            problems.add(f"the row {data_key!r} {wrong}")


def _in_index(
    index: Iterable[tuple[bytes, bytes]], form: _Form, problems: Problems
) -> Iterator[bytes]:
    """Yield the keys of *index* that can stand for a row."""
    cursor = form.progress.cursor
    for index_key, held in index:
        if len(index_key) < 1 + form.rows.suffix_bytes:
            problems.add(f"the index row {index_key!r} is too short (LAY-20)")
            continue
        if held:
            problems.add(f"the index row {index_key!r} holds {held!r}, not nothing (LAY-20)")
        if index_key < cursor:
            problems.add(f"the index row {index_key!r} is below the cursor {cursor!r} (LAY-21)")
        yield index_key


def _without_counterpart(
    reader: EngineReader, keys: Iterable[bytes], counterpart: Callable[[bytes], bytes]
) -> Iterator[bytes]:
    """Yield those of *keys* whose counterpart is no key of a row."""
    waiting = iter(keys)
    while chunk := list(islice(waiting, _LOOKED_UP_ROWS)):
        found = reader.get_many([counterpart(key) for key in chunk])
        yield from (key for key, row in zip(chunk, found, strict=True) if row is None)
