"""Writes the programs of the README and the documentation as modules, for type checkers.

The blocks of a page are one program, as the tests run them. `make docs-types` checks what it writes
with mypy and pyright; sessions with prompts are left out, and lines keep their numbers.

Blocks marked ``py`` need a broker, a registry or a cluster, so no test runs them. With the others
of their page they are written into the directory `EXCERPTS` beside, where `make mypy` finds names
that the reader has not been told of.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

EXCERPTS = "excerpts"

_FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_FENCE = re.compile(r"^```py(?:thon)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(page: Path, fence: re.Pattern[str] = _FENCE) -> str:
    """Return the programs of *page*, each at its own line; those that *fence* finds."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in fence.finditer(text):
        if ">>>" in block[1]:
            continue
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write a module for each page that has a program into the directory that is named."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    (target / EXCERPTS).mkdir(parents=True)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix()) + ".py"
        for directory, program in (
            (target, programs(page)),
            (target / EXCERPTS, programs(page, _ANY_FENCE)),
        ):
            if program.strip():
                (directory / name).write_text(program, encoding="utf-8")


if __name__ == "__main__":
    main()
