"""The examples of docs/spark.md run."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from store_streams import needs_limits

import statestores as ss
from statestores.spark.options.foreign_names import ALIASES
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.options.stream import STREAM_OPTIONS

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "spark.md"
# Not "python", as in other documents: these need a session.
EXAMPLE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@needs_limits
def test_the_examples_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, with a session."""
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text("utf-8").replace('"state"', repr(str(tmp_path / "state")))
    text = text.replace("path 'state'", f"path '{tmp_path / 'state'}'")
    text = text.replace('("visits")', f"({str(tmp_path / 'visits')!r})")
    text = text.replace('("totals")', f"({str(tmp_path / 'totals')!r})")
    text = text.replace('("base")', f"({str(tmp_path / 'base')!r})")
    text = text.replace('("counts")', f"({str(tmp_path / 'counts')!r})")
    text = text.replace("path = 'state'", f"path = '{tmp_path / 'state'}'")
    text = text.replace("path 'totals'", f"path '{tmp_path / 'totals'}'")
    text = text.replace("path = 'totals'", f"path = '{tmp_path / 'totals'}'")
    text = text.replace('("copies")', f"({str(tmp_path / 'copies')!r})")
    text = text.replace('"state.checkpoint"', repr(str(tmp_path / "state.checkpoint")))
    names: dict[str, Any] = {"spark": spark}
    blocks = EXAMPLE.findall(text)
    for block in blocks:
        exec(compile(block, DOCUMENT, "exec"), names)  # noqa: S102  # the repository's own

    assert len(blocks) >= 5
    assert ss.StateRoot.open(tmp_path / "state").store("rates").partitions == 2


def test_what_the_readme_says_needs_no_more_than_a_session(spark: SparkSession, root: str) -> None:
    """It named Spark's own source, which finds no state of ours until `register` is called."""
    text = (ROOT / "README.md").read_text("utf-8")
    (name,) = re.findall(r'`spark\.read\.format\("(\w+)"\)\.load\("state"\)`', text)
    row = spark.createDataFrame([("a", 1)], "key string, value long")
    row.write.format(name).option("storeName", "s").mode("append").save(root)

    assert spark.newSession().read.format(name).load(root).count() == 1
    assert "`register(spark)`" in text


def test_every_option_is_documented() -> None:
    """An option that nobody can find is not one."""
    documented = set(re.findall(r"`([\w-]+)`", DOCUMENT.read_text("utf-8")))
    options = {each.metadata["name"] for each in SourceOptions.__dataclass_fields__.values()}

    assert (options | set(STREAM_OPTIONS) | set(ALIASES)) - {"path"} <= documented
