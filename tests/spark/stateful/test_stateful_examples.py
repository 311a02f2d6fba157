"""The page about stateful processing and its examples run."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "spark-stateful.md"
EXAMPLE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    """One block after the other, with a session; its paths begin with data/."""
    (tmp_path / "words").mkdir()
    lines = "".join(f'{{"word": "{word}"}}\n' for word in ["to", "be", "or", "not", "to", "be"])
    (tmp_path / "words" / "0.json").write_text(lines)
    blocks = EXAMPLE.findall(DOCUMENT.read_text("utf-8"))
    names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
    for block in blocks:
        code = compile(block.replace('"data/', f'"{tmp_path}/'), DOCUMENT, "exec")
        exec(code, names)  # noqa: S102  # the repository's own

    assert len(blocks) == 2
    emitted = spark.read.parquet(str(tmp_path / "counts"))
    assert sorted(tuple(row)[:2] for row in emitted.collect()) == [
        ("be", 2),
        ("not", 1),
        ("or", 1),
        ("to", 2),
    ]


@pytest.mark.long
def test_words_are_counted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Across a lost local disk."""
    runpy.run_path(str(ROOT / "examples/stateful_word_count/word_count.py"))["main"](
        spark, tmp_path / "example"
    )

    printed = capsys.readouterr().out
    assert "'to': 4" in printed.splitlines()[1]
    assert printed.splitlines()[2] in {
        "counts of 'to', as they were emitted: [2, 4]",
        "counts of 'to', as they were emitted: [2, 4, 4]",
    }


@pytest.mark.long
def test_orders_are_priced(spark: SparkSession, tmp_path: Path) -> None:
    """Those of the second micro-batch with the rate that had become known."""
    names = runpy.run_path(str(ROOT / "examples/temporal_join/price_orders.py"))
    names["main"](spark, tmp_path)

    rows = names["price"](spark, tmp_path).collect()
    assert [(row.id, row.rate) for row in rows] == [
        (1, 1.08),
        (2, 1.10),
        (3, 1.09),
        (4, None),
        (5, None),
    ]
