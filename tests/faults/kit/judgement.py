"""What must hold of a state root that a life has left behind, whenever and however it ended."""

from pathlib import Path
from typing import Any

from lives import INPUT, PARTITIONS, STAGED, STORE, content_at, staged_content

import statestores as ss
from statestores.arrow import list_snapshots, read_snapshot, remove_stale_temporaries
from statestores.arrow.restore_mark import restore_mark
from statestores.changelog import FileChangelog, changelog_partition
from statestores.errors import StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.opening import backend_of, open_existing
from statestores.reading.partition_reader import PartitionReader

LOG = changelog_partition(STORE.name, 0)


def judge_engine(root: Path) -> list[str]:
    """Judge the engine of the logged store as it lies there, before anything completes it (CMT)."""
    path = root / STORE.name / "0"
    if backend_of(path) is None:
        return []
    try:
        opened = open_existing(path)
    except StoreNotFoundError:
        return []  # it was killed between the creation of the engine and that of the store
    with opened as store:
        offset, content = store.committed_offset(LOG), _content(store)
        if store.committed_offset(restore_mark(STORE)) is not None:
            return [] if offset is None else [f"half restored, and with an offset {offset}"]
        wrong = _differences("the engine", content, content_at(offset))
        if store.position.get(INPUT) != offset:
            wrong.append(f"the engine's position is {store.position!r}, its offset {offset}")
    return wrong


def judge_logged(
    root: Path, promised: int | None, begun: int | None, *, backend: str | None
) -> tuple[int | None, list[str]]:
    """Open the logged store; return its offset, and what is wrong."""
    try:
        state = ss.StateRoot.open(root)
        state.store(STORE.name)
    except StoreNotFoundError as error:
        return None, [] if promised is None else [f"{promised} was promised: {error}"]
    directory = state.partition(STORE.name, 0)
    wrong = []
    # Before there is a changelog there is nothing to open: a reader says so, a writer makes one.
    if not FileChangelog.exists(directory.changelog) and promised is not None:
        wrong.append(f"{promised} was promised, and there is no changelog")
    with open_logged_store(state, STORE.name, 0, backend=backend or "memory") as logged:
        offset = logged.committed_offset
        reached = -1 if offset is None else offset
        if promised is not None and reached < promised:
            wrong.append(f"offset {offset}, and {promised} was promised")
        if reached > (-1 if begun is None else begun):
            wrong.append(f"offset {offset}, and no commit beyond {begun} had begun")
        if logged.changelog.end_offset != reached + 1:
            wrong.append(f"offset {offset}, and a changelog to {logged.changelog.end_offset}")
        if logged.position.get(INPUT) != offset:
            wrong.append(f"the position is {logged.position!r}, and the offset {offset}")
        wrong += _differences("the store", _content(logged.store), content_at(offset))
    remove_stale_temporaries(directory.snapshots)
    wrong += judge_snapshots(directory.snapshots)
    return offset, wrong


def judge_snapshots(directory: Path) -> list[str]:
    """Judge the snapshots that are listed: each is whole, and holds its offset's content."""
    wrong = []
    for offset, path in list_snapshots(directory).items():
        snapshot = read_snapshot(path)
        snapshot.verify()
        rows: dict[bytes, bytes] = {}
        for batch in snapshot.batches():
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            rows.update(zip(keys, values, strict=True))
        wrong += _differences(f"the snapshot at {offset}", rows, content_at(offset))
    return wrong


def judge_staged(
    root: Path, promised: int, begun: int, *, backend: str = "memory"
) -> tuple[int, list[str]]:
    """Read the store of staged writes without finishing any, then finish; return the last write."""
    try:
        state = ss.StateRoot.open(root)
        state.store(STAGED.name)
    except StoreNotFoundError as error:
        return 0, [] if promised == 0 else [f"{promised} was promised: {error}"]
    shown: dict[bytes, bytes] = {}
    for number in range(PARTITIONS):
        reader = PartitionReader(state.partition(STAGED.name, number), STAGED)
        for batch in reader.rows():
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            shown.update(zip(keys, values, strict=True))
    write = int(next(iter(shown.values()), b"0"))
    wrong = _differences("what readers see", shown, staged_content(write))
    if not promised <= write <= begun:
        wrong.append(f"write {write} is seen; {promised} was promised, {begun} begun")
    opened: dict[bytes, bytes] = {}
    for number in range(PARTITIONS):
        with open_logged_store(state, STAGED.name, number, backend=backend) as logged:
            opened |= _content(logged.store)
    wrong += _differences("what the next writer sees", opened, shown)
    return write, wrong


def _content(store: Any) -> dict[bytes, bytes]:
    return dict(store.range())


def _differences(what: str, found: dict[bytes, bytes], expected: dict[bytes, bytes]) -> list[str]:
    return [
        f"{what} has {found.get(key)!r} for {key!r}, expected {expected.get(key)!r}"
        for key in sorted({*found, *expected})
        if found.get(key) != expected.get(key)
    ]
