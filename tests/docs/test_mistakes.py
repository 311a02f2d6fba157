"""The page of typical mistakes: each is made, and says what the page shows.

`tests/packaging/test_wrong_arguments.py` and `tests/processing/test_misuse.py` make many more, and
ask of them only that they are refused in words of ours; here the words themselves are looked at.
"""

import re
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import invoke

from statestores.errors import StateStoreError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8")

_ROW = re.compile(
    r"^\| (?P<mistake>[^|`].*?) \| `(?P<code>[^`]+)` \| (?P<said>.+) \|$", re.MULTILINE
)

_CHANGING = (
    (re.compile(r"process \d+"), "process 4711"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00"), "2026-01-01T00:00:00+00:00"),
    (re.compile(r" at 0x[0-9a-f]+"), ""),
    (re.compile(re.escape(repr(socket.gethostname()))), "'here'"),
)
"""What is another one on each machine."""


def said_by(code: str, names: dict[str, object], directory: Path) -> str:
    """Return what *code* says, a call or a command of the command line, as the page shows it."""
    if code.startswith("statestores "):
        outcome = invoke(*shlex.split(code)[1:])
        assert outcome.exit_code in {1, 2}
        assert outcome.stdout == ""
        said = f"exit code {outcome.exit_code}: {outcome.stderr.strip()}"
    else:
        with pytest.raises(StateStoreError) as raised:
            exec(compile(code, "<mistake>", "exec"), names)  # noqa: S102  # of this repository
        said = f"`{type(raised.value).__name__}`: {raised.value}"
    for changing, word in _CHANGING:
        said = changing.sub(word, said)
    return said.replace(f"{directory}/", "").replace("|", "\\|").replace("*", "\\*")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """Run the page's program in an empty directory, and close what it has opened."""
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, object] = {}
    with ExitStack() as opened:
        exec(compile(program, "mistakes.md", "exec"), found)  # noqa: S102  # of this repository
        for each in found.values():
            if hasattr(each, "close") and not isinstance(each, type):
                opened.callback(each.close)
        yield found


def test_each_mistake_says_what_the_page_shows(names: dict[str, object], tmp_path: Path) -> None:
    """One after the other, none of which changes anything for the next."""
    rows = list(_ROW.finditer(PAGE))
    told = [(row["code"], said_by(row["code"], names, tmp_path)) for row in rows]

    assert f"The {len(rows)} mistakes below" in PAGE
    assert len({row["code"] for row in rows}) == len(rows)
    assert told == [(row["code"], row["said"]) for row in rows]


def test_every_row_of_the_page_is_made() -> None:
    """A row that the test cannot read would not be tested."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and " | `" in line]

    assert len(lines) == len(list(_ROW.finditer(PAGE)))
