"""Links between the Markdown files of the repository lead to files, and to headings in them."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import wrap_pages

from statestores_conformance.many_cases import for_each

ROOT = Path(__file__).parents[2]

_FOLDERS = ("docs", "spec", "conformance", "benchmarks", "examples", ".github")

_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:")


def pages() -> list[Path]:
    """Return the Markdown files of the repository."""
    nested = [file for folder in _FOLDERS for file in (ROOT / folder).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *nested])


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the names of the headings of *page*, as GitHub makes them, the same ones numbered."""
    text = re.sub(
        r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    found: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(text):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = "".join(
            "-" if each == " " else each
            for each in shown.lower()
            if each in " -_" or unicodedata.category(each)[0] in "LN"
        )
        number = found.get(name, 0)
        found[name] = number + 1
        names.add(f"{name}-{number}" if number else name)
    return frozenset(names | set(re.findall(r'<a (?:id|name)="([^"]+)"', text)))


def broken_links(page: Path, root: Path = ROOT) -> list[str]:
    """Return the links of *page* that lead nowhere in *root*."""
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if _ABSOLUTE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and root in (target, *target.parents)
        has_headings = bool(anchor) and target.suffix == ".md"
        if not is_there or (has_headings and anchor not in anchors(target)):
            broken.append(link)
    return broken


@for_each("page", pages())
def test_every_link_leads_somewhere(page: Path) -> None:
    """A file of the repository, and where one is named, a heading in it."""
    assert broken_links(page) == []


def test_no_page_is_wider_than_a_hundred_columns() -> None:
    """But for tables and programs; `make pages` wraps what is."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}

    assert [page for page, text in texts.items() if wrap_pages.wrapped(text) != text] == []


def test_wrapping_changes_nothing_but_the_ends_of_lines() -> None:
    """Items keep their indent, no line begins as one would, and the rest is left alone."""
    long, wide = "word " * 18, "word " * 30
    kept = f"# {wide}\n\n| {wide} |\n\n    {wide}\n"
    kept += f"\n```\n{wide}\n```\n"
    item = f"* {long}and 222 - 1 that\n  goes on\n"

    assert wrap_pages.wrapped(kept + item) == kept + f"* {long}and\n  222 - 1 that goes on\n"
    assert wrap_pages.wrapped("short\nlines\n") == "short\nlines\n"


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A check that finds nothing would pass for ever."""
    page = tmp_path / "page.md"
    page.write_text("# A `b` c!\n[1](#a-b-c) [2](#nope) [3](none.md) [4](https://x.y) `[5](z)`\n")

    assert broken_links(page, tmp_path) == ["#nope", "none.md"]
    assert anchors(page) == {"a-b-c"}


def test_there_are_pages() -> None:
    """And they are found."""
    assert len(pages()) > 100
