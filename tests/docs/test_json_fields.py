"""What `--json` prints has the fields that the pages for the command line list, and no other."""

import importlib
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from command_line import invoke
from typer.main import get_command
from unpacking import unpack

import statestores as ss
from statestores.cli.application import app

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / "docs" / name).read_text("utf-8") for name in ("cli.md", "operating.md")]
STATES = ROOT / "tests" / "migration" / "fixtures"

ELSEWHERE = {"serve": "it runs until it is stopped: tests/cli/test_serve.py"}
"""Commands whose output another test looks at."""

NOT_PRINTED = {
    "info": {
        "entries",
        "snapshot",
        "owned",
        "null",
        "partitioner",
        "task",
        "driver",
        "files",
    },  # of object stores; values; of native parts
    "changelog": {"clear", "delete", "put"},  # values
    "compact": {"entries", "removed", "store"},  # of object stores
    "diff": {"_a", "_b"},  # endings, of the numbers of a kind
    "doctor": {"code", "command", "detail", "meaning", "partition", "path", "severity", "store"},
    "history": {  # only versioned stores have one
        *("timestamp_ms", "window_start_ms", "window_end_ms", "session_start_ms"),
        "session_end_ms",
    },
    "lag": {"instance", "role"},  # of --url
    "orphans": {"bytes", "path", "reason"},  # nothing is
    "import-kafka": {"reason"},  # nothing is ignored
}
"""What the pages list, and no call here prints."""

MODULE = """
import statestores as ss
from statestores.processing import Topic, Topology

shop = Topology("shop")
lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
"""

CALLS = """
backends
info state
info state/rates/0
info state/counts/0 --engine
info state/counts/0/changelog
info state/counts/0/snapshots/{snapshot}
get state b --store rates
get state b --store windows
get state b --store sessions
get state b --store stamped
scan state/counts
scan state/rates
scan state/stamped
scan state/windows
scan state/sessions
history state b --store rates
changelog state/counts
changelog state/rates
changelog state/windows
changelog state/sessions
lag state
top state --count 1
du state
diff state/counts/0/snapshots/{snapshot} state/counts
diff state/counts state/counts --offset-a 0 --summary
doctor state
verify state
snapshot state --store rates
compact state --store counts
reshard state counts --partitions 3 --dry-run
reshard state counts --partitions 3 --to resharded
export state/counts counts.arrow
import counts.arrow copied
export-spark state/counts checkpoint
restore state
orphans state
import-quix peers/quix/shop --dry-run
import-quix peers/quix/shop --to taken --store orders.default --backend sqlite
import-faust peers/faust --application-id shop --dry-run
import-faust peers/faust --application-id shop --to taken --store counts --backend sqlite
import-bytewax peers/bytewax --dry-run
import-bytewax peers/bytewax --to taken --store sums.lines
import-database taken.db {table}
import-database taken.db {table} --dry-run
import-kafka kafka/fixture --dry-run
import-kafka kafka/fixture --to taken --store plain --backend sqlite
describe {module}:shop
run {module}:shop --local data --until-idle
reset {module}:shop --local data
new-backend mine
"""


def documented() -> dict[str, set[str]]:
    """Return what the pages list: the fields of each command, with those of rows that begin so."""
    fields: dict[str, set[str]] = {}
    for page in PAGES:
        for table in re.findall(r"^\| command \| fields[^\n]*\n(?:\|.*\n)*", page, re.MULTILINE):
            commands: list[str] = []
            for row in table.splitlines()[2:]:
                first, _, rest = row.strip("| ").partition(" | ")
                named = re.findall(r"`([a-z-]+)[^`]*`", first)
                commands = commands if first.startswith("…") else named
                for command in commands:
                    fields.setdefault(command, set()).update(re.findall(r"`([a-z_0-9]+)`", rest))
    times = fields["scan"] | {"timestamp_ms"}
    for command in ("get", "scan", "history"):
        fields[command] |= times
    fields["import-kafka"] |= fields["import-quix"]
    return fields


def listed(field: object) -> list[Any]:
    """Return *field* if it is a list."""
    return field if isinstance(field, list) else []


def fields_printed(printed: str) -> set[str]:
    """Return the fields of the one document in *printed*, or of its lines, and of lists in it."""
    try:
        documents = [json.loads(printed)]
    except json.JSONDecodeError:
        documents = [json.loads(line) for line in printed.splitlines()]
    rows = [row for each in documents for row in (each if isinstance(each, list) else [each])]
    inner = [each for row in rows for field in _LISTS for each in listed(row.get(field))]
    inner += [step for each in inner if isinstance(each, dict) for step in each.get("steps", ())]
    inner += [row["engine"] for row in rows if isinstance(row.get("engine"), dict)]
    return {name for row in (*rows, *inner) if isinstance(row, dict) for name in row}


_LISTS = (
    *("checks", "ignored", "partitions", "parts", "sessions", "stores", "symptoms", "topics"),
    "windows",
)
"""Fields with a list of rows, whose fields are listed too; `partitions` may be a number."""


def fill(directory: Path) -> None:
    """Make a root with a store of each kind, and what the imports take."""
    root = ss.StateRoot.create(directory / "state")
    typed: Any = {"key": ss.utf8, "value": ss.int64}
    counts = ss.KeyValue("counts", **typed)
    rates = ss.Versioned("rates", history_retention_ms=ss.DAY, **typed)
    stamped = ss.TimestampedKeyValue("stamped", **typed)
    windows = ss.Window("windows", window_size_ms=10, retention_ms=100, **typed)
    sessions = ss.Session("sessions", retention_ms=100, **typed)
    for each in (counts, rates, stamped, windows, sessions):
        root.add_store(each, partitions=1)
        with ss.open_logged_store(root, each, backend="sqlite") as logged:
            store: Any = logged.store
            if each is counts:
                store.put("a", 1)
                store.put("b", 2)
                logged.commit({ss.TopicPartition("words", 0): 1})
                logged.snapshot()
                store.put("b", 3)
            elif each is windows:
                store.put("b", 0, 1)
            elif each is sessions:
                store.put("b", 0, 5, 1)
            else:
                store.put("b", 1, timestamp_ms=5)
            logged.commit()


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make what the calls read, and go there; return what they are given of it."""
    pytest.importorskip("rocksdict")
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    for archive in ("peers.tar.xz", "kafka-streams-4.3.1.tar.xz"):
        unpack(STATES / archive, tmp_path / re.split("[-.]", archive)[0])
    with closing(sqlite3.connect("taken.db")) as database:
        database.execute("create table t (k text, v text)")
        database.execute("insert into t values ('a', 'b')")
        database.commit()
    module = f"fields_{tmp_path.name}"
    Path(f"{module}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    table = "--engine sqlite --table t --key-column k --value-column v --to other "
    table += "--key-serde utf8 --value-serde utf8"
    [snapshot] = (tmp_path / "state/counts/0/snapshots").iterdir()
    return {"module": module, "snapshot": snapshot.name, "table": table}


def test_json_has_the_fields_of_the_pages(names: dict[str, str]) -> None:
    """Of every command; a field that is new is new on the page."""
    listed = documented()
    printed: dict[str, set[str]] = {}
    for call in CALLS.format(**names).strip().splitlines():
        done = invoke(*call.split(), "--json")
        assert done.exit_code in {0, 1}, (call, done.stderr)
        found = fields_printed(done.stdout)
        assert found <= listed[call.split()[0]], call
        printed.setdefault(call.split()[0], set()).update(found)

    unseen = {command: listed[command] - found for command, found in printed.items()}
    assert {command: left for command, left in unseen.items() if left} == NOT_PRINTED


def test_every_command_with_json_is_on_a_page_and_called() -> None:
    """Or another test looks at its fields."""
    group = cast("Any", get_command(app))
    for name in group.commands:
        group.import_command(name)
    commands = {
        name
        for name, command in group.commands.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }

    assert commands <= set(documented())
    assert commands - {call.split()[0] for call in CALLS.strip().splitlines()} <= set(ELSEWHERE)
