"""A committed write that nobody has finished: readers see it, and the next writer finishes it."""

import pickle
import signal
from pathlib import Path
from typing import Any, get_args

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
from statestores.changelog import FileChangelog
from statestores.errors import (
    CommitConflictError,
    StoreCorruptedError,
)
from statestores.reading.partition_reader import end_offsets
from statestores.staging.staged_write import Mode, discard, publish
from statestores.staging.unfinished_write import finish_staged_writes, refuse_unfinished_write
from statestores.staging.write_intent import read_intent, staging_directory

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with a key-value store that holds `OLD`."""
    return root_with_old(tmp_path)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_publisher_leaves_all_or_nothing(
    root: ss.StateRoot, step: str, mode: Mode
) -> None:
    """Readers see the write as a whole at once, and the next writer finishes it."""
    rows = [staged(root, "w", f"t{task}", list(NEW.items())[task::2]) for task in range(2)]
    ends = end_offsets(readers(root))
    child = run(PROGRAM, root.path, "counts", "w", mode, step, given=pickle.dumps(rows))
    after = NEW if mode == "overwrite" else OLD | NEW
    happened = step != STEPS[0]

    assert child.returncode == -signal.SIGKILL
    assert content(root) == (after if happened else OLD)
    seen = end_offsets(readers(root))
    added = len(NEW) + PARTITIONS * (mode == "overwrite")
    assert sum(seen) - sum(ends) == (added if happened else 0)
    changes = [row for reader in readers(root) for b in reader.changes() for row in b.to_pylist()]
    finish_staged_writes(root, "counts", abandoned_after_ms=0)
    assert content(root) == (after if happened else OLD)
    assert end_offsets(readers(root)) == seen
    assert changes == [
        row for reader in readers(root) for b in reader.changes() for row in b.to_pylist()
    ]
    assert leftovers(root) == set()
    publish(root, "counts", "next", [staged(root, "next", "t0", [(b"k", b"next")])])
    assert content(root)[b"k"] == b"next"


def test_a_reader_goes_on_when_the_write_is_finished_meanwhile(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not read of the staged files is in the changelog by then."""
    monkeypatch.setattr("statestores.staging.staged_rows._STORED_ROWS", 2)
    monkeypatch.setattr("statestores.staging.staged_rows.BATCH_ROWS", 2)
    kill_after_intent(root)
    expected = [row for reader in readers(root) for b in reader.changes() for row in b.to_pylist()]
    reading = [reader.changes() for reader in readers(root)]
    begun = []
    for changes in reading:
        rows: list[Any] = []
        while not any(row["value"] == b"new" for row in rows):
            rows.extend(next(changes).to_pylist())
        begun.append(rows)
    finish_staged_writes(root, "counts")
    for rows, changes in zip(begun, reading, strict=True):
        rows.extend(row for batch in changes for row in batch.to_pylist())

    assert [row for rows in begun for row in rows] == expected


def test_a_writer_that_opened_too_early_is_told(root: ss.StateRoot) -> None:
    """Between its look for an unfinished write and its lock, one may have been committed."""
    refuse_unfinished_write(root.path / "counts")
    kill_after_intent(root)

    with pytest.raises(CommitConflictError, match="finish_staged_writes"):
        refuse_unfinished_write(root.path / "counts")
    assert finish_staged_writes(root, "counts") is True
    refuse_unfinished_write(root.path / "counts")
    assert finish_staged_writes(root, "counts") is False


def test_a_write_is_finished_by_the_next_one(root: ss.StateRoot) -> None:
    """It need not be asked for."""
    kill_after_intent(root)
    publish(root, "counts", "next", [staged(root, "next", "t0", [(b"next", b"1")])])

    assert content(root) == OLD | NEW | {b"next": b"1"}


def test_a_foreign_append_below_an_unfinished_write_is_noticed(root: ss.StateRoot) -> None:
    """A program that does not keep the protocol must not lose rows in silence."""
    kill_after_intent(root)
    intent = read_intent(root.path / "counts")
    assert intent is not None
    number, write = next(iter(intent.partitions.items()))
    rows = ss.Changes([b"x"] * (write.end_offset - write.base_offset + 1), [b"1"] * 99)
    with FileChangelog.open(root.partition("counts", number).changelog, "key-value") as log:
        log.append(ss.Changes(rows.keys, rows.values[: len(rows.keys)]))

    with pytest.raises(StoreCorruptedError, match="another program has written to it"):
        finish_staged_writes(root, "counts")


def test_a_damaged_intent_is_an_error(root: ss.StateRoot) -> None:
    """A changed word in it would empty the store."""
    kill_after_intent(root)
    file = staging_directory(root.path / "counts") / "intent.json"
    file.write_text(file.read_text().replace('"overwrite": false', '"overwrite": true'))

    with pytest.raises(StoreCorruptedError, match="checksum"):
        content(root)


def test_a_committed_write_cannot_be_discarded(root: ss.StateRoot) -> None:
    """Spark calls abort also when commit failed after the point of no return."""
    kill_after_intent(root)
    discard(root.path, "counts", "w")

    assert content(root) == OLD | NEW
