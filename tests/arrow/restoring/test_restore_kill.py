"""``kill -9`` while a store is being restored: never something that looks complete and is not."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Forked

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.arrow.restore_mark import restore_mark
from statestores.changelog import FileChangelog
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue, TopicPartition

_KILLS = 4
_SOAK_KILLS = 60
_SEED = 20260605
_SECONDS = (0.3, 2.5)  # within the snapshot, and within the changelog of a slow engine

_KEYS = 12_000
_COMMITS = 400
_CHANGES = 60

STORE = KeyValue("x")
LOG = TopicPartition("x-changelog", 0)

# Restores the store, slowly enough to be met at any point of it.
_RESTORER = """
import sys
import time
from statestores.arrow import read_snapshot, restore
from statestores.changelog import FileChangelog
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue

backend, path, snapshot, log = sys.argv[1:]
store = open_on_engine(
    load_backend(backend).open(path), KeyValue("x"), durability=Durability.PROCESS_CRASH
)
with FileChangelog.open(log, "key-value") as changelog:
    print("ready", flush=True)
    restore(
        store,
        snapshot=read_snapshot(snapshot),
        changelog=changelog,
        batch_rows=100,
        progress=lambda progress: time.sleep(0.002),
    )
store.close()
"""


def _changes(commit: int) -> dict[bytes, bytes | None]:
    """Return what *commit* changes; the last digit of a key decides about deletions."""
    chance = random.Random(commit)
    numbers = [chance.randrange(_KEYS) for _ in range(_CHANGES)]
    return {
        b"%06d" % number: None if (number + commit) % 10 == 0 else b"%d" % commit
        for number in numbers
    }


class _Source:
    """A snapshot after half of the commits, a changelog of the rest, and what each commit left."""

    def __init__(self, directory: Path) -> None:
        self.contents: dict[int, dict[bytes, bytes]] = {}
        self.log = directory / "changelog"
        store = _open("memory", directory)
        with store, FileChangelog.create(self.log, "key-value") as changelog:
            for number in range(_KEYS):
                store.put(b"%06d" % number, b"first")
            self._commit(store, changelog)
            for commit in range(_COMMITS):
                for key, value in _changes(commit).items():
                    store.put(key, value)
                offset = self._commit(store, changelog)
                if commit == _COMMITS // 2:
                    self.snapshot = write_snapshot(store, directory / "snapshots").path
                if commit >= _COMMITS // 2:
                    self.contents[offset] = dict(store.range())

    @staticmethod
    def _commit(store: Any, changelog: FileChangelog) -> int:
        offset = changelog.append(store.pending_changes(), durability=Durability.PROCESS_CRASH).last
        store.commit({LOG: offset})
        return offset


def _open(backend: str, path: Path) -> Any:
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, STORE, durability=Durability.PROCESS_CRASH)


def _kill_restores(backend: str, directory: Path, kills: int) -> list[str]:
    """Kill that many restores, look after each at what is there, and say what it was."""
    source = _Source(directory)
    chance = random.Random(_SEED)
    states = []
    for kill in range(kills):
        path = directory / f"store-{kill // 2}"  # every second one meets what the first has left
        paths = (path, source.snapshot, source.log)
        with Forked(_RESTORER, backend, *paths) as restorer:
            assert restorer.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, chance.choice(_SECONDS)))
            restorer.kill()
        with _open(backend, path) as store:
            offset = store.committed_offset(LOG)
            content = dict(store.range())
            if offset is None:
                marked = store.committed_offset(restore_mark(STORE)) is not None

                assert marked or not content
                states.append("half restored" if marked else "empty")
            else:
                assert content == source.contents[offset]
                assert store.committed_offsets() == {LOG: offset}
                states.append("at a commit")
            if kill % 2:
                with FileChangelog.open(source.log, "key-value") as changelog:
                    restore(store, snapshot=read_snapshot(source.snapshot), changelog=changelog)

                assert dict(store.range()) == source.contents[max(source.contents)]
    return states


@pytest.mark.spec("SNP-11", "SNP-12")
def test_a_killed_restore_is_seen_and_can_be_finished(
    persistent_backend: str, tmp_path: Path
) -> None:
    """The store is empty, or marked as half restored, or exactly at the commit that it says."""
    assert len(_kill_restores(persistent_backend, tmp_path, _KILLS)) == _KILLS


@pytest.mark.soak
@pytest.mark.spec("SNP-11", "SNP-12")
def test_many_killed_restores_are_seen_and_can_be_finished(
    persistent_backend: str, tmp_path: Path
) -> None:
    """The same, long enough to meet both phases."""
    states = _kill_restores(persistent_backend, tmp_path, _SOAK_KILLS)

    assert {"half restored", "at a commit"} <= set(states)
