"""The page for operators: its output is what the commands print, its tables what the code says."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from command_line import invoke

from statestores.cli.columns import Column
from statestores.cli.operating import du, lag, top
from statestores.cli.operating.ailments import AILMENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")

_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\d+(\.\d)? (B|KiB|MiB)\b"), "SIZE"),
)
"""What is another one on each machine."""


_NONE = "\N{EN DASH}"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _calls() -> list[tuple[str, str]]:
    """Return the commands of the page in order, each with the output that is shown."""
    parts = [
        part
        for block in _blocks("console")
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)
    ]
    pairs = [part.partition("\n") for part in parts if part]
    return [(command, shown) for command, _, shown in pairs]


def _normal(text: str) -> list[str]:
    """Return the words of *text* that no other machine prints otherwise, however it is aligned."""
    for changing, word in _CHANGING:
        text = changing.sub(word, text)
    return text.split()


def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, from the root that the page's program makes."""
    (program,) = _blocks("python")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "operating.md", "exec"), {})  # noqa: S102  # of this repository
    calls = _calls()
    assert len(calls) >= 10
    for command, shown in calls:
        program, *arguments = shlex.split(command)
        if program != "statestores":
            subprocess.run(["/bin/sh", "-c", command], check=True)
            continue
        found = invoke(*arguments)
        # Errors name a file by its whole path, and the page has it as from its own directory.
        printed = _normal((found.stdout + found.stderr).replace(f"{tmp_path}/", ""))
        # Remarks go to another stream, and a terminal shows them where they come.
        assert sorted(printed) == sorted(_normal(shown)), command


def _rows(first: str) -> list[list[str]]:
    """Return the cells of the page's tables in rows whose first cell matches *first*."""
    rows = re.findall(rf"^\| ({first}) \|(.*) \|$", PAGE, re.MULTILINE)
    return [[cell, *(each.strip() for each in rest.split(" | "))] for cell, *_, rest in rows]


def test_the_page_has_every_ailment() -> None:
    """With its severity, its meaning and the command that mends it."""
    shown = [row for row in _rows("`[a-z-]+`") if row[1] in {"error", "warning", "note"}]
    known = [
        [
            f"`{each.code}`",
            each.severity.value,
            each.meaning,
            _NONE if each.command is None else f"`{each.command.replace('{local}', '')}`",
        ]
        for each in AILMENTS.values()
    ]

    assert shown == known


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        ("lag", lag.COLUMNS),
        ("lag --url", lag.REMOTE_COLUMNS),
        ("top", top.COLUMNS),
        ("du", du.COLUMNS),
    ],
    ids=["lag", "lag-url", "top", "du"],
)
def test_the_page_has_every_field(command: str, columns: tuple[Column, ...]) -> None:
    """In the order in which they are printed."""
    (row,) = [row for row in _rows(f"`{command}`") if "`" in row[1]]

    assert row[1] == ", ".join(f"`{column.name}`" for column in columns)
