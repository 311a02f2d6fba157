"""The requirements of the specification as data: ``requirements.json``, made from ``spec/``.

``make requirements`` writes the file, and a test compares it with the chapters. It ships with the
package, so that a report can say what it proved where there is no ``spec/`` folder.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

DATA = "requirements.json"
"""The file beside this module."""

_PARAGRAPH = re.compile(
    r"^\*\*([A-Z]{3}-\d+) \((MUST|SHOULD|MAY|WITHDRAWN)\)\*\* (\S.*?)(?=\n\n|\n\*\*[A-Z]{3}-\d|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.:](?= [A-Z(*`]|$)")
_VERSION = re.compile(r"^This is version (\d+) of the specification", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One numbered paragraph of the specification."""

    id: str
    """The number, such as ``ENG-2``; never reused."""

    obligation: str
    """``MUST``, ``SHOULD``, ``MAY`` or ``WITHDRAWN``."""

    chapter: str
    """The file of ``spec/`` that it is in."""

    text: str
    """Its first sentence."""

    level: str | None
    """The lowest conformance level whose tests cite it. ``None``: no test of the suite does,
    since it is not for a backend to keep."""


def requirements_of(chapter: str, text: str, levels: Mapping[str, str]) -> list[Requirement]:
    r"""Return the requirements that the *text* of a *chapter* states.

    *levels* gives the conformance level of each requirement that the suite cites.

    >>> text = "**XYZ-1 (MUST)** It holds. Why: because.\n\n**XYZ-2 (MAY)** It does `this`.\n"
    >>> [(row.id, row.obligation, row.text) for row in requirements_of("x.md", text, {})]
    [('XYZ-1', 'MUST', 'It holds.'), ('XYZ-2', 'MAY', 'It does `this`.')]
    """
    return [
        Requirement(
            id=identifier,
            obligation=obligation,
            chapter=chapter,
            text=_first_sentence(" ".join(paragraph.split())),
            level=levels.get(identifier),
        )
        for identifier, obligation, paragraph in _PARAGRAPH.findall(text)
    ]


def _first_sentence(paragraph: str) -> str:
    end = _SENTENCE_END.search(paragraph)
    return paragraph if end is None else paragraph[: end.end()]


def read_specification(folder: Path, levels: Mapping[str, str]) -> list[Requirement]:
    """Return the requirements of all chapters in *folder*, in their order."""
    return [
        requirement
        for chapter in sorted(folder.glob("[0-9][0-9]-*.md"))
        for requirement in requirements_of(chapter.name, chapter.read_text("utf-8"), levels)
    ]


def read_version(folder: Path) -> int:
    """Return the version of the specification in *folder*."""
    found = _VERSION.search((folder / "README.md").read_text("utf-8"))
    if found is None:
        raise ValueError(f"{folder / 'README.md'} does not say which version it is")
    return int(found[1])


def as_json(version: int, requirements: Iterable[Requirement]) -> str:
    """Return the content of the file: a line for each requirement, so that diffs can be read."""
    rows = ",\n".join(f"    {json.dumps(asdict(row), ensure_ascii=False)}" for row in requirements)
    return f'{{\n  "spec_version": {version},\n  "requirements": [\n{rows}\n  ]\n}}\n'


@cache
def _content() -> tuple[int, tuple[Requirement, ...]]:
    content = json.loads(files(__package__).joinpath(DATA).read_text("utf-8"))
    return content["spec_version"], tuple(Requirement(**row) for row in content["requirements"])


def load_requirements() -> tuple[Requirement, ...]:
    """Return all requirements, in the order of the specification."""
    return _content()[1]


def spec_version() -> int:
    """Return the version of the specification that this suite tests."""
    return _content()[0]
