"""The examples of docs/spark-state.md run, and it names every option."""

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from pyspark.sql import SparkSession

_TEXT = (Path(__file__).parents[3] / "docs" / "spark-state.md").read_text("utf-8")
_PATHS = ("state", "counts.checkpoint", "copy")


def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    """One after the other; Spark's paths are those of the process that was started first."""
    names: dict[str, Any] = {"spark": spark}
    text = _TEXT
    for path in _PATHS:
        text = text.replace(f'"{path}"', repr(str(tmp_path / path)))
    blocks = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)  # noqa: S102  # the repository's own

    assert len(blocks) == 3
    assert (names["copied"].rows, len(names["done"].last_offsets)) == (1, 2)


@pytest.mark.parametrize("command", ["export-spark", "import-spark"])
def test_every_option_is_documented(command: str) -> None:
    """And the help ends with how the command is called."""
    help_text = " ".join(invoke(command, "--help").stdout.split())
    options = set(re.findall(r"--[a-z-]+", help_text)) - {"--help", "--"}

    assert f"Example: statestores {command} " in help_text
    assert len(options) >= 6
    assert {option for option in options if f"`{option}" not in _TEXT} == set()
