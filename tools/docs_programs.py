"""Writes the programs of the README and the documentation as modules, for type checkers.

The blocks of a page are one program, as the tests run them. `make docs-types` checks what it writes
with mypy and pyright; sessions with prompts are left out, and lines keep their numbers.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(page: Path) -> str:
    """Return the programs of *page*, each at its own line."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in _FENCE.finditer(text):
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
    target.mkdir(parents=True)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        program = programs(page)
        if program.strip():
            name = page.relative_to(ROOT).with_suffix("").as_posix()
            (target / (re.sub(r"\W", "_", name) + ".py")).write_text(program, encoding="utf-8")


if __name__ == "__main__":
    main()
