"""Plots: one for each group that has axes, in two forms."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from statestores_benchmarks.results import Results

Plot: TypeAlias = Callable[[Sequence[Results], Path], list[Path]]

_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def plot() -> Plot:
    """Return the function: each worker collects this module, and one of them draws."""
    from statestores_benchmarks.plots import plot  # noqa: PLC0415  # imports matplotlib

    return plot


def test_each_sweep_and_each_group_of_bars_becomes_a_png_and_an_svg(
    plot: Plot, results: Results, tmp_path: Path
) -> None:
    """A group without axes has none."""
    made = plot([results], tmp_path)

    assert [path.name for path in made] == [
        "commit-interval.png",
        "commit-interval.svg",
        "spark-read.png",
        "spark-read.svg",
    ]
    assert made[0].read_bytes().startswith(_PNG)


def test_axes_lines_and_title_are_named(plot: Plot, results: Results, tmp_path: Path) -> None:
    """An SVG keeps its text as text."""
    plot([results], tmp_path)
    drawn = (tmp_path / "commit-interval.svg").read_text(encoding="utf-8")

    for text in (
        "Put, by puts between two commits",
        "puts between two commits",
        "puts a second",
        "statestores, RocksDB",
        "rocksdict",
    ):
        assert f">{text}</text>" in drawn


def test_equal_results_give_equal_files(plot: Plot, results: Results, tmp_path: Path) -> None:
    """So a plot in the repository changes only when its figures do."""
    plot([results], tmp_path / "one")
    plot([results], tmp_path / "two")

    for name in ("commit-interval.svg", "spark-read.svg"):
        one, two = (tmp_path / way / name for way in ("one", "two"))

        assert one.read_bytes() == two.read_bytes()
