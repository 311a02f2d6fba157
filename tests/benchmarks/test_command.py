"""The two commands, from the outside: measure, and make tables and plots of what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

for driver in ("plyvel", "rocksdict", "sqlalchemy", "pyarrow"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")


def command(*arguments: object, module: str = "statestores_benchmarks") -> tuple[int, str, str]:
    """Return how a command ended, and what it wrote."""
    ran = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_a_run_gives_results_of_which_tables_and_plots_are_made(tmp_path: Path) -> None:
    """With the circumstances, and each of the group's cases."""
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("<!-- generated: tables -->\n<!-- end -->\n")

    status, printed, errors = command(
        "--scale", "tiny", "--only", "commit-interval", "--json", results
    )

    assert status == 0, errors
    assert "## key-value" in printed

    content = json.loads(results.read_text())

    assert content["run"]["scale"] == "tiny"
    assert content["run"]["failures"] == []
    assert [group["name"] for group in content["groups"]] == ["commit-interval"]

    status, printed, errors = command(
        results,
        "--into",
        page,
        "--plots",
        tmp_path / "plots",
        module="statestores_benchmarks.report",
    )

    assert status == 0, errors
    assert printed.splitlines()[:2] == [
        str(tmp_path / "plots" / f"commit-interval.{ending}") for ending in ("png", "svg")
    ]
    assert page.read_text().count("| statestores, RocksDB, every 1,000 |") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scale", "huge"), "no scale is called 'huge'"),
        (("--scale", "tiny", "--only", "nonsense-"), "nothing begins with"),
    ],
)
def test_what_there_is_not_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """With what there is."""
    status, printed, errors = command(*arguments)

    assert status == 2
    assert printed == ""
    assert said in " ".join(errors.replace("│", " ").split())
