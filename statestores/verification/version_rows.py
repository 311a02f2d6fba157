"""The rows of a versioned store: of each key the versions follow each other without a gap."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from statestores.errors import StateStoreError
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME, Progress, read_progress
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    SUFFIX_BYTES,
    Version,
    key_of,
    read_history,
    read_latest,
    start_of,
)
from statestores.spi.engine import EngineReader
from statestores.spi.specification import Versioned
from statestores.verification.row_walk import Problems, RowCounter


@dataclass(frozen=True, slots=True)
class _Limits:
    """What all versions of a store must respect."""

    stream_time_ms: int
    horizon_ms: int
    floor_ms: int


def check_versions(
    reader: EngineReader,
    specification: Versioned[Any, Any],
    problems: Problems,
    counted: RowCounter,
) -> None:
    """Check latest and history rows, key by key, in one walk over both.

    Memory is that of the versions of one key.
    """
    try:
        progress = read_progress(reader)
    except StateStoreError as error:
        problems.add(f"{error} (LAY-8)")
        progress = Progress()
    horizon = progress.stream_time_ms - specification.history_retention_ms
    limits = _Limits(progress.stream_time_ms, horizon, progress.floor_ms)
    superseded = _History(counted.through(reader.scan(HISTORY, END)), problems)
    for row_key, row in counted.through(reader.scan(DATA, HISTORY)):
        key = row_key[1:]
        for orphan, versions in superseded.before(key):
            _check_key(orphan, None, versions, limits, problems)
        latest = _latest(key, row, problems)
        if latest is not None:
            _check_key(key, latest, superseded.of(key), limits, problems)
        else:
            superseded.of(key)
    for orphan, versions in superseded.rest():
        _check_key(orphan, None, versions, limits, problems)
    if limits.stream_time_ms == NO_STREAM_TIME and counted.rows:
        problems.add("there are versions, and the stream time says that there were none (LAY-8)")


def _latest(key: bytes, row: bytes, problems: Problems) -> Version | None:
    """Return the latest version in *row*, if it is one."""
    if len(row) < HEADER_BYTES:
        problems.add(f"the latest row of {key!r} has {len(row)} bytes, too few (LAY-9)")
        return None
    latest = read_latest(row)
    if latest.value is None and len(row) > HEADER_BYTES:
        problems.add(f"the latest row of {key!r} is a deletion with a value (LAY-9)")
    return latest


class _History:
    """The history rows, grouped by key, each group newest first as it is stored."""

    def __init__(self, rows: Iterator[tuple[bytes, bytes]], problems: Problems) -> None:
        self._groups = self._grouped(rows, problems)
        self._next = next(self._groups, None)

    def before(self, key: bytes) -> Iterator[tuple[bytes, list[Version]]]:
        """Yield the groups of keys below *key*, which have no latest row."""
        while self._next is not None and self._next[0] < key:
            yield self._next
            self._next = next(self._groups, None)

    def of(self, key: bytes) -> list[Version]:
        """Return the group of *key*, empty if there is none. Call with ascending keys."""
        if self._next is None or self._next[0] != key:
            return []
        group = self._next[1]
        self._next = next(self._groups, None)
        return group

    def rest(self) -> Iterator[tuple[bytes, list[Version]]]:
        """Yield the remaining groups."""
        if self._next is not None:
            yield self._next
            yield from self._groups

    @staticmethod
    def _grouped(
        rows: Iterator[tuple[bytes, bytes]], problems: Problems
    ) -> Iterator[tuple[bytes, list[Version]]]:
        current: bytes | None = None
        versions: list[Version] = []
        for row_key, row in rows:
            wrong = _malformed(row_key, row)
            if wrong is not None:
                problems.add(f"the history row {row_key!r} {wrong}")
                continue
            key = key_of(row_key)
            if key != current:
                if current is not None:
                    yield current, versions
                current, versions = key, []
            versions.append(read_history(row_key, row))
        if current is not None:
            yield current, versions


def _malformed(row_key: bytes, row: bytes) -> str | None:
    """Return what is wrong with the form of a history row, in words."""
    if len(row_key) < 1 + SUFFIX_BYTES or row_key[-SUFFIX_BYTES:-8] != b"\x00\x00":
        return "has no terminator before its time (LAY-13)"
    if row_key[1:-SUFFIX_BYTES] != escape(key_of(row_key)):
        return "has a key that is not escaped (LAY-13)"
    if start_of(row_key) < 0:
        return "has a time above the largest one (LAY-13)"
    if len(row) < HEADER_BYTES:
        return f"has a value of {len(row)} bytes, too few (LAY-14)"
    if int.from_bytes(row[:HEADER_BYTES], "big") >= DELETED and len(row) > HEADER_BYTES:
        return "is a deletion with a value (LAY-14)"
    return None


def _check_key(
    key: bytes,
    latest: Version | None,
    versions: list[Version],
    limits: _Limits,
    problems: Problems,
) -> None:
    """Check that the versions of *key*, newest first, follow each other up to *latest*."""
    following = None if latest is None else latest.valid_from_ms
    if following is not None and following > limits.stream_time_ms:
        problems.add(
            f"the latest version of {key!r} starts at {following}, after the stream time "
            f"{limits.stream_time_ms} (LAY-8)"
        )
    is_deleted = latest is not None and latest.value is None
    has_marker = False
    for version in versions:
        start, end = version.valid_from_ms, version.valid_to_ms
        if end is not None and end < limits.floor_ms:
            problems.add(
                f"the version of {key!r} at {start} ends at {end}, before the floor "
                f"{limits.floor_ms} that the vacuum trusts (LAY-8)"
            )
        if version.value is None and end == start:
            has_marker = True
            belongs = is_deleted and start == following
            if not belongs and start > limits.horizon_ms:
                problems.add(
                    f"{key!r} has the marker of a deletion at {start}, and no deletion (LAY-15)"
                )
            continue
        wrong = _wrong_end(version, following, limits)
        if wrong is not None:
            problems.add(f"the version of {key!r} at {start} ends at {end}, {wrong}")
        following = start
    if latest is not None and is_deleted and not has_marker:
        problems.add(f"the deletion of {key!r} at {latest.valid_from_ms} has no marker (LAY-15)")


def _wrong_end(version: Version, following: int | None, limits: _Limits) -> str | None:
    """Return what is wrong with the end of a superseded version, *following* being the next start.

    Expired ones may be missing, and then those before them have expired as well (LAY-16).
    """
    start, end = version.valid_from_ms, version.valid_to_ms
    if end is None or end == following:
        return None
    if end <= start:
        return "not after it began (LAY-14)"
    has_expired = end <= limits.horizon_ms
    if following is None:
        return None if has_expired else "and there is no next one (LAY-7)"
    if has_expired and end < following:
        return None
    return f"and the next one starts at {following} (LAY-14)"
