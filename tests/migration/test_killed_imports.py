"""An import of another library's state that is killed, and done again, is as if nothing had been.

The four libraries' own states are imported, a plain table, and a changelog as versions. Each import
dies by ``kill -9`` at named places, or in a soak run at every one that it reaches, and is repeated.
"""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from forked_programs import run
from unpacking import unpack

import statestores as ss
from statestores.partition_reader import PartitionReader
from statestores.registry import load_backend
from statestores.spi.kinds import VERSIONED
from statestores.verification import Status, verify

FIXTURES = Path(__file__).parent / "fixtures"
ALL = os.environ.get("STATESTORES_SOAK") == "1"

COUNTED = """
import os, sys
from statestores import failpoints

for name in failpoints.FAILPOINTS:
    failpoints.arm(name, lambda name=name: os.write(1, name.encode() + b" "))
"""

KILLED = """
import os, signal, sys
from statestores import failpoints

failpoints.arm(sys.argv[3], lambda: os.kill(os.getpid(), signal.SIGKILL), at=int(sys.argv[4]))
"""

PEER = """
import statestores as ss
from statestores.migration import *

with {source} as source:
    plans = [
        plan_peer_import(source, store.name, **options)
        for store in source.stores()
        if (options := {options}.get(store.name)) is not None
    ]
    import_peer_state(source, sys.argv[2], plans, skip_existing=AGAIN, backend={backend!r})
"""

AS_VERSIONED = """
import statestores as ss
from statestores.migration import import_as_versioned

import_as_versioned(
    sys.argv[1] + "/plain", "words", sys.argv[2], history_retention_ms=ss.DAY, backend="sqlite",
    skip_existing=AGAIN,
)
"""


HOMES = ("to", "or", "be")
"""A key that belongs to each of three partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import, and where it dies in every run of the tests."""

    program: str
    """What does it, again or for the first time."""

    deaths: tuple[tuple[str, int], ...]
    """Failpoints, and at which time."""


def peer(source: str, options: dict[str, object], *, backend: str | None) -> str:
    """Return a program that imports the stores with *options* of *source*."""
    return PEER.format(source=source.format("sys.argv[1]"), options=options, backend=backend)


WINDOWS = {"kind": "window", "retention_ms": 1 << 50}
BY_PARTITION = (("logged.appended", 1), ("snapshot.durable", 2))
PLACED = (("publish.checked", 1), ("publish.committed", 1), ("publish.appended", 2))

IMPORTS = {
    "quix": Import(
        program=peer(
            "QuixStateDirectory({} + '/quix/shop')",
            {"orders.default": {}},
            backend="sqlite",
        ),
        deaths=BY_PARTITION,
    ),
    "faust": Import(
        program=peer(
            "FaustTables({} + '/faust', application_id='shop')",
            {"visits": WINDOWS},
            backend="sqlite",
        ),
        deaths=BY_PARTITION,
    ),
    "bytewax": Import(
        program=peer(
            "BytewaxRecoveryStore({} + '/bytewax')",
            {"sums.sum.stateful_flat_map.stateful.stateful_batch": {"partitions": 3}},
            backend=None,
        ),
        deaths=PLACED,
    ),
    "database": Import(
        program=peer(
            "SQLiteTable({} + '/app.db', 'users', key='name', value='visits',"
            " key_serde=ss.utf8, value_serde=ss.int64)",
            {"users": {"partitions": 3}},
            backend=None,
        ),
        deaths=PLACED,
    ),
    "versioned": Import(
        program=AS_VERSIONED,
        deaths=(*BY_PARTITION, ("json.renamed", 6), ("json.renamed", 7)),
    ),
}

REPEATED = ("faust", "bytewax")
"""Imports that go the way of another one: by partitions as `quix`, placed as `database`."""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with everything that is imported."""
    pytest.importorskip("rocksdict")
    load_backend("sqlite")
    directory = tmp_path_factory.mktemp("states")
    unpack(FIXTURES / "peers.tar.xz", directory)
    with closing(sqlite3.connect(directory / "app.db")) as database:
        database.execute("create table users (name text, visits integer)")
        database.executemany(
            "insert into users values (?, ?)", ((f"user-{number}", number) for number in range(99))
        )
        database.commit()
    root = ss.StateRoot.create(directory / "plain")
    words = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
    root.add_store(words, partitions=3)
    for number in range(3):
        with ss.open_logged_store(root, words, number, backend="memory") as logged:
            for value in range(4):
                logged.store.put(HOMES[number], value)
                logged.commit({ss.TopicPartition("input", number): value})
    return directory


def content(root: Path) -> dict[str, list[Any]]:
    """Return the rows of every partition that is in *root*, and the position that they are at."""
    if not (root / "statestores.json").exists():
        return {}
    state = ss.StateRoot.open(root)
    found: dict[str, list[Any]] = {}
    for name, entry in state.stores.items():
        for number in range(entry.partitions):
            place = state.partition(name, number)
            if place.path.exists():
                reader = PartitionReader(place, entry.specification)
                batches = reader.rows(history=entry.specification.kind == VERSIONED, typed=False)
                rows = [row for batch in batches for row in batch.to_pylist()]
                found[f"{name}/{number}"] = [rows, reader.position] if rows else []
    return found


def deaths_of(name: str, states: Path, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Yield where the import *name* dies: where it says, or in a soak run at all it reaches."""
    if not ALL:
        yield from IMPORTS[name].deaths
        return
    program = COUNTED + IMPORTS[name].program.replace("AGAIN", "False")
    reached = run(program, states, tmp_path / "counted").stdout.split()
    assert set(dict(IMPORTS[name].deaths)) <= set(reached)
    for failpoint in dict.fromkeys(reached):
        yield from ((failpoint, at + 1) for at in range(reached.count(failpoint)))


@pytest.mark.spec("MIG-17", "MIG-18", "MIG-19")
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.long) if each in REPEATED else each for each in IMPORTS],
)
def test_a_killed_import_of_others_is_repeated(name: str, states: Path, tmp_path: Path) -> None:
    """Done again it is complete and right; what was there before was whole."""
    first, again = (
        "import sys\n" + IMPORTS[name].program.replace("AGAIN", again)
        for again in ("False", "True")
    )
    done = run(first, states, tmp_path / "undisturbed")
    assert (done.returncode, done.stderr) == (0, "")
    expected = content(tmp_path / "undisturbed")
    assert sum(map(bool, expected.values())) >= 2
    full = {place: rows for place, rows in expected.items() if rows}
    for failpoint, at in deaths_of(name, states, tmp_path):
        death, root = f"{failpoint}, {at}", tmp_path / f"{failpoint}-{at}"
        killed = run(KILLED + first, states, root, failpoint, at)
        assert killed.returncode == -signal.SIGKILL, death + killed.stderr
        present = {place: rows for place, rows in content(root).items() if rows}
        assert present == {place: expected[place] for place in present}, death
        # Rows that have no partitions where they come from are there together.
        assert IMPORTS[name].deaths is not PLACED or present in ({}, full), death
        repeated = run(again, states, root)

        assert (repeated.returncode, repeated.stderr) == (0, ""), death
        assert content(root) == expected, death
        assert [each for each in verify(root) if each.status is Status.DAMAGED] == [], death
