"""Lives of processes that write everything this project writes: stores, changelogs, snapshots.

A life is a function of what it finds, so that the next one goes on where a killed one ended. Every
change has a number, which is its changelog offset; what a store holds at an offset is what the
changes up to that number give. Promises are written to an oracle, a file outside the state root.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import statestores as ss
from statestores.arrow.progress import Progress, ProgressCallback
from statestores.arrow.restoring.restore import restore
from statestores.changelog import ChangelogOptions, FileChangelog, change_schema, compact
from statestores.logged_store import LoggedStore, catching_up, open_logged_store
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Engine
from statestores.staging.staged_write import publish, stage
from statestores.staging.unfinished_write import finish_staged_writes
from statestores_memory import MemoryEngine

STORE = ss.KeyValue("logged")
STAGED = ss.KeyValue("staged")
PARTITIONS = 2
INPUT = ss.TopicPartition("input", 0)

_KEYS = 23
_STAGED_KEYS = 12
_COMMIT_SIZES = (1, 4, 7, 2)
_SEGMENT_BYTES = 2_000
_RESTORE_ROWS = 5

Say = Callable[[str, int], None]
"""Writes a word and a number to the oracle."""


def change(number: int) -> tuple[bytes, bytes | None]:
    """Return change *number*: no two of a commit have the same key."""
    return b"k%02d" % (number % _KEYS), None if number % 11 == 0 else b"%d" % number


def content_at(offset: int | None) -> dict[bytes, bytes]:
    """Return what a store holds after the changes up to *offset*."""
    content: dict[bytes, bytes] = {}
    for number in range(0 if offset is None else offset + 1):
        key, value = change(number)
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    return content


def staged_content(write: int) -> dict[bytes, bytes]:
    """Return what the store of staged writes holds after *write*; 0 is before the first."""
    return {b"k%02d" % key: b"%d" % write for key in range(_STAGED_KEYS)} if write else {}


def oracle(path: Path) -> Say:
    """Return the function that appends to the oracle at *path*, one write a line."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def say(word: str, number: int) -> None:
        os.write(descriptor, f"{word} {number}\n".encode())

    return say


def said(path: Path, word: str) -> list[int]:
    """Return the numbers that were written to the oracle at *path* with *word*."""
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


def logged_life(root: Path, say: Say, *, backend: str | None) -> None:
    """Write a logged store: commits, snapshots, a roll, a compaction, a deletion, a restore."""
    state = ss.StateRoot.create(root)
    state.add_store(STORE, partitions=1)
    number = next(number for number in count() if f"more-{number}" not in state.stores)
    state.add_store(ss.KeyValue(f"more-{number}"), partitions=1)
    directory = state.partition(STORE.name, 0)
    _tear(directory.changelog)
    with _open(state, backend) as logged:
        _commit(logged, say)
        _snapshot(logged, say)
        _commit(logged, say)
        log = logged.changelog
        assert isinstance(log, FileChangelog)
        log.seal()
        compact(log)
        snapshot = _snapshot(logged, say)
        _commit(logged, say)
        log.seal()
        log.delete_before(snapshot + 1)
        _commit(logged, say)
    if backend is not None:
        # As on a new machine: what is restored comes from the snapshot and the changelog after it.
        (directory.path / "engine.json").unlink(missing_ok=True)
        shutil.rmtree(directory.path / "engine", ignore_errors=True)
        # The first attempt fails half-way, so that the second one has to empty the store again.
        with suppress(_DiskGoneError):
            _open(state, backend, progress=_fail_in_the_middle)
    _open(state, backend).close()


def _tear(changelog: Path) -> None:
    """Leave half a frame at the end of the last segment, as a crash does."""
    segments = sorted(changelog.glob("*.log"))
    if segments:
        with segments[-1].open("ab") as segment:
            segment.write(b"half")


class _DiskGoneError(Exception):
    """What stops a restore half-way."""


def _fail_in_the_middle(progress: Progress) -> None:
    """Fail once a part is committed."""
    if progress.rows > 2 * _RESTORE_ROWS:
        raise _DiskGoneError


def _open(
    state: ss.StateRoot, backend: str | None, *, progress: ProgressCallback | None = None
) -> LoggedStore[Any]:
    """Open the store so that rolls and commits of a restore come often."""
    catching_up.restore = partial(restore, batch_rows=_RESTORE_ROWS)  # type: ignore[attr-defined]  # its own import
    try:
        return open_logged_store(
            state,
            STORE.name,
            0,
            backend=backend or "memory",
            changelog_options=ChangelogOptions(segment_bytes=_SEGMENT_BYTES),
            progress=progress,
        )
    finally:
        catching_up.restore = restore  # type: ignore[attr-defined]  # its own import


def _commit(logged: LoggedStore[Any], say: Say) -> None:
    """Make some commits; the second of them survives the process alone."""
    for turn, size in enumerate(_COMMIT_SIZES):
        start = 0 if logged.committed_offset is None else logged.committed_offset + 1
        for number in range(start, start + size):
            logged.store.put(*change(number))
        last = start + size - 1
        durability = Durability.PROCESS_CRASH if turn == 1 else Durability.POWER_LOSS
        say("intent", last)
        logged.commit({INPUT: last}, durability=durability)
        say("promise", last)
        if durability is Durability.POWER_LOSS:
            say("durable", last)


def _snapshot(logged: LoggedStore[Any], say: Say) -> int:
    info = logged.snapshot()
    assert info is not None
    say("snapshot", info.offset)
    say("durable", info.offset)
    return info.offset


def staged_life(root: Path, say: Say, *, first: int, writes: int = 2) -> None:
    """Write a store from many tasks, two partitions as one; a write is a number from *first* on."""
    state = ss.StateRoot.create(root)
    state.add_store(STAGED, partitions=PARTITIONS)
    finish_staged_writes(state, STAGED.name)
    for write in range(first, first + writes):
        rows = [{"key": key, "value": value} for key, value in staged_content(write).items()]
        batch = pa.RecordBatch.from_pylist(rows, schema=change_schema(STAGED.kind))
        name = f"write-{write}-{len(list(root.glob('**/*.arrow')))}"
        half = batch.num_rows // 2
        staged = [
            stage(root, STAGED, PARTITIONS, name, f"task-{task}", [part])
            for task, part in enumerate((batch.slice(0, half), batch.slice(half)))
        ]
        say("intent", write)
        publish(state, STAGED.name, name, staged, "overwrite" if write % 2 else "append")
        say("promise", write)
        say("durable", write)


def plain_life(engine: Engine | None = None) -> None:
    """Write a versioned store over many times its retention, and empty it: no changelog."""
    engine = engine or MemoryEngine.open("")
    specification = ss.Versioned("plain", history_retention_ms=50)
    with open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH) as store:
        for number in range(2_000):
            store.put(b"%d" % (number % 7), b"v", number)
            if number % 100 == 0:
                store.commit({})
        store.truncate()
