"""The examples in spec/ and docs/ run, and the rows that they show are the rows of the code."""

import doctest
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from statestores_conformance.many_cases import for_each

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted((ROOT / "spec").glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|rows)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"'([^']*)'|([0-9a-f]{2})+|(\S+)")


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    line: int


def blocks_of(document: Path) -> list[Block]:
    """Return the blocks of a document that are marked ``python`` or ``rows``."""
    text = document.read_text("utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]


# One leaves its stores open for the mistakes, one kills its process: their own tests run them.
_RUN_ELSEWHERE = {ROOT / "docs" / "mistakes.md", ROOT / "docs" / "first-hour.md"}

WITH_EXAMPLES = [each for each in DOCUMENTS if blocks_of(each) and each not in _RUN_ELSEWHERE]


def run(block: Block, document: Path, names: dict[str, Any]) -> None:
    """Run a ``python`` block with *names*: as a session when it has prompts, else as a script."""
    if ">>>" not in block.text:
        code = compile("\n" * block.line + block.text, document, "exec")
        exec(code, names)  # noqa: S102  # the repository's own examples
        return
    test = doctest.DocTestParser().get_doctest(
        block.text, names, document.name, str(document), block.line
    )
    report: list[str] = []
    doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
    names.update(test.globs)

    assert "".join(report) == ""


def bytes_of(text: str) -> bytes:
    """Return what a side of a row stands for: bytes in hexadecimal, text in single quotes."""
    data = b""
    for match in TOKEN.finditer(text):
        assert match[3] is None, f"{match[3]!r} is neither quoted text nor hexadecimal"
        data += match[0][1:-1].encode() if match[0].startswith("'") else bytes.fromhex(match[0])
    return data


def rows_of(block: Block) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that a ``rows`` block shows."""
    for line in block.text.splitlines():
        key, arrow, value = line.partition("->")
        assert arrow, line
        yield bytes_of(key), bytes_of(value)


def as_text(row: tuple[bytes, bytes]) -> str:
    """Return a row such that a difference can be read."""
    return " -> ".join(f"{side.hex(' ')} {side!r}" for side in row)


@pytest.mark.spec("LAY-1", "LAY-2", "LAY-3", "LAY-4", "LAY-5", "LAY-6", "LAY-7")
@pytest.mark.spec("LAY-8", "LAY-9", "LAY-13", "LAY-14", "LAY-15", "LAY-19", "LAY-20", "LAY-21")
@pytest.mark.parametrize(
    "document", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_examples_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block runs after the ones before it; ``rows`` are those of the ``engine`` so far."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks_of(document):
        if block.language == "python":
            run(block, document, names)
        else:
            shown = [as_text(row) for row in rows_of(block)]
            stored = [as_text(row) for row in names["engine"].scan(b"")]

            assert stored == shown


@pytest.mark.spec("LAY-1")
def test_the_layout_shows_every_namespace() -> None:
    """The worked examples have rows of all namespaces, and so prove what the chapter says."""
    blocks = blocks_of(ROOT / "spec" / "08-storage-layout.md")
    rows = chain.from_iterable(rows_of(block) for block in blocks if block.language == "rows")

    assert {key[0] for key, _ in rows} == {0, 1, 2, 3}


@for_each(
    ("text", "expected"),
    [
        ("00 'format'", b"\x00format"),
        ("000000ff '1.05'", b"\x00\x00\x00\xff1.05"),
        ("""'{"a":1}'""", b'{"a":1}'),
        ("", b""),
    ],
)
def test_rows_are_read_as_they_are_meant(text: str, expected: bytes) -> None:
    """The notation of chapter 8 stands for these bytes."""
    assert bytes_of(text) == expected


def test_a_wrong_row_would_be_noticed() -> None:
    """What is neither text nor hexadecimal is refused, not skipped."""
    with pytest.raises(AssertionError, match="neither"):
        bytes_of("00 format")
