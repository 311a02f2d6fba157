"""What Kafka Streams wrote is read as Kafka Streams reads it, and nothing of it is changed."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statestores.errors import InvalidArgumentError, StoreClosedError, StoreLockedError
from statestores.migration import ROW_SCHEMAS, KafkaKind, KafkaStateDirectory
from statestores.spi.offsets import Position, TopicPartition

Rows: TypeAlias = list[dict[str, Any]]
Expected: TypeAlias = dict[str, Rows]
RowsOf: TypeAlias = Callable[..., Rows]

RETENTION_MS = 600_000
"""The retention of all windows, sessions and versions of the fixtures."""

KINDS = {
    "emit-on-close": KafkaKind.TIME_FIRST_WINDOW,
    "emit-on-close-session": KafkaKind.TIME_FIRST_SESSION,
    "plain": KafkaKind.KEY_VALUE,
    "session": KafkaKind.SESSION,
    "timestamped": KafkaKind.TIMESTAMPED_KEY_VALUE,
    "versioned": KafkaKind.VERSIONED,
    "win.dow": KafkaKind.WINDOW,
    "window-duplicates": KafkaKind.WINDOW,
    "window-timestamped": KafkaKind.TIMESTAMPED_WINDOW,
}

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def without(rows: Rows, column: str) -> Rows:
    """Return *rows* without one of their columns."""
    return [{name: row[name] for name in row if name != column} for row in rows]


def in_order(rows: Rows) -> list[str]:
    """Return *rows* in an order of their own."""
    return sorted(map(repr, (sorted(row.items()) for row in rows)))


@pytest.mark.spec("MIG-9")
def test_kinds_are_told_from_the_bytes(application: Path) -> None:
    """Each store that has rows is of one kind, and the empty one can be either of two."""
    with KafkaStateDirectory(application) as state:
        kinds = {store.name: store.kind for store in state.stores()}
        empty = state.store("empty").kinds

    assert kinds == {**KINDS, "empty": None}
    assert empty == {KafkaKind.KEY_VALUE, KafkaKind.VERSIONED}


@pytest.mark.spec("MIG-11")
@pytest.mark.parametrize("store", ["plain", "timestamped", "emit-on-close"])
def test_rows_are_those_that_kafka_streams_reads(
    application: Path, expected: Expected, store: str, rows_of: RowsOf
) -> None:
    """Key-value stores, and time-first windows of which none has expired."""
    rows = without(rows_of(application, store), "sequence")

    assert in_order(rows) == in_order(expected[store])


@pytest.mark.spec("MIG-11")
@pytest.mark.parametrize("store", ["win.dow", "window-timestamped", "window-duplicates"])
def test_windows_are_those_that_kafka_streams_reads(
    application: Path, expected: Expected, store: str, rows_of: RowsOf
) -> None:
    """Of the windows on disk, those that have not expired."""
    rows = rows_of(application, store)
    horizon = max(row["window_start"] for row in rows) - RETENTION_MS
    live = [row for row in rows if row["window_start"] > horizon]

    assert in_order(without(live, "sequence")) == in_order(expected[store])


def test_duplicates_have_the_numbers_of_their_puts(application: Path, rows_of: RowsOf) -> None:
    """Sequence numbers start at 1, and no two rows of a window have the same."""
    rows = rows_of(application, "window-duplicates")
    numbers = [row["sequence"] for row in rows]

    assert min(numbers) >= 1
    assert len(set(numbers)) == len(numbers)
    assert {row["sequence"] for row in rows_of(application, "win.dow")} == {0}


@pytest.mark.spec("MIG-11")
@pytest.mark.parametrize(
    ("store", "retention_ms", "deleted_ms"),
    # The highest end of the first store was that of a deletion, which has left no row.
    [("session", RETENTION_MS, 4_000), ("emit-on-close-session", 90_000, 0)],
)
def test_sessions_are_those_that_kafka_streams_reads(
    application: Path,
    expected: Expected,
    rows_of: RowsOf,
    store: str,
    retention_ms: int,
    deleted_ms: int,
) -> None:
    """Of the sessions on disk, those that have not expired."""
    rows = rows_of(application, store)
    stream_time = max(row["session_end"] for row in rows) + deleted_ms
    live = [row for row in rows if row["session_end"] > stream_time - retention_ms]

    assert in_order(live) == in_order(expected[store])
    assert len(rows) == len(live) + 1


@pytest.mark.spec("MIG-11")
def test_versions_answer_as_kafka_streams_does(
    application: Path, expected: Expected, rows_of: RowsOf
) -> None:
    """As of each time within the history, late puts and deletions included."""
    rows = rows_of(application, "versioned")
    horizon = max(row["valid_from"] for row in rows) - RETENTION_MS
    asked = [row for row in expected["versioned"] if row["as_of"] > horizon]
    answers = [
        (row["key"], row["as_of"], valid_as_of(rows, row["key"], row["as_of"])) for row in asked
    ]

    assert answers == [(row["key"], row["as_of"], row["value"]) for row in asked]
    assert len(asked) > 40


def valid_as_of(rows: Rows, key: bytes, time_ms: int) -> bytes | None:
    """Return the value of *key* as of a time."""
    found = [
        row["value"]
        for row in rows
        if row["key"] == key
        and row["valid_from"] <= time_ms
        and (row["valid_to"] is None or time_ms < row["valid_to"])
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_deletions_are_rows_of_their_own(application: Path, rows_of: RowsOf) -> None:
    """Also the one at the end of a key, which no row on disk is about."""
    rows = [row for row in rows_of(application, "versioned") if row["key"] == b"deleted-at-the-end"]

    assert [(row["value"], row["valid_to"]) for row in rows] == [
        (b"was here", rows[1]["valid_from"]),
        (None, None),
    ]


def test_a_deletion_of_nothing_is_kept(application: Path, rows_of: RowsOf) -> None:
    """A key that was only ever deleted has that one row."""
    rows = [row for row in rows_of(application, "versioned") if row["key"] == b"only-a-tombstone"]

    assert [(row["value"], row["valid_to"]) for row in rows] == [(None, None)]


@pytest.mark.spec("MIG-12")
def test_offsets_and_position(application: Path, subtests: pytest.Subtests) -> None:
    """From text files, and from the databases themselves."""
    for store in sorted(KINDS):
        with subtests.test(store=store):
            changelog = TopicPartition(f"fixture-{store}-changelog", 0)
            with KafkaStateDirectory(application) as state:
                found = state.offsets(store, 0)

            offset, topic, last = {
                "emit-on-close": (11, "emitted", 11),
                "emit-on-close-session": (15, "sessions", 11),
                "window-duplicates": (88, "input", 86),
            }.get(store, (88, "input", 88))
            assert found.changelog == {changelog: offset}
            inputs = {TopicPartition(topic, 0): last}
            has_position = found.is_closed_cleanly is None or store != "versioned"
            assert found.position == (Position(inputs) if has_position else Position())


@pytest.mark.spec("MIG-12")
def test_an_unknown_offset_is_none(application: Path) -> None:
    """The sentinel -4, in text and in the database, is not an offset."""
    with KafkaStateDirectory(application) as state:
        assert state.offsets("empty", 0).changelog == {}


def fingerprint(directory: Path) -> dict[str, tuple[str, int, int, int]]:
    """Return content, time, links and size of all files below *directory*."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory",
            path.stat().st_mtime_ns,
            path.stat().st_nlink,
            path.stat().st_ctime_ns,
        )
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.spec("MIG-10")
def test_nothing_in_the_source_changes(application: Path, rows_of: RowsOf) -> None:
    """No file is written, added, removed, touched or linked."""
    before = fingerprint(application)
    for store in KINDS:
        rows_of(application, store)
    with KafkaStateDirectory(application) as state:
        for store in KINDS:
            state.offsets(store, 0)

    assert fingerprint(application) == before


@pytest.mark.spec("MIG-10")
def test_a_source_that_cannot_be_written_is_read(older: Path, rows_of: RowsOf) -> None:
    """Read rights are enough."""
    for path in [older, *older.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        rows = rows_of(older, "plain")
    finally:
        for path in [older, *older.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    assert len(rows) == 5


HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.spec("MIG-10")
def test_a_running_application_is_refused(older: Path, rows_of: RowsOf) -> None:
    """Its lock is the one that Java takes; once it has stopped, its directory can be read."""
    (older / ".lock").touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(older / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match="is running"):
            KafkaStateDirectory(older)
        process.communicate()

    assert len(rows_of(older, "plain")) == 5


def test_an_uncertain_kind_has_to_be_said(application: Path) -> None:
    """The message names the kinds that are possible."""
    with KafkaStateDirectory(application) as state:
        with pytest.raises(InvalidArgumentError, match="can be: key-value, versioned"):
            state.read("empty", 0)

        assert list(state.read("empty", 0, kind=KafkaKind.VERSIONED)) == []


def test_an_impossible_kind_is_refused(application: Path) -> None:
    """Rows are never read as what they are not."""
    with (
        KafkaStateDirectory(application) as state,
        pytest.raises(InvalidArgumentError, match="cannot be of the kind 'session'"),
    ):
        state.read("win.dow", 0, kind=KafkaKind.SESSION)


def test_batches_have_the_columns_of_the_kind(application: Path) -> None:
    """A reader knows the schema before the first batch."""
    with KafkaStateDirectory(application) as state:
        for store, kind in KINDS.items():
            assert {batch.schema for batch in state.read(store, 0)} == {ROW_SCHEMAS[kind]}


def test_the_state_directory_above_will_do(older: Path) -> None:
    """With one application in it there is no doubt."""
    with KafkaStateDirectory(older.parent) as state:
        assert state.path == older
        assert state.application_id == "fixture"


def test_a_closed_directory_is_closed(older: Path) -> None:
    """No call reads from it."""
    state = KafkaStateDirectory(older)
    state.close()
    state.close()

    with pytest.raises(StoreClosedError, match="is closed"):
        state.stores()
