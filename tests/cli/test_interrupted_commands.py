"""Control-C and SIGTERM in the middle of each command: how it ends, and what it leaves.

A command runs in a process of its own that counts the calls of functions, and sends itself the
signal at one of them. In long and soak runs there are more moments.

It may come where Python passes over what a handler raises, as while it removes an object. The
command goes on to its end then, and says by its exit code that it was told.
"""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_line import invoke
from forked_programs import run
from long_runs import IS_LONG, IS_SOAK
from unpacking import unpack

import statestores as ss
from statestores.cli.application import COMMANDS
from statestores.partitioning import murmur2_partitioner
from statestores.processing import LocalTopics, Record, Topic
from statestores.registry import load_backend
from statestores.verification import Status, verify

FIXTURES = Path(__file__).parent.parent / "migration" / "fixtures"
MOMENTS = 24 if IS_SOAK else 4 if IS_LONG else 1
"""How often each command is told to end, at moments that are spread over its calls."""

SIGNALLED = """
import os, signal, sys, tempfile

tempfile.tempdir, count_file = sys.argv[1:3]
number, at = map(int, sys.argv[3:5])
sys.argv[1:] = sys.argv[5:]
os.chdir(os.path.dirname(count_file))
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = True
from statestores.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
calls = 0

def count(frame, event, argument):
    global calls
    if event == "call":
        calls += 1
        if calls == at:
            sys.setprofile(None)
            os.kill(os.getpid(), number)

if at >= 0:
    sys.setprofile(count)
try:
    main()
finally:
    sys.setprofile(None)
    with open(count_file, "w") as file:
        file.write(str(calls))
"""

TOPOLOGY = """
import statestores as ss
from statestores.processing import Topic, Topology

shop = Topology("shop")
lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
"""

WORDS: ss.KeyValue[str, str] = ss.KeyValue("words", key=ss.utf8, value=ss.utf8)

CALLS = {
    "backends": "backends",
    "info": "info state",
    "get": "get state w007",
    "scan": "scan state --limit 0",
    "history": "history versions k",
    "changelog": "changelog state/words/0",
    "export": "export state out.parquet",
    "export-spark": "export-spark state out.checkpoint",
    "verify": "verify state",
    "doctor": "doctor state",
    "lag": "lag state",
    "top": "top state --count 1",
    "diff": "diff state state",
    "du": "du state",
    "import": "import rows.parquet new --partitions 3",
    "import-kafka": "import-kafka fixture --to new --store plain --backend sqlite",
    "import-quix": "import-quix quix/shop --to new --store orders.default --value-serde json "
    "--backend sqlite",
    "import-faust": "import-faust faust --application-id shop --to new --store counts "
    "--key-serde json --value-serde json --backend sqlite",
    "import-bytewax": "import-bytewax bytewax --to new --partitions 3",
    "import-database": "import-database app.db --engine sqlite --table users --key-column id "
    "--value-column name --key-serde int64 --value-serde utf8 --to new",
    "orphans": "orphans state",
    "restore": "restore state --local engines",
    "snapshot": "snapshot state",
    "new-backend": "new-backend thing --directory made",
    "reshard": "reshard state words --partitions 3",
    "compact": "compact state",
    "describe": "describe shop_topology:shop",
    "run": "run shop_topology:shop --local data --backend memory --until-idle",
    "reset": "reset shop_topology:shop --local data",
}
"""How each command is called. `serve` goes on until it is told, and has a test of that."""

READING = {
    "backends",
    "info",
    "get",
    "history",
    "changelog",
    "lag",
    "top",
    "diff",
    "du",
    "describe",
}
"""Commands that do nothing which `scan`, `verify`, `doctor` or `orphans` does not do as well."""

WRITTEN_ALIKE = {"import-faust", "import-bytewax", "export-spark"}
"""Commands that write as `import-quix` and `export` do, and differ in what they read or write."""

ENDS_WELL = {"run"}
"""It commits when it is told to end, and says so with 0."""

ANSWERS: dict[str, set[int]] = {"doctor": {0, 1}, "lag": {0, 1}, "orphans": {0, 1}}
"""The exit codes of commands that answer with them."""


MAKES = {
    "export": "out.parquet",
    "export-spark": "out.checkpoint",
    "new-backend": "made/statestores-thing",
}
"""What commands make that must not be there yet: a name in the place."""


def call(
    place: Path, words: str, number: signal.Signals, at: int
) -> tuple[CompletedProcess[str], int]:
    """Run a command in *place*, with a signal at its call *at*; return it, and how many it had.

    At 0 there is no signal. Below, the calls are not counted either, which takes a quarter longer.
    """
    temporary = place / "temporary"
    temporary.mkdir(exist_ok=True)
    done = run(SIGNALLED, temporary, place / "count", int(number), at, *words.split())
    counted = place / "count"
    return done, int(counted.read_text()) if counted.exists() else 0


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what the commands need; tests copy it."""
    load_backend("sqlite")
    load_backend("rocksdb")
    place = tmp_path_factory.mktemp("workplace")
    state = ss.StateRoot.create(place / "state")
    state.add_store(WORDS, partitions=2)
    for number in range(2):
        with ss.open_logged_store(state, WORDS, number, backend="sqlite") as logged:
            for key in (f"w{each:03d}" for each in range(60)):
                if murmur2_partitioner.partition(key.encode(), 2) == number:
                    logged.store.put(key, "v")
                    logged.commit()
    versions = ss.StateRoot.create(place / "versions")
    versions.add_store(ss.Versioned("v", history_retention_ms=ss.DAY), partitions=1)
    with ss.open_logged_store(versions, "v", backend="memory") as history:
        history.store.put(b"k", b"v", timestamp_ms=5)
        history.commit()
    with closing(sqlite3.connect(place / "app.db")) as database, database:
        database.execute("create table users (id integer primary key, name text)")
        database.executemany("insert into users values (?, ?)", [(n, str(n)) for n in range(50)])
    unpack(FIXTURES / "peers.tar.xz", place)
    unpack(FIXTURES / "kafka-streams-4.3.1.tar.xz", place)
    (place / "shop_topology.py").write_text(TOPOLOGY)
    assert invoke("export", state.path, place / "rows.parquet").exit_code == 0
    with LocalTopics(place / "data" / "topics") as topics:
        topics.topic(Topic("lines", key=ss.utf8, value=ss.utf8)).append([Record("k", "v", 5)])
    return place


def take(workplace: Path, words: str, place: Path) -> None:
    """Copy to *place* what *words* name of the workplace: all of it is three hundred files."""
    place.mkdir()
    for each in workplace.iterdir():
        if each.stem in words:
            copy = shutil.copytree if each.is_dir() else shutil.copy
            copy(each, place / each.name)


def listing(directory: Path) -> set[str]:
    """Return the names of what is in *directory*."""
    return {str(each.relative_to(directory)) for each in directory.rglob("*")}


def leftovers(place: Path) -> list[str]:
    """Return what nobody needs any more, of what is in *place*."""
    return sorted(
        name
        for name in listing(place)
        if name.startswith("temporary/") or name.endswith((".tmp", ".creating.lock"))
    )


def test_every_command_is_told_to_end() -> None:
    """A new command has a line here."""
    assert {each.name for each in COMMANDS} - {"serve"} == set(CALLS)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=pytest.mark.long) if each in READING | WRITTEN_ALIKE else each
        for each in CALLS
    ],
)
def test_a_command_that_is_told_to_end(
    workplace: Path, tmp_path: Path, command: str, subtests: pytest.Subtests
) -> None:
    """It ends with 130 or 143 and without a traceback, and what it leaves is whole or not there.

    Nothing is left among the temporary files, and the command does its work when it is repeated.
    """
    words = CALLS[command]
    whole = tmp_path / "whole"
    take(workplace, words, whole)
    done, calls = call(whole, words, signal.SIGINT, 0)
    fine = ANSWERS.get(command, {0})
    assert done.returncode in fine, done.stderr
    assert calls
    for moment in range(MOMENTS):
        number = (signal.SIGINT, signal.SIGTERM)[(moment + len(command)) % 2]
        at = 1 + calls * (2 * moment + 1) // (2 * MOMENTS)
        with subtests.test(signal=number.name, at=f"{at} of {calls}"):
            place = tmp_path / str(moment)
            take(workplace, words, place)
            ended, _ = call(place, words, number, at)
            accepted = {128 + number} | ({0} if command in ENDS_WELL else set())
            killed = -ended.returncode  # by SIGTERM, while it was still loading
            code = 128 + killed if killed > 0 else ended.returncode  # as shells say it
            assert code in accepted, ended.stderr
            assert "Traceback" not in ended.stderr
            assert "Exception ignored" not in ended.stderr
            assert leftovers(place) == []
            repeated = words + (" --skip-existing" if command.startswith("import-") else "")
            made = MAKES.get(command)
            if made is not None and (place / made).exists():
                assert listing(place / made) == listing(whole / made)  # all of it, or nothing
                continue
            again, _ = call(place, repeated, number, -1)
            assert again.returncode in fine, again.stderr
            for root in (place / "state", place / "new"):
                if root.exists():
                    # Keys of Quix Streams lie where its records' keys put them (MIG-17).
                    found = [each for each in verify(root) if each.status != Status.MISPLACED]
                    assert [each for each in found if each.is_failure] == []
            assert leftovers(place) == []
