"""Wraps paragraphs of pages that are wider than a page may be: `make pages`.

Only paragraphs and items of lists with a line that is too long are touched, and of them only where
lines end. Tables, programs, headings and lines that cannot be broken stay as they are.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 100

_FOLDERS = ("docs", "spec", "conformance", "benchmarks", "examples", ".github")
_ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
_NO_TEXT = re.compile(r" *(\||#|>|<|\[[^]]+\]:|    )")
_STARTS_SOMETHING = re.compile(r"([-*+>]|\d+[.)]|#+|=+|\|.*)$")
"""Words that would begin a list, a heading or a table, were they the first of a line."""


def pages() -> list[Path]:
    """Return the Markdown files of the repository."""
    nested = [file for folder in _FOLDERS for file in (ROOT / folder).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *nested])


def _blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield the lines of *text* in groups: whether they are a paragraph or an item, and lines."""
    fenced = False
    block: list[str] = []
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_text = bool(line.strip()) and not (fenced or is_fence)
        is_text = is_text and (_NO_TEXT.match(line) is None or bool(block))
        is_text = is_text and not line.lstrip().startswith(("|", "#"))
        if block and (not is_text or _ITEM.match(line)):
            yield True, block
            block = []
        if is_text:
            block.append(line)
        else:
            yield False, [line]
        fenced ^= is_fence
    if block:
        yield True, block


def _wrapped(block: list[str]) -> list[str]:
    """Return a paragraph, or an item of a list, in lines that are short enough."""
    item = _ITEM.match(block[0])
    first = item[0] if item else re.match(" *", block[0])[0]  # type: ignore[index]  # it matches
    rest = " " * len(first)
    words = " ".join([block[0][len(first) :], *block[1:]]).split()
    lines = [first + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= COLUMNS:
            lines[-1] += f" {word}"
        elif _STARTS_SOMETHING.match(word):
            lines[-1], _, before = lines[-1].rpartition(" ")
            lines.append(f"{rest}{before} {word}")
        else:
            lines.append(rest + word)
    return lines


def wrapped(text: str) -> str:
    """Return *text* with paragraphs wrapped that are too wide."""
    lines: list[str] = []
    for is_text, block in _blocks(text):
        is_wide = is_text and max(map(len, block)) > COLUMNS
        lines += _wrapped(block) if is_wide else block
    return "\n".join(lines) + "\n"


def main() -> int:
    """Wrap every page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (now := wrapped(text)) != text:
            page.write_text(now, encoding="utf-8")
            print(f"pages: wrapped {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
