"""The examples of docs/arrow.md run."""

import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "arrow.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other; what they assert holds."""
    monkeypatch.chdir(tmp_path)
    blocks = EXAMPLE.findall(DOCUMENT.read_text("utf-8"))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, DOCUMENT, "exec"), names)  # noqa: S102  # the repository's own

    assert len(blocks) >= 6
    assert names["rates"].is_open is False
