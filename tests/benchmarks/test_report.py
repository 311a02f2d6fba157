"""Tables, from results that are known beforehand."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from statestores_benchmarks.cases import Target
from statestores_benchmarks.report import UnknownSectionError, fill, report
from statestores_benchmarks.results import Results, ResultsError
from statestores_benchmarks.retired import RETIRED, Retired, asked_for, asked_with_floor
from statestores_benchmarks.tables import contenders, images, missed, tables, targets
from statestores_conformance.many_cases import for_each

PAGE = Path(__file__).parents[2] / "benchmarks" / "README.md"

_TARGETS = """\
| what | target (stretch) | reached (least to most) | |
|---|--:|--:|---|
| put against rocksdict | ≤ 0.6 (0.5) × | 0.5 (0.5 to 0.75) × | met, stretch too |
| put against lmdb | ≤ 1 × | 2 (2 to 3) × | **missed** |
| rocksdict against ours | ≥ 5 × faster | 0.5 (0.5 to 0.75) × faster | **missed** |
| put against Quix Streams | ≤ 0.2 × |  | not measured |
| put, as it was | ≤ 0.2 × | 0.5 (0.5 to 0.75) ×; the floor 0.25 | retired |"""

_CONTENDERS = """\
| µs an operation | time | rocksdict | statestores | lmdb | Quix Streams |
|---|---|--:|--:|--:|--:|
| put | CPU | 4 | 3 | **1** | absent |"""

_TABLE = """\
### Everybody: put

`everybody-put`, 1,000 operations a round; no fsync.

| case | CPU µs | all threads µs | elapsed µs | CPU ratio (least to most) | target |
|---|--:|--:|--:|--:|---|
| rocksdict | 4 | 4 | 4 | 1 | ≥ 5 × faster against ours: 0.5 (0.5 to 0.75) × faster, **missed** |
| ours | 3 | 3 | 3 | 0.5 (0.5 to 0.75) | ≤ 0.6 (0.5) ×: met, stretch too; \
≤ 1 × against lmdb: 2 (2 to 3) ×, **missed**; ≤ 0.2 × against quix: not measured; ≤ 0.2 ×: retired |
| lmdb | 1 | 1 | 1 | **0.25** |  |
| quix | absent: quixstreams is not installed | | | | |"""


class TestTables:
    def test_each_target_stands_beside_what_was_reached(self, results: Results) -> None:
        """A miss stands out, and what was not measured is not called met.

        A bound that nobody asks for any more has no verdict, and its floor says why.
        """
        assert targets([results]) == _TARGETS

    def test_the_best_of_a_row_is_bold_whoever_it_is(self, results: Results) -> None:
        """And a peer that was absent keeps its column."""
        assert contenders([results]) == _CONTENDERS

    def test_a_group_has_every_case_and_its_bounds(self, results: Results) -> None:
        """Ratios are those within a round, not of the medians."""
        assert tables([results]).startswith(f"## contenders\n\n{_TABLE}\n")

    def test_the_same_results_give_the_same_text(self, results: Results) -> None:
        """So a change of a published table is a change of what was measured."""
        assert report([results]) == report([results])

    def test_every_miss_is_a_sentence(self, results: Results) -> None:
        """For the terminal, after the tables. A bound that was retired is not missed."""
        assert missed([results]) == [
            "everybody-put: ours reached 2 ×, the target is ≤ 1 ×",
            "everybody-put: rocksdict reached 0.5 × faster, the target is ≥ 5 × faster",
        ]

    def test_who_was_absent_and_where_it_ran_is_said(self, results: Results) -> None:
        """Versions that were not installed are not listed."""
        text = report([results])

        assert "* quixstreams is not installed" in text
        assert "2 cores, 24 GiB, Linux 6; python 3.11.7, lmdb 3.0.0." in text
        assert "polars" not in text

    def test_each_plot_has_its_image(self, results: Results) -> None:
        """And a group without axes has none."""
        assert images([results]) == (
            "![Put, by puts between two commits](../docs/benchmarks/commit-interval.png)\n"
            "![Read a store](../docs/benchmarks/spark-read.png)"
        )


class TestMarkers:
    def test_what_stands_between_markers_is_written_anew(self, results: Results) -> None:
        """The prose around them stays, and filling twice changes nothing more."""
        text = "# A\n\n<!-- generated: targets -->\nold\n<!-- end -->\n\nprose\n"

        filled = fill(text, [results])

        assert filled == (
            f"# A\n\n<!-- generated: targets -->\n\n{_TARGETS}\n\n<!-- end -->\n\nprose\n"
        )
        assert fill(filled, [results]) == filled

    def test_an_unknown_section_is_refused(self, results: Results) -> None:
        """A misspelt marker would keep old numbers for ever."""
        with pytest.raises(UnknownSectionError, match="no section is called 'tragets'; known:"):
            fill("<!-- generated: tragets -->\n<!-- end -->", [results])


class TestRetired:
    def test_a_target_is_retired_only_by_a_floor_that_misses_it(self) -> None:
        """A versioned put was asked for nothing for a day, after its floor had become another one.

        The harness, its table and what the page told said three things. Now one place says it, and
        takes no target whose floor was within it in any run; and the page has what it says.
        """
        retired = partial(Retired, what="a put", how="bare calls")
        asked = Target(case="put", at_most=0.45)
        instead = Target(case="put", base="floor", at_most=1.15)

        assert asked_for("kafka-versioned-put", asked, instead)[0] == asked
        assert asked_for("kafka-window-fetch", replace(asked, at_most=1), instead)[1] == instead
        with pytest.raises(ValueError, match="another target than the one that was retired"):
            asked_for("kafka-window-fetch", asked, instead)
        with_floor = replace(asked, floor="floor")
        assert asked_with_floor("kafka-versioned-put", with_floor, "a put, of the floor") == (
            asked_for(
                "kafka-versioned-put", with_floor, replace(instead, row="a put, of the floor")
            )
        )
        with pytest.raises(ValueError, match="'kafka-versioned-put' names no floor"):
            asked_with_floor("kafka-versioned-put", asked, "a put, of the floor")
        with pytest.raises(ValueError, match="within the target"):
            retired(at_most=0.95, floors=(0.951, 0.97, 0.932))
        with pytest.raises(ValueError, match="measure its floor once more"):
            retired(at_least=2, floors=(1.8,))
        page = PAGE.read_text(encoding="utf-8")
        assert fill(page, []) == page
        assert all(row.row() in page for row in RETIRED.values())


class TestFiles:
    def test_a_file_gives_back_the_results(self, results: Results, tmp_path: Path) -> None:
        """With every round, bound and axis."""
        results.write(tmp_path / "results.json")

        assert Results.read(tmp_path / "results.json") == results

    @for_each("content", ["", "[]", "{}", "no json"])
    def test_another_file_is_refused(self, content: str, tmp_path: Path) -> None:
        """With what to give instead."""
        (tmp_path / "other.json").write_text(content)

        with pytest.raises(ResultsError, match="give a file that --json wrote"):
            Results.read(tmp_path / "other.json")

    def test_another_format_is_refused(self, results: Results, tmp_path: Path) -> None:
        """Its figures may mean something else."""
        path = tmp_path / "results.json"
        results.write(path)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))

        with pytest.raises(ResultsError, match="has format 99, expected 1"):
            Results.read(path)
