"""The two commands: measure, and make tables and plots of what was measured."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from statestores_conformance.many_cases import for_each

for driver in ("statestores_leveldb", "rocksdict", "pyarrow"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.
from statestores_benchmarks import __main__ as measuring  # noqa: E402
from statestores_benchmarks import report  # noqa: E402

pytestmark = pytest.mark.usefixtures("little_garbage")


def call(main: Callable[..., None], *arguments: object) -> Result:
    """Return how a command ended, and what it wrote."""
    command = typer.Typer(add_completion=False)
    command.command()(main)
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_a_run_gives_results_of_which_tables_and_plots_are_made(tmp_path: Path) -> None:
    """With the circumstances, and each of the group's cases."""
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("<!-- generated: tables -->\n<!-- end -->\n")

    measured = call(
        measuring.main, "--scale", "tiny", "--only", "versions-per-key", "--json", results
    )

    assert measured.exit_code == 0, measured.output
    assert "## versions-per-key" in measured.stdout

    content = json.loads(results.read_text())

    assert content["run"]["scale"] == "tiny"
    assert content["run"]["failures"] == []
    assert [group["name"] for group in content["groups"]] == ["versions-per-key"]

    made = call(report.main, results, "--into", page, "--plots", tmp_path / "plots")

    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines()[:2] == [
        str(tmp_path / "plots" / f"versions-per-key.{ending}") for ending in ("png", "svg")
    ]
    assert page.read_text().count("| statestores: as of any time, 10 versions a key |") == 1


@for_each(
    ("arguments", "said"),
    [
        (("--scale", "huge"), "no scale is called 'huge'"),
        (("--scale", "tiny", "--only", "nonsense-"), "nothing begins with"),
    ],
)
def test_what_there_is_not_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """With what there is."""
    refused = call(measuring.main, *arguments)

    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert said in " ".join(refused.stderr.replace("│", " ").split())
