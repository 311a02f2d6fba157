"""The specification is consistent: numbers, citations from the code, table of chapters."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from statestores_conformance.vectors.differences import DIFFERENCES

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "spec"
CHAPTERS = sorted(SPEC.glob("[0-9][0-9]-*.md"))
DOCUMENTS = [*sorted(SPEC.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

REQUIREMENT = re.compile(
    r"^\*\*([A-Z]{3})-(\d+) \((MUST|SHOULD|MAY|WITHDRAWN)\)\*\* \S", re.MULTILINE
)
REQUIREMENT_LIKE = re.compile(r"^ *\*\*[A-Z]{2,4}-\d+", re.MULTILINE)
CITATION = re.compile(r"\b([A-Z]{2,4})-(\d+)\b")

OTHER_NAMES = {"CRC", "ISO", "KIP", "RFC", "SHA", "UTF"}
"""Standards and the like that are written as requirements are."""


class Requirement(NamedTuple):
    """One numbered paragraph."""

    chapter: str
    series: str
    number: int

    @property
    def identifier(self) -> str:
        """The number as it is cited."""
        return f"{self.series}-{self.number}"


def requirements() -> list[Requirement]:
    """Return the requirements of all chapters."""
    return [
        Requirement(chapter.name, series, int(number))
        for chapter in CHAPTERS
        for series, number, _ in REQUIREMENT.findall(chapter.read_text("utf-8"))
    ]


KNOWN = {requirement.identifier for requirement in requirements()}
SERIES = {requirement.series for requirement in requirements()}


def python_files(*folders: str) -> list[Path]:
    """Return the Python files of the repository's *folders*."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    """Return a path as a test's name."""
    return path.relative_to(ROOT).as_posix()


def unknown(files: Iterable[Path], cited: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """Return, by file, what *cited* finds in it that no chapter has."""
    found = {name_of(path): cited(path) - KNOWN for path in files}
    return {name: identifiers for name, identifiers in found.items() if identifiers}


def numbers_if(wanted: Callable[[str], bool]) -> Callable[[Path], set[str]]:
    """Return a function that gives what a file cites of the series that are *wanted*."""

    def numbers(path: Path) -> set[str]:
        found = CITATION.findall(path.read_text("utf-8"))
        return {f"{series}-{number}" for series, number in found if wanted(series)}

    return numbers


def test_every_number_is_given_once() -> None:
    """No two requirements have the same number."""
    counted = Counter(requirement.identifier for requirement in requirements())

    assert [identifier for identifier, times in counted.items() if times > 1] == []


def test_numbers_have_no_holes() -> None:
    """Each series counts from 1: a missing number is one that somebody took away."""
    numbers: dict[str, list[int]] = {}
    for requirement in requirements():
        numbers.setdefault(requirement.series, []).append(requirement.number)
    holes = {
        series: sorted(set(range(1, max(found) + 1)) - set(found))
        for series, found in numbers.items()
    }

    assert {series: missing for series, missing in holes.items() if missing} == {}


def test_each_series_is_in_one_chapter() -> None:
    """A reader who knows the letters knows where to look."""
    chapters: dict[str, set[str]] = {}
    for requirement in requirements():
        chapters.setdefault(requirement.series, set()).add(requirement.chapter)

    assert {series: found for series, found in chapters.items() if len(found) != 1} == {}


def test_requirements_begin_as_they_should() -> None:
    """What looks like the beginning of a requirement is one, level included."""
    improper = []
    for chapter in CHAPTERS:
        text = chapter.read_text("utf-8")
        proper = {match.start() for match in REQUIREMENT.finditer(text)}
        alike = [match.start() for match in REQUIREMENT_LIKE.finditer(text)]
        improper += [text[start : start + 40] for start in alike if start not in proper]

    assert improper == []


def test_what_the_code_cites_exists() -> None:
    """A number in a docstring or comment is one of a requirement."""
    code = python_files("statestores", "pyspark_statestores")

    assert unknown(code, numbers_if(lambda series: series not in OTHER_NAMES)) == {}


def test_what_the_differences_from_kafka_cite_exists() -> None:
    """Each vector that we decide otherwise names the requirement that decides."""
    assert {difference.requirement for difference in DIFFERENCES.values()} - KNOWN == set()


def test_known_series_are_cited_with_known_numbers() -> None:
    """Backends and tests may name other things alike, but not a requirement that is none."""
    sources = python_files("backends", "conformance", "tests")

    assert unknown(sources, numbers_if(SERIES.__contains__)) == {}


def test_what_a_document_cites_exists() -> None:
    """Requirements that are named in prose exist."""
    assert unknown(DOCUMENTS, numbers_if(SERIES.__contains__)) == {}


def test_the_table_lists_every_chapter_in_order() -> None:
    """``spec/README.md`` leads to all chapters, and to nothing else, in their order."""
    text = (SPEC / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| \[\d\d [^]]+\]\(([^)]+)\) \|", text, re.MULTILINE)

    assert listed == [chapter.name for chapter in CHAPTERS]


def test_the_table_names_the_series_of_each_chapter() -> None:
    """The letters beside a chapter are those of its requirements."""
    text = (SPEC / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[\d\d [^]]+\]\(([^)]+)\) \| ([^|]+) \|", text, re.MULTILINE)
    listed = {chapter: {*series.split(", ")} - {"none"} for chapter, series in rows}
    found: dict[str, set[str]] = {chapter.name: set() for chapter in CHAPTERS}
    for requirement in requirements():
        found[requirement.chapter].add(requirement.series)

    assert listed == found


def test_the_glossary_is_in_order() -> None:
    """Words are found where one looks for them, each once."""
    glossary = (SPEC / "README.md").read_text("utf-8").partition("## Glossary")[2]
    words = re.findall(r"^\| ([a-z ]+) \|", glossary, re.MULTILINE)[1:]

    assert words == sorted(set(words))
