"""``kill -9`` while a changelog is folded into a store: it stands at a commit, and goes on."""

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Forked

from statestores.arrow import restore
from statestores.arrow.restoring.row_sink import RowSink
from statestores.changelog import FileChangelog
from statestores.registry import backend_names, load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Session, TopicPartition, Versioned, Window

_KILLS = 2
_SOAK_KILLS = 40
_SEED = 20261122
_SECONDS = 0.6

_COMMITS = 120
_CHANGES = 40
_KEYS = 300

KINDS = {
    "versioned": Versioned("x", history_retention_ms=300),
    "window": Window("x", retention_ms=300, window_size_ms=5),
    "session": Session("x", retention_ms=300),
}
LOG = TopicPartition("x-changelog", 0)

# Restores the store, slowly enough to be met at any point of it.
_RESTORER = """
import sys
import time
from statestores.arrow import restore
from statestores.changelog import FileChangelog
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Session, Versioned, Window

backend, path, kind, log = sys.argv[1:]
specification = {
    "versioned": Versioned("x", history_retention_ms=300),
    "window": Window("x", retention_ms=300, window_size_ms=5),
    "session": Session("x", retention_ms=300),
}[kind]
store = open_on_engine(
    load_backend(backend).open(path), specification, durability=Durability.PROCESS_CRASH
)
with FileChangelog.open(log, kind) as changelog:
    print("ready", flush=True)
    restore(
        store,
        changelog=changelog,
        batch_rows=500,
        progress=lambda progress: time.sleep(0.001),
    )
store.close()
"""


def _open(backend: str, path: Path, kind: str) -> Any:
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, KINDS[kind], durability=Durability.PROCESS_CRASH)


def _content(store: Any) -> list[Any]:
    """Return what is committed, but for deletions, which a store may forget (VRS-20)."""
    found = []
    with closing(store.committed_content().changes) as chunks:
        for chunk in chunks:
            rows = zip(chunk.keys, chunk.values, chunk.times_ms or (), strict=True)
            found += [row for row in rows if row[1] is not None]
    return found


def _write_log(directory: Path, kind: str) -> dict[int, list[Any]]:
    """Write a changelog of some retentions, and return what each commit of it left."""
    contents = {}
    chance = random.Random(_SEED)
    with (
        _open("memory", directory, kind) as store,
        FileChangelog.create(directory / "changelog", kind) as changelog,
    ):
        for commit in range(_COMMITS):
            for change in range(_CHANGES):
                key = b"%04d" % chance.randrange(_KEYS)
                value = None if change % 10 == 0 else b"%d" % commit
                time_ms = max(0, 5 * commit - chance.randrange(400))
                if kind == "session":
                    store.put(key, time_ms, time_ms + 3, value)
                else:
                    store.put(key, value, time_ms)
            appended = changelog.append(
                store.pending_changes(), durability=Durability.PROCESS_CRASH
            )
            store.commit({LOG: appended.last})
            contents[appended.last] = _content(store)
    return contents


def _kill_restores(backend: str, directory: Path, kind: str, kills: int) -> set[str]:
    """Kill that many restores, look after each at what is there, and say what it was."""
    contents = _write_log(directory, kind)
    log = directory / "changelog"
    chance = random.Random(_SEED)
    states = set()
    for kill in range(kills):
        path = directory / f"store-{kill // 2}"  # every second one meets what the first has left
        with Forked(_RESTORER, backend, path, kind, log) as restorer:
            assert restorer.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, _SECONDS))
            restorer.kill()
        with _open(backend, path, kind) as store:
            offset = store.committed_offset(LOG)

            assert _content(store) == ([] if offset is None else contents[offset])
            states.add("empty" if offset is None else "at a commit")
            if kill % 2:
                with FileChangelog.open(log, kind) as changelog:
                    restore(store, changelog=changelog)

                assert _content(store) == contents[max(contents)]
                assert store.committed_offsets() == {LOG: max(contents)}
    return states


@pytest.mark.spec("SNP-11", "SNP-12", "COM-40")
def test_a_killed_restore_stands_at_a_commit(persistent_backend: str, tmp_path: Path) -> None:
    """Exactly at the one that it says, whether in bulk or record by record.

    Each backend with one kind here, and with all of them in the soak run.
    """
    kind = list(KINDS)[backend_names().index(persistent_backend) % len(KINDS)]

    assert _kill_restores(persistent_backend, tmp_path, kind, _KILLS)


@pytest.mark.soak
@pytest.mark.spec("SNP-11", "SNP-12", "COM-40")
@pytest.mark.parametrize("kind", KINDS)
def test_many_killed_restores_stand_at_a_commit(
    persistent_backend: str, tmp_path: Path, kind: str
) -> None:
    """The same, long enough to meet both."""
    states = _kill_restores(persistent_backend, tmp_path, kind, _SOAK_KILLS)

    assert states == {"empty", "at a commit"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_killed_is_the_bulk_path(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new store takes its changes in bulk, or these tests would be about something else."""
    contents = _write_log(tmp_path, kind)
    replayed: list[int] = []
    commit = RowSink.commit

    def count(bulk: RowSink, *rest: Any) -> None:
        replayed.append(1)
        commit(bulk, *rest)

    monkeypatch.setattr(RowSink, "commit", count)
    with (
        _open("memory", tmp_path / "copy", kind) as copy,
        FileChangelog.open(tmp_path / "changelog", kind) as changelog,
    ):
        restore(copy, changelog=changelog, batch_rows=500)

        assert replayed
        assert _content(copy) == contents[max(contents)]
