"""What differs by kind of store stands in `statestores.spi.kinds`, and nowhere a second time."""

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from statestores.spi.kinds import KINDS, Kind

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "statestores"
SPECIFICATIONS = {"KeyValue", "TimestampedKeyValue", "Versioned", "Window", "Session"}

ROOMS = {"spi", "semantics", "serdes", "processing"}
"""Where a kind has something of its own: what it says, what it means, its serdes and operators."""

MOST_TESTS = 22
"""Tests of a specification's class outside of `ROOMS`. The number may only fall: a fact about a
kind belongs into its `Kind`."""

_LAST_OF_KINDS = "WINDOW, SESSION)"

_SIXTH_KIND = """
_SEEN = NumberColumn(name="seen", row_name="seen_from", attribute="times_ms")
SIGHTING: Final = Kind(
    "sighting",
    code=6,
    numbers=(_SEEN,),
    order=(_SEEN,),
    expires_by=_SEEN,
    retention="retention_ms",
    fields=(_RETENTION,),
    times=("seen_from",),
    told_by="seen_from",
)

"""

_USE_OF_THE_SIXTH_KIND = """
import sys
from pathlib import Path

import pyarrow as pa

import statestores
from statestores.arrow.schemas import first_disorder, put_order, rows_from_changes
from statestores.changelog import FileChangelog, compact
from statestores.changelog.rows import change_schema, order_column
from statestores.cli.commands.info import _DURATIONS
from statestores.cli.time_columns import TIME_COLUMNS as SHOWN_TIMES
from statestores.serdes.descriptions import _COMMON, _FIELDS
from statestores.spark.options.read_and_write import KAFKA_KINDS, STORE_KINDS
from statestores.spark.store_options import _PARAMETERS
from statestores.spi import Changes
from statestores.spi.kinds import DERIVED_COLUMNS, TIME_COLUMNS

assert Path(statestores.__file__).is_relative_to(sys.argv[1]), statestores.__file__

changes = Changes([b"a", b"b", b"a", b"a"], [b"1", b"2", None, b"4"], times_ms=[5, 9, 5, 2])
with FileChangelog.create(Path(sys.argv[1], "log"), "sighting") as log:
    log.append(changes)
    log.seal()
    report = compact(log, retention_ms=6)
with FileChangelog.open(Path(sys.argv[1], "log"), "sighting") as log:
    batches = [frame.batch for frame in log.read()]
left = pa.Table.from_batches(batches)
assert left.to_pydict() == {"key": [b"b", b"a"], "value": [b"2", None], "seen": [9, 5]}, left

content = rows_from_changes("sighting", Changes([b"a"], [b"1"], times_ms=[5]))
assert content.to_pydict() == {"key": [b"a"], "value": [b"1"], "seen_from": [5]}, content
assert put_order("sighting") == "seen_from"
assert order_column(change_schema("sighting")) == "seen"
assert first_disorder(content, content) == 0

assert [column.title for column in SHOWN_TIMES["sighting"]] == ["seen from"]
assert set(_DURATIONS) >= {"retention_ms"}
assert set(_FIELDS["sighting"]) == {*_COMMON, "retention_ms"}
assert "sighting" in STORE_KINDS and "sighting" in KAFKA_KINDS
assert "sighting" in _PARAMETERS["retention"][1]
assert {"seen", "seen_from"} <= TIME_COLUMNS and not {"seen", "seen_from"} & DERIVED_COLUMNS
print("used")
"""


@cache
def expressions_outside_the_rooms() -> list[tuple[str, ast.AST]]:
    """Return what the library's modules consist of that have nothing of a single kind's own.

    Of those, at least, in which a word stands that can be a kind: nothing else is looked for.
    """
    return [
        (f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}", node)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ROOMS
        if any(word in (text := path.read_text("utf-8")) for word in (*SPECIFICATIONS, *KINDS))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Dict | ast.Set | ast.Tuple | ast.List)
    ]


def names_in(node: ast.AST) -> set[str]:
    """Return the names that an expression uses."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


@pytest.mark.spec("COM-13", "LOG-21")
def test_names_and_codes_are_those_that_are_stored() -> None:
    """They are in every store and changelog that there is."""
    stored = {
        "key-value": 1,
        "versioned": 2,
        "timestamped-key-value": 3,
        "window": 4,
        "session": 5,
    }

    assert {name: kind.code for name, kind in KINDS.items()} == stored


@pytest.mark.spec("LOG-21")
def test_the_specification_knows_the_same_codes() -> None:
    """The table of a segment's head lists them."""
    chapter = (ROOT / "spec" / "06-changelog.md").read_text("utf-8")
    listed = re.search(r"kind of store: ([^|;]+);", chapter)
    assert listed is not None
    written = dict(each.split(" ", 1)[::-1] for each in listed[1].split(", "))

    assert written == {
        name.replace("timestamped-key", "timestamped key"): str(kind.code)
        for name, kind in KINDS.items()
    }


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_what_a_kind_says_agrees_with_itself(kind: Kind) -> None:
    """What orders rows and what they expire by are columns of theirs; a retention is a field."""
    fields = {field.name for field in kind.fields}

    assert KINDS[kind] is kind
    assert set(kind.order) <= set(kind.numbers)
    assert kind.expires_by is None or kind.expires_by in kind.numbers
    assert kind.put_by == (kind.order[0] if kind.order else None)
    assert kind.retention is None or kind.retention in fields
    assert kind.told_by is None or kind.told_by in fields | {each.row_name for each in kind.numbers}


def test_no_table_by_kind_stands_beside_the_kinds() -> None:
    """Outside of a kind's own rooms, no dictionary or set has the kinds one by one."""
    tables = [
        place
        for place, node in expressions_outside_the_rooms()
        if isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List)
        if sum(map(is_kind, node.keys if isinstance(node, ast.Dict) else node.elts)) > 1
    ]

    assert tables == []


def is_kind(node: ast.expr | None) -> bool:
    """Whether an expression is a kind: `Versioned.kind`, ``"versioned"`` or a specification."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in KINDS
    if isinstance(node, ast.Attribute):
        return node.attr == "kind" and bool(names_in(node) & SPECIFICATIONS)
    return isinstance(node, ast.Name) and node.id in SPECIFICATIONS


def test_tests_of_a_specification_s_class_become_fewer() -> None:
    """What is no more than a fact is asked of the kind; what is left needs a kind's own fields."""
    found = [
        place
        for place, node in expressions_outside_the_rooms()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and names_in(node.args[1]) & SPECIFICATIONS
    ]

    assert len(found) <= MOST_TESTS, found


def test_a_sixth_kind_is_an_entry_of_the_kinds(tmp_path: Path) -> None:
    """Its changelog, compaction, rows, options and columns are there without another edit."""
    shutil.copytree(SOURCE, tmp_path / "statestores", ignore=shutil.ignore_patterns("__pycache__"))
    kinds = tmp_path / "statestores" / "spi" / "kinds.py"
    text = kinds.read_text("utf-8")
    assert text.count(_LAST_OF_KINDS) == text.count("\nKINDS: Final") == 1
    text = text.replace(_LAST_OF_KINDS, "WINDOW, SESSION, SIGHTING)")
    kinds.write_text(text.replace("\nKINDS: Final", f"{_SIXTH_KIND}\nKINDS: Final"), "utf-8")

    program = tmp_path / "program.py"  # its directory is where it looks for packages first
    program.write_text(_USE_OF_THE_SIXTH_KIND, "utf-8")

    finished = subprocess.run(
        [sys.executable, program, tmp_path], capture_output=True, text=True, check=False
    )

    assert (finished.stdout, finished.stderr) == ("used\n", "")
