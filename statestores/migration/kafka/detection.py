"""Which kind a store is, told from its bytes where that is certain.

Kafka Streams does not write it down. Each kind that the rows cannot be is left out; only when one
remains, and rows were seen that speak for it, is that the answer.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from math import gcd
from pathlib import Path

from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.kinds import KafkaKind
from statestores.migration.kafka.layout import Segment, StorePartition
from statestores.migration.kafka.rows import (
    BASE_ROW,
    INDEX_ROW,
    SEQUENCE,
    SESSION_TAIL,
    TIME,
    TIMESTAMPED_FAMILY,
    WINDOW_TAIL,
    Pair,
    check_families,
)
from statestores.migration.kafka.versions import LATEST, SEGMENT, parse_history

_SAMPLE_ROWS = 500
"""Rows of each database that are looked at, from its beginning and from its latest versions."""

_MAX_TIME = (1 << 63) - 1

_ONE_DATABASE = frozenset({KafkaKind.KEY_VALUE, KafkaKind.VERSIONED})
_SEGMENTED = frozenset(
    {
        KafkaKind.WINDOW,
        KafkaKind.SESSION,
        KafkaKind.TIME_FIRST_WINDOW,
        KafkaKind.TIME_FIRST_SESSION,
    }
)


def possible_kinds(partitions: Iterable[StorePartition]) -> frozenset[KafkaKind]:
    """Return the kinds that a store with these *partitions* can be: one when it is certain.

    Raises:
        StoreCorruptedError, StorageError: A database cannot be read.
        UnsupportedFormatError: A newer version has written it.
    """
    possible: frozenset[KafkaKind] | None = None
    for partition in partitions:
        found = (
            _kinds_of_database(partition.database)
            if partition.database is not None
            else _kinds_of_segments(partition.segments)
        )
        possible = found if possible is None else possible & found
    return possible or frozenset()


def _kinds_of_database(path: Path) -> frozenset[KafkaKind]:
    with KafkaDatabase(path) as database:
        check_families(database, path)
        if TIMESTAMPED_FAMILY in database.families:
            return frozenset({KafkaKind.TIMESTAMPED_KEY_VALUE})
        history = list(islice(database.rows(stop=LATEST), _SAMPLE_ROWS))
        latest = list(islice(database.rows(start=LATEST), _SAMPLE_ROWS))
    if not history and not latest:
        return _ONE_DATABASE
    if not all(_is_history(row) for row in history) or not all(_is_latest(row) for row in latest):
        return frozenset({KafkaKind.KEY_VALUE})
    if history:
        # That all lengths and times of other rows fit by chance is out of the question.
        return frozenset({KafkaKind.VERSIONED})
    return _ONE_DATABASE


def _is_history(row: Pair) -> bool:
    key, value = row
    return (
        len(key) >= SEGMENT.size
        and SEGMENT.unpack_from(key)[0] >= 0
        and parse_history(value) is not None
    )


def _is_latest(row: Pair) -> bool:
    key, value = row
    return key.startswith(LATEST) and len(value) >= TIME.size and TIME.unpack_from(value)[0] >= 0


def _kinds_of_segments(segments: Sequence[Segment]) -> frozenset[KafkaKind]:
    """Return the kinds whose times are in all rows where the segments' names say."""
    interval = gcd(*(segment.start_ms for segment in segments)) or _MAX_TIME
    possible = _SEGMENTED
    for segment in segments:
        with KafkaDatabase(segment.path) as database:
            check_families(database, segment.path)
            if TIMESTAMPED_FAMILY in database.families:
                return frozenset({KafkaKind.TIMESTAMPED_WINDOW})
            rows = list(islice(database.rows(), _SAMPLE_ROWS))
        span = range(segment.start_ms, min(segment.start_ms + interval, _MAX_TIME))
        possible = frozenset(
            kind for kind in possible if all(_fits(kind, row, span) for row in rows)
        )
    return possible


def _fits(kind: KafkaKind, row: Pair, span: range) -> bool:
    """Return whether *row* can be one of *kind* in a segment of the times *span*."""
    key, value = row
    if kind is KafkaKind.WINDOW:
        if len(key) < WINDOW_TAIL.size:
            return False
        start, sequence = WINDOW_TAIL.unpack_from(key, len(key) - WINDOW_TAIL.size)
        return start in span and sequence >= 0
    if kind is KafkaKind.SESSION:
        if len(key) < SESSION_TAIL.size:
            return False
        end, start = SESSION_TAIL.unpack_from(key, len(key) - SESSION_TAIL.size)
        return end in span and 0 <= start <= end
    if key[:1] == bytes([INDEX_ROW]):
        plain = KafkaKind.WINDOW if kind is KafkaKind.TIME_FIRST_WINDOW else KafkaKind.SESSION
        return not value and _fits(plain, (key[1:], value), span)
    if key[:1] != bytes([BASE_ROW]):
        return False
    if kind is KafkaKind.TIME_FIRST_WINDOW:
        if len(key) < 1 + WINDOW_TAIL.size or len(value) < TIME.size:
            return False
        # Those stores never retain duplicates, so the sequence number is 0.
        return TIME.unpack_from(key, 1)[0] in span and not any(key[-SEQUENCE.size :])
    if len(key) < 1 + SESSION_TAIL.size:
        return False
    end, start = SESSION_TAIL.unpack_from(key, 1)
    return end in span and 0 <= start <= end
