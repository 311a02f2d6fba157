"""The examples of docs/serving.md run, and its pictures are there and small."""

import re
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "serving.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[.+?\]\((.+?)\)")
MAX_PICTURE_BYTES = 100_000


def test_the_examples_run() -> None:
    """One after the other; what they assert holds."""
    blocks = EXAMPLE.findall(DOCUMENT.read_text("utf-8"))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, DOCUMENT, "exec"), names)  # noqa: S102  # the repository's own

    assert len(blocks) >= 2


def test_the_pictures_are_there() -> None:
    """Each that is shown, and no other."""
    shown = {DOCUMENT.parent / path for path in PICTURE.findall(DOCUMENT.read_text("utf-8"))}

    assert shown == set((DOCUMENT.parent / "serving").iterdir())
    assert all(picture.stat().st_size < MAX_PICTURE_BYTES for picture in shown)
