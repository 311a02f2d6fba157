"""The command: sentences and exit codes, in front of the runner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from statestores_conformance.command import main

_KIT = Path(__file__).parent / "kit"
_WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
sys.argv = ["statestores", "conformance", "memory"]
from statestores.cli import main
main()
"""


def _run(*arguments: str, code: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command line of the library, where `bad_backends` can be imported."""
    call = ["-c", code] if code else ["-m", "statestores.cli", "conformance", *arguments]
    return subprocess.run(
        [sys.executable, *call],
        env={**os.environ, "PYTHONPATH": str(_KIT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which backend?"),
        (["nothing"], "no backend is registered as 'nothing'"),
        (["needy_backend:Engine"], "needs the package 'no_such_driver'"),
        (["memory", "--all"], "not both"),
        (["memory", "--report", "report.pdf"], "is of no known form"),
        (["memory", "--badge", "badge.png"], "ends in .svg"),
        (["memory", "--option", "size"], "--option is KEY=VALUE"),
        (["memory", "sqlite", "--report", "one.json"], "put {backend} in it"),
        (["memory", "--level", "perfect"], "'perfect' is none of engine, store, durable"),
        (["memory", "--profile", "slow"], "'slow' is none of quick, full, soak"),
        (["memory", "--seed", "x"], "'--seed'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_call_that_cannot_be_one_is_a_sentence(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exit code is 2, one line says why, and nothing is run."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(_KIT), os.environ.get("PYTHONPATH", "")]))
    code = main(arguments)
    said = capsys.readouterr()

    assert code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_failure_is_reported_and_is_exit_code_1(tmp_path: Path) -> None:
    """The end says what failed; the files have it too."""
    files = [tmp_path / "{backend}.json", tmp_path / "{backend}.html"]
    badge = tmp_path / "badge.svg"
    reports = [part for file in files for part in ("--report", str(file))]
    result = _run("bad_backends:RaisingEngine", "--seed", "5", *reports, "--badge", str(badge))
    content = json.loads((tmp_path / "bad_backends-RaisingEngine.json").read_text("utf-8"))

    assert result.returncode == 1
    assert "does not conform" in result.stdout
    assert "failed ENG-17" in result.stdout
    assert "no server listens" in result.stdout
    assert result.stderr == ""
    assert [content["seed"], content["conforms"]] == [5, False]
    assert badge.exists()
    assert (tmp_path / "bad_backends-RaisingEngine.html").exists()


def test_a_suite_that_is_not_installed_is_a_sentence() -> None:
    """It names the package that is missing, and the extra that brings it."""
    result = _run(code=_WITHOUT_PYTEST)

    assert result.returncode == 1
    assert "needs the package 'pytest'" in result.stderr
    assert "pip install 'statestores[conformance]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["memory", "--all"], ["--no-such"]])
def test_the_module_is_the_same_command(arguments: list[str]) -> None:
    """``python -m statestores_conformance`` says the same, with the same exit code."""
    by_name = _run(*arguments)
    by_module = subprocess.run(
        [sys.executable, "-m", "statestores_conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert by_module.returncode == by_name.returncode
    assert (by_module.stdout, by_module.stderr) == (by_name.stdout, by_name.stderr)


def test_the_help_is_the_commands_own() -> None:
    """What follows its name belongs to it."""
    result = _run("--help")

    assert result.returncode == 0
    assert "--profile" in result.stdout
    assert "crash-proof" in result.stdout
