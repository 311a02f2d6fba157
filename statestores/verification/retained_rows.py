"""The rows of a window or session store, and that each has its name in the index (LAY-20)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zlib import crc32

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.semantics.retained.name_groups import GROUP_KEY_BYTES, is_group, unpack_names
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.retained.rows import RetainedRows, index_time
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import (
    DATA,
    END,
    FORMAT_ROW,
    GROUPED_FORMAT_VERSION,
    HISTORY,
    pack_format_version,
)
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi.engine import EngineReader
from statestores.spi.session_specification import Session
from statestores.spi.window_specification import Window
from statestores.verification.row_walk import Problems, RowCounter

_LOOKED_UP_ROWS = 1_024
"""Rows whose counterparts are looked up together."""

_NAMES_AT_ONCE = 262_144
"""Names of groups that are in memory together."""

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


@dataclass(slots=True)
class _Groups:
    """What was counted of the groups in the index."""

    count: int = 0
    names: int = 0


def check_retained(
    reader: EngineReader,
    specification: Window[Any, Any] | Session[Any, Any],
    problems: Problems,
    counted: RowCounter,
) -> None:
    """Check rows and index, each against the other.

    Memory is that of a chunk of rows, and of some names.
    """
    try:
        progress = read_retained_progress(reader)
    except StateStoreError as error:
        problems.add(f"{error} (LAY-21)")
        return  # nothing can be said of rows whose stream time is not known
    if not progress.cursor.startswith(HISTORY):
        problems.add(f"the cursor {progress.cursor!r} is no key of the index (LAY-21)")
    is_session = isinstance(specification, Session)
    has_number = not isinstance(specification, Window) or specification.retain_duplicates
    horizon_ms = progress.stream_time_ms - specification.retention_ms
    form = _Form(RetainedRows(has_number=has_number), is_session, progress)
    groups = _Groups()
    index = counted.through(reader.scan(HISTORY, END))
    for index_key in _without_counterpart(
        reader, _in_index(index, form, problems, groups), form.rows.indexed_key
    ):
        if index_time(index_key) > horizon_ms:
            problems.add(f"the index row {index_key!r} stands for a row that is not there (LAY-20)")
    if groups.count:
        _check_format(reader, progress, problems)
    for data_key in _nameless(reader, form, problems, counted, groups.names):
        problems.add(f"the row {data_key!r} has no name in the index (LAY-20)")
    if progress.stream_time_ms == NO_STREAM_TIME and counted.rows:
        problems.add("there are rows, and the stream time says that there were none (LAY-21)")


def _nameless(
    reader: EngineReader, form: _Form, problems: Problems, counted: RowCounter, names: int
) -> Iterator[bytes]:
    """Yield the keys of rows that the index does not name; its groups have so many *names*.

    The rows are walked as often as the names need, so that few of them are in memory at a time.
    """
    passes = names // _NAMES_AT_ONCE + 1
    for number in range(passes):
        rows = reader.scan(DATA, HISTORY)
        if number == 0:
            rows = counted.through(rows)
        keys = _well_formed(rows, form, problems if number == 0 else Problems())
        named = _named(reader, form.progress, passes, number) if names else set()
        alone = (
            key
            for key in keys
            if (passes == 1 or crc32(key) % passes == number) and key not in named
        )
        yield from _without_counterpart(reader, alone, form.rows.index_key)


def _check_format(reader: EngineReader, progress: RetainedProgress, problems: Problems) -> None:
    """Check what is true of a store that has groups."""
    if reader.get(FORMAT_ROW) != pack_format_version(GROUPED_FORMAT_VERSION):
        problems.add(
            f"the index has groups, and the format is not {GROUPED_FORMAT_VERSION} (LAY-2)"
        )
    if progress.gone:
        packed = reader.get(progress.cursor) if is_group(progress.cursor) else None
        if packed is None:
            problems.add(
                f"{progress.gone} names are gone of the group {progress.cursor!r}, and there is "
                "none (LAY-21)"
            )


def _named(
    reader: EngineReader, progress: RetainedProgress, passes: int, number: int
) -> set[bytes]:
    """Return the names in groups that are those of the pass with *number*.

    Names that are gone do not count: no commit looks at them again.
    """
    named: set[bytes] = set()
    for index_key, packed in reader.scan(HISTORY, END):
        if is_group(index_key):
            with suppress(StoreCorruptedError):  # which was told when the index was looked at
                names = unpack_names(index_key, packed)
                if index_key == progress.cursor:
                    names = names[progress.gone :]
                named.update(
                    names
                    if passes == 1
                    else (name for name in names if crc32(name) % passes == number)
                )
    return named


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
    index: Iterable[tuple[bytes, bytes]], form: _Form, problems: Problems, groups: _Groups
) -> Iterator[bytes]:
    """Yield the keys of *index* that can stand for a row; check and count the groups."""
    cursor = form.progress.cursor
    for index_key, held in index:
        if index_key < cursor:
            problems.add(f"the index row {index_key!r} is below the cursor {cursor!r} (LAY-21)")
        if is_group(index_key):
            groups.count += 1
            groups.names += _check_group(index_key, held, form, problems)
            continue
        if len(index_key) < 1 + form.rows.suffix_bytes:
            problems.add(f"the index row {index_key!r} is too short (LAY-20)")
            continue
        if held:
            problems.add(f"the index row {index_key!r} holds {held!r}, not nothing (LAY-20)")
        yield index_key


def _check_group(index_key: bytes, packed: bytes, form: _Form, problems: Problems) -> int:
    """Check a group; return how many names it has."""
    number = int.from_bytes(index_key[-8:])
    if len(index_key) != GROUP_KEY_BYTES or number >= form.progress.next_group:
        problems.add(
            f"the group {index_key!r} has a number that is not below the next one, "
            f"{form.progress.next_group} (LAY-30)"
        )
    try:
        names = unpack_names(index_key, packed)
    except StoreCorruptedError as error:
        problems.add(str(error))
        return 0
    if index_key == form.progress.cursor and form.progress.gone >= len(names):
        problems.add(
            f"{form.progress.gone} names are gone of the group {index_key!r}, which has "
            f"{len(names)}: it would have gone with the last (LAY-31)"
        )
    time_ms = index_time(index_key)
    for name in names:
        if not name.startswith(DATA) or form.malformed(name) is not None:
            problems.add(f"the group {index_key!r} names {name!r}, which is no row's key (LAY-30)")
        elif form.rows.time_of(name) > time_ms:
            problems.add(f"the group {index_key!r} names {name!r}, which expires after it (LAY-30)")
    return len(names)


def _without_counterpart(
    reader: EngineReader, keys: Iterable[bytes], counterpart: Callable[[bytes], bytes]
) -> Iterator[bytes]:
    """Yield those of *keys* whose counterpart is no key of a row."""
    waiting = iter(keys)
    while chunk := list(islice(waiting, _LOOKED_UP_ROWS)):
        found = reader.get_many([counterpart(key) for key in chunk])
        yield from (key for key, row in zip(chunk, found, strict=True) if row is None)
