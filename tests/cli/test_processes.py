"""The program itself, as a process: pipes, locks between processes, and what it loads."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked_programs
import pytest

import statestores as ss
from statestores.logged_store import open_logged_store
from statestores.partitioning import murmur2_partitioner
from statestores.serdes import row, row_sorted
from statestores.serdes.rows.plain_values import row_from_plain
from statestores_conformance.many_cases import for_each

_PROGRAM = (sys.executable, "-m", "statestores")

_OWNER = """
import sys
import statestores as ss
with ss.open_existing(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""

_INTERRUPTED = """
import sys
slow = sys.argv.pop(1)
class Slow:
    def find_spec(self, name, path, target=None):
        if name == slow:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Slow())
from statestores.cli import main
main()
"""

_FORKED = """
import json, os, sys
os.environ.update(json.loads(sys.argv.pop(1)))
from statestores.cli import main
main()
"""

_WITHOUT_ERRORS = """
import os, sys
os.close(2)
sys.stderr = None
from statestores.cli import main
main()
"""

_WITHOUT_ROOM = """
import os
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
from statestores.cli import main
main()
"""

_THEN_PANDAS = """
import atexit, sys
from statestores.cli import main

def use_pandas():
    before = "pandas" in sys.modules
    import pyarrow as pa
    from pandas import Categorical, Series
    arrays = pa.array(Categorical(["a"])), pa.array(Series([1.0, float("nan")]))
    print(before, arrays[0].type.index_type, arrays[1].null_count)

atexit.register(use_pandas)
main()
"""

_WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from statestores.cli import main
main()
"""


def _run_forked(
    *arguments: object, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command whose start is not what the test is about."""
    return forked_programs.run(_FORKED, json.dumps(environment), *arguments)


def test_a_store_of_another_process_is_named_with_its_owner(
    bare: Path, run: Callable[..., Any]
) -> None:
    """Process id and host, in one sentence."""
    command = [sys.executable, "-c", _OWNER, str(bare)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        found = run("scan", bare)
        owner.stdin.close()

    assert found.code == 1
    assert found.out == ""
    assert f"is open in process {owner.pid} on " in found.err
    assert found.err.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """As with ``| head``: it ends quietly, as a program does that SIGPIPE has ended."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("many"), partitions=1)
    with open_logged_store(state, "many", 0, backend="memory") as store:
        store.store.put_all((b"%06d" % number, b"x" * 50) for number in range(20_000))
        store.commit()
    command = [*_PROGRAM, "scan", str(state.path), "--limit", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as scan:
        assert scan.stdout is not None
        assert scan.stderr is not None
        first = scan.stdout.readline()
        scan.stdout.close()
        complaint = scan.stderr.read()

    assert first == "key\tvalue\tpartition\n"
    assert complaint == ""
    assert scan.returncode == 141


def test_a_closed_output_is_a_sentence(tmp_path: Path) -> None:
    """With ``>&-`` Python has no standard output at all, and the first line was a traceback."""
    ss.StateRoot.create(tmp_path / "state")
    command = f"exec {shlex.join(_PROGRAM)} info {tmp_path / 'state'} >&-"
    finished = subprocess.run(
        ["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False
    )

    assert finished.returncode == 1
    assert finished.stderr.startswith("statestores: standard output is closed")


def test_a_closed_standard_error_leaves_the_output_as_it_is(tmp_path: Path) -> None:
    """With ``2>&-`` remarks were printed on standard output, where they were no JSON.

    The number of standard error was that of the next file that was opened, such as an engine's.
    """
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("many"), partitions=1)
    with open_logged_store(state, "many", 0, backend="memory") as store:
        store.store.put_all((b"%d" % number, b"") for number in range(9))
        store.commit()
    for arguments, code, lines in (
        (["scan", str(state.path), "--json", "--limit", "2"], 0, 2),
        (["scan", str(tmp_path / "nothing")], 1, 0),
        (["scan"], 2, 0),
    ):
        if code:
            finished = forked_programs.run(_WITHOUT_ERRORS, *arguments)
        else:  # once as a shell does it
            command = f"exec {shlex.join([*_PROGRAM, *arguments])} 2>&-"
            finished = subprocess.run(
                ["/bin/sh", "-c", command], stdout=subprocess.PIPE, text=True, check=False
            )

        assert finished.returncode == code
        assert [set(json.loads(line)) for line in finished.stdout.splitlines()] == [
            {"key", "value", "partition"}
        ] * lines


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["scan", "--help"], ["backends"]])
def test_an_output_without_room_is_a_sentence(arguments: list[str]) -> None:
    """What is printed before a command begins, help and version, ended with a traceback."""
    if arguments == ["--version"]:  # once as a shell does it
        command = f"exec {shlex.join([*_PROGRAM, *arguments])} >/dev/full"
        finished = subprocess.run(
            ["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False
        )
    else:
        finished = forked_programs.run(_WITHOUT_ROOM, *arguments)

    assert finished.stderr == "statestores: cannot read or write: No space left on device\n"
    assert finished.returncode == 1


def test_colours_can_be_forbidden(root: Path, subtests: pytest.Subtests) -> None:
    """``NO_COLOR`` wins over a terminal that can show them."""
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for coloured in (True, False):
        environment = forced if coloured else {**forced, "NO_COLOR": "1"}
        with subtests.test(coloured=coloured):
            found = _run_forked("verify", root, environment=environment)

            assert found.returncode == 0
            assert ("\x1b[32m" in found.stdout) == coloured


@pytest.mark.spec("SRD-41", "SRD-45")
def test_rows_of_a_schema_are_shown_found_and_moved(
    tmp_path: Path, run: Callable[..., Any], subtests: pytest.Subtests
) -> None:
    """As JSON, in and out, and as structs in files, from which the same store is made.

    Parquet refused a struct that was null and had fields that cannot be: Arrow had left nulls where
    nobody sees them, and the export ended with its traceback.
    """
    _store_of_rows(tmp_path / "state")
    shown = [json.dumps({"key": key, "value": value}) for key, value in _SHOWN]
    with subtests.test("scan"):
        assert _rows_of(run, tmp_path / "state") == shown
    with subtests.test("get, by a key as JSON, in which what is null may be left out"):
        found = run("get", tmp_path / "state", '{"shop": "paris", "id": 2}')
        assert (found.code, json.loads(found.out)) == (0, _SHOWN[1][1])
        found = run("get", tmp_path / "state", '{"shop": "paris", "id": "2"}')
        assert found.code == 2
        assert "in 'id': expected an int of 64 bits, got '2'" in found.err
    for name in ("rows.arrow", "rows.parquet"):
        with subtests.test(name):
            moved, file = tmp_path / f"{name}-state", tmp_path / name
            assert run("export", tmp_path / "state", file).err == ""
            assert run("import", file, moved, "--partitions", 3).err == ""
            assert _rows_of(run, moved) == shown


_EMPTY = dict.fromkeys(("price", "at", "raw", "x", "notes", "place"))
_SHOWN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"shop": "paris", "id": 1, "at": "2024-02-29"},
        {
            "price": "9.90",
            "at": "2024-01-01T12:00:00.000001+00:00",
            "raw": {"hex": "ff00"},
            "x": "Infinity",
            "notes": {"é": 1, "b": None},
            "place": {"lat": 1.5, "tags": ["a", None]},
        },
    ),
    ({"shop": "paris", "id": 2, "at": None}, _EMPTY),
    ({"shop": "ürümqi", "id": -3, "at": None}, {**_EMPTY, "raw": "text"}),
]
"""What is shown of the store, in the order of its keys."""


def _store_of_rows(path: Path) -> None:
    """Make a store that has what `_SHOWN` says."""
    key = row_sorted("shop: string not null, id: int64 not null, at: date32")
    value = row(
        "price: decimal128(10, 2), at: timestamp[us, tz=UTC], raw: binary, x: double, "
        "notes: map<string, int32>, place: struct<lat: double not null, tags: list<string>>"
    )
    root = ss.StateRoot.create(path)
    root.add_store(ss.KeyValue("orders", key=key, value=value), partitions=2)
    for number in range(2):
        with open_logged_store(root, "orders", number, backend="memory") as store:
            for shown_key, shown_value in _SHOWN:
                encoded = key.encode_plain(shown_key)
                if murmur2_partitioner.partition(encoded, 2) == number:
                    put = row_from_plain(value.schema, shown_value)
                    store.store.put(key.decode(encoded), put)
            store.commit()


def _rows_of(run: Callable[..., Any], path: Path) -> list[str]:
    """Return what `scan` shows, without the partitions."""
    found = run("scan", path, "--json")
    assert found.code == 0, found.err
    rows = [json.loads(line) for line in found.out.splitlines()]
    return [json.dumps({"key": each["key"], "value": each["value"]}) for each in rows]


def test_a_terminal_gets_a_table(root: Path) -> None:
    """With the titles above and nothing between."""
    environment = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}
    found = _run_forked("scan", root / "planes", "--limit", "2", environment=environment)
    lines = found.stdout.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()

    assert [line.split()[0] for line in lines] == ["key", "N001ü", "N002ü"]
    assert "\t" not in found.stdout


def test_text_beyond_ascii_survives_a_plain_environment(root: Path) -> None:
    """The C locale is no reason to fail.

    The same process tells whether the command has imported pandas: Arrow does to find out whether
    it was given something of it, a fifth to a quarter of what commands took.
    What is imported later all the same, such as by a driver, Arrow knows.
    """
    pytest.importorskip("pandas")
    command = [sys.executable, "-c", _THEN_PANDAS, "scan", str(root / "planes"), "--limit", "1"]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C"},
    )
    *rows, last = found.stdout.splitlines()

    assert found.returncode == 0
    assert "N001ü" in "".join(rows)
    assert last == "False int8 1"


@for_each("package", ["typer", "rich"])
def test_a_missing_package_says_what_to_install(package: str) -> None:
    """The library works without; the command line does not."""
    command = [sys.executable, "-c", _WITHOUT, package, "backends"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert found.returncode == 1
    assert f"needs the package '{package}" in found.stderr
    assert "pip install 'statestores[cli]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_commands_that_need_no_arrow_run_without_it() -> None:
    """Those that do say what to install; writing a backend of one's own needs no 200 MB."""
    program = [sys.executable, "-c", _WITHOUT, "pyarrow"]
    found = subprocess.run([*program, "backends"], capture_output=True, text=True, check=False)
    refused = subprocess.run([*program, "info", "."], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stderr) == (0, "")
    assert "memory" in found.stdout
    assert refused.returncode == 1
    assert "the command 'info' needs the package 'pyarrow'" in refused.stderr
    assert "pip install 'statestores[cli,arrow]'" in refused.stderr


@for_each("module", ["sentences", "output"])
def test_an_interrupt_while_modules_are_loaded_ends_quietly(module: str) -> None:
    """Control-C in the first second of any command printed a traceback of an import.

    Some modules are loaded for all commands, others for the one that is called.
    """
    command = [sys.executable, "-c", _INTERRUPTED, f"statestores.cli.{module}", "info", "state"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
