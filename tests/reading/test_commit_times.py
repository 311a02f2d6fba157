"""The time of a staged write: one for everything that it appends, whoever appends it, and when.

What a user saw: a DataFrame of `timestampAsOf` had the rows of a write in one partition and not
those in another, and so had one of `endingTimestamp`. Why: each append had the time at which it
was made, and those of one write are some milliseconds apart; much more, where its driver had died
and the next writer finished it. What holds: the time of the commit is noted before the write
counts, and everything of it is of that time.
"""

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from forked_programs import run
from staged_counts import (
    NEW,
    OLD,
    PARTITIONS,
    PROGRAM,
    STEPS,
    content,
    kill_after_intent,
    leftovers,
    readers,
    root_with_old,
    staged,
)

import statestores as ss
from statestores.errors import StoreCorruptedError, UnsupportedFormatError
from statestores.failpoints import arm, disarm
from statestores.reading.commit_times import offset_as_of
from statestores.reading.partition_reader import end_offsets
from statestores.staging.commit_time import COMMIT_TIME_FILE
from statestores.staging.staged_write import Mode, publish
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import staging_directory

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

APART_SECONDS = 0.003
"""Between two appends; their own times would differ."""


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with a key-value store that holds `OLD`."""
    return root_with_old(tmp_path)


@pytest.fixture
def _slow_appends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Frames of a few rows, each some milliseconds after the one before it."""
    monkeypatch.setattr("statestores.staging.staged_rows._STORED_ROWS", 2)
    monkeypatch.setattr("statestores.staging.staged_rows.BATCH_ROWS", 2)
    arm("changelog.append.before", lambda: time.sleep(APART_SECONDS))
    yield
    disarm()


def write(root: ss.StateRoot, write_id: str, mode: Mode = "append") -> list[int]:
    """Write `NEW` as two tasks; return where the partitions ended before."""
    ends = end_offsets(readers(root))
    items = list(NEW.items())
    rows = [staged(root, write_id, f"t{task}", items[task::2]) for task in range(2)]
    publish(root, "counts", write_id, rows, mode)
    return ends


def times_from(root: ss.StateRoot, ends: list[int]) -> set[int]:
    """Return the times of what all partitions have from *ends* on."""
    frames = [
        frame
        for reader, end in zip(readers(root), ends, strict=True)
        for frame in reader.commits()
        if frame.base_offset >= end
    ]
    assert len(frames) >= PARTITIONS
    return {frame.appended_at_ms for frame in frames}


def rows_as_of(root: ss.StateRoot, time_ms: int) -> dict[bytes, bytes]:
    """Return the content after the last commit at *time_ms* or earlier."""
    return {
        row["key"]: row["value"]
        for reader in readers(root)
        for batch in reader.rows(offset=offset_as_of(reader, time_ms, "p"))
        for row in batch.to_pylist()
    }


@pytest.mark.spec("LAY-37")
@pytest.mark.usefixtures("_slow_appends")
@pytest.mark.parametrize("mode", get_args(Mode))
def test_all_of_a_write_is_of_one_time(root: ss.StateRoot, mode: Mode) -> None:
    """As of the millisecond before it nothing of it is there, and as of its own all of it."""
    time.sleep(APART_SECONDS)  # it is a later one than that of what is there
    ends = write(root, "w", mode)
    (time_ms,) = times_from(root, ends)

    assert rows_as_of(root, time_ms - 1) == OLD
    assert rows_as_of(root, time_ms) == content(root) == (OLD if mode == "append" else {}) | NEW


@pytest.mark.spec("LAY-37")
@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("step", STEPS[1:])
def test_who_finishes_a_write_does_not_change_its_time(
    root: ss.StateRoot, step: str, mode: Mode
) -> None:
    """Readers see it at the same time before and after; the driver died at *step*."""
    ends = end_offsets(readers(root))
    rows = [staged(root, "w", f"t{task}", list(NEW.items())[task::2]) for task in range(2)]
    run(PROGRAM, root.path, "counts", "w", mode, step, given=pickle.dumps(rows))
    before = times_from(root, ends)
    time.sleep(APART_SECONDS)
    finish_staged_writes(root, "counts", abandoned_after_ms=0)

    assert len(before) == 1
    assert times_from(root, ends) == before
    assert leftovers(root) == set()


def test_an_intent_of_an_earlier_release_is_finished(root: ss.StateRoot) -> None:
    """It notes no time: then it is of now to readers, and of that of the appends afterwards."""
    kill_after_intent(root)
    (staging_directory(root.path / "counts") / "w" / COMMIT_TIME_FILE).unlink()
    committed_ms = time.time_ns() // 1_000_000
    time.sleep(APART_SECONDS)

    assert rows_as_of(root, committed_ms) == OLD
    assert rows_as_of(root, 1 << 62) == OLD | NEW
    finish_staged_writes(root, "counts")
    assert rows_as_of(root, committed_ms) == OLD
    assert rows_as_of(root, 1 << 62) == OLD | NEW


def test_an_earlier_release_reads_the_intent(root: ss.StateRoot) -> None:
    """It refuses fields that it does not know, and so there are none."""
    kill_after_intent(root)
    intent = json.loads((staging_directory(root.path / "counts") / "intent.json").read_text())

    assert set(intent) == {"crc32c", "finished", "format", "overwrite", "partitions", "write_id"}
    assert intent["format"] == 1
    assert {field for each in intent["partitions"].values() for field in each} == {
        "base_offset",
        "end_offset",
        "files",
    }


@pytest.mark.spec("LAY-24")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"format": 1}', StoreCorruptedError),
        ('{"format": 1, "committed_at_ms": 0.5}', StoreCorruptedError),
        ('{"format": 1, "committed_at_ms": 1, "more": 1}', StoreCorruptedError),
        ("", StoreCorruptedError),
        ('{"format": 2, "committed_at_ms": 1}', UnsupportedFormatError),
    ],
)
def test_a_damaged_time_is_an_error(root: ss.StateRoot, text: str, error: type[Exception]) -> None:
    """It is not taken for a write without one."""
    kill_after_intent(root)
    (staging_directory(root.path / "counts") / "w" / COMMIT_TIME_FILE).write_text(text)

    with pytest.raises(error, match=r"committed\.json"):
        content(root)
    with pytest.raises(error, match=r"committed\.json"):
        finish_staged_writes(root, "counts")
