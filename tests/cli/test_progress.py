"""A bar and lines on one terminal, and neither of them in the other's way.

``verify`` printed each finding into the bar that it was drawing: "verifying ━━ 0 rows 0:00:00ok
store ..." stayed on the screen, and parts of lines were wiped out with the bar.
"""

import errno
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked_programs import Forked

import statestores as ss
from statestores.partitioning import murmur2_partitioner

VERIFY = [sys.executable, "-m", "statestores.cli", "verify"]

_SHOP = """
import statestores as ss
from statestores.processing import Topic, Topology

topology = Topology("shop")
lines = topology.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
lines.to(Topic("out", key=ss.utf8, value=ss.utf8))
"""

_ON_TERMINAL = """
import json, os, sys

name, numbers, directory = json.loads(sys.argv.pop(1))
os.environ.update(COLUMNS="300", TERM="xterm")
os.chdir(directory)
sys.path.insert(0, directory)
terminal = os.open(name, os.O_RDWR)
os.write(1, b"ready\\n")
for number in numbers:
    os.dup2(terminal, number)
os.close(terminal)
sys.stdin = open(0, closefd=False)
sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)
from statestores.cli import main
main()
"""
"""A command that is forked, and whose standard files of some numbers are a terminal."""

_STEP = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a state root with some partitions to check."""
    made = ss.StateRoot.create(tmp_path / "r")
    made.add_store(ss.KeyValue("counts"), partitions=3)
    for number, key in enumerate((b"1", b"4", b"0")):  # each where murmur2 puts it
        assert murmur2_partitioner.partition(key, 3) == number
        with ss.open_logged_store(made, "counts", number, backend="sqlite") as logged:
            logged.store.put(key, b"v")
            logged.commit()
            logged.snapshot()
    return made.path


@pytest.mark.long
def test_findings_and_bar_do_not_tangle(root: Path) -> None:
    """What is left on the screen is the findings, each on a line of its own, and no bar."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "300", "TERM": "xterm"}
    with subprocess.Popen(
        [*VERIFY, root], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = _read(ours)
    os.close(ours)
    lines = [line.strip() for line in _screen(shown) if line.strip()]
    plain = subprocess.run([*VERIFY, root], capture_output=True, text=True, check=True)

    assert process.returncode == 0
    assert "verifying" in shown, "there was a bar"
    assert lines == [line.strip() for line in (plain.stdout + plain.stderr).splitlines()]


def test_a_pipe_has_the_lines_while_a_terminal_has_the_bar(root: Path) -> None:
    """Nothing of the bar is in the pipe, and no line is on the terminal."""
    shown, piped, code = _on_terminal([0, 2], root.parent, "verify", "--json", root)

    assert code == 0
    assert "\x1b" not in piped
    assert piped.startswith("{")
    assert piped.endswith("}\n")
    assert "verifying" in shown
    assert "checks" not in shown


def test_a_run_says_how_far_it_has_come(tmp_path: Path) -> None:
    """It may take hours, and said nothing before its end; then the line goes, and the sum stays."""
    (tmp_path / "shop.py").write_text(_SHOP)
    (tmp_path / "in.jsonl").write_text('{"key": "a", "value": "b"}\n' * 3)
    command = "run shop:topology --local d --until-idle --backend memory"
    source = "lines=in.jsonl?key=key&value=value"
    shown, _, code = _on_terminal([0, 1, 2], tmp_path, *command.split(), "--source", source)

    assert code == 0, shown
    assert "running shop:" in shown
    [line] = [line.strip() for line in _screen(shown) if line.strip()]
    assert "records processed" in line


def _on_terminal(numbers: list[int], directory: Path, *arguments: object) -> tuple[str, str, int]:
    """Run a command in *directory*; return what a terminal shows, what a pipe has, and its code."""
    ours, theirs = pty.openpty()
    asked = json.dumps([os.ttyname(theirs), numbers, str(directory)])
    with Forked(_ON_TERMINAL, asked, *arguments) as child:
        assert child.stdout.readline() == "ready\n", child.errors()
        os.close(theirs)
        shown = _read(ours)
        os.close(ours)
        return shown, child.stdout.read(), child.wait()


def _read(descriptor: int) -> str:
    """Return all that a program prints to a terminal."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65_536)
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that the other end is closed
                raise
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


def _screen(text: str) -> list[str]:
    """Return what a terminal shows at the end: enough of one for what the library prints."""
    lines, row, column = [""], 0, 0
    for arguments, command, back, down, characters in _STEP.findall(text):
        if back:
            column = 0
        elif down:
            row += 1
            lines.extend([""] * (row + 1 - len(lines)))
        elif characters:
            kept = lines[row].ljust(column)
            lines[row] = kept[:column] + characters + kept[column + len(characters) :]
            column += len(characters)
        elif command == "A":
            row = max(0, row - int(arguments or 1))
        elif command == "K":
            lines[row] = "" if arguments == "2" else lines[row][:column]
    return lines
