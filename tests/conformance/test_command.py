"""The command: sentences and exit codes, in front of the runner."""

import contextlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from statestores.cli.application import app
from statestores_conformance.command import main

_KIT = Path(__file__).parent / "kit"
_SCRATCH = re.compile(rb"(?:^|\0)TMPDIR=([^\0]*statestores-scratch-[^\0]*)")
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
        (["memory", "--requirement", "ENG-ten"], "the suite has no test of ENG-ten"),
        (["memory", "--since-last", "none.json"], "'none.json' is no report of an earlier run"),
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
def test_the_module_is_the_same_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m statestores_conformance`` says the same, with the same exit code.

    Neither has a process here; other tests start each of them as one.
    """
    outcomes = []
    for program, call in (
        ("statestores.cli", ["conformance", *arguments]),
        ("statestores_conformance", arguments),
    ):
        monkeypatch.setattr(sys, "argv", [program, *call])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(files(program) / "__main__.py"), run_name="__main__")
        outcomes.append((ended.value.code, *capsys.readouterr()))

    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != (0, "", "")


def test_the_help_is_the_commands_own(capsys: pytest.CaptureFixture[str]) -> None:
    """What follows its name belongs to it."""
    with pytest.raises(SystemExit) as ended:
        app(["conformance", "--help"])
    said = capsys.readouterr().out

    assert ended.value.code == 0
    assert "--profile" in said
    assert "crash-proof" in said


def _child_of(run: "subprocess.Popen[str]") -> tuple[Path, Path]:
    """Return the process that *run* has started, as soon as there is one, and its directory."""
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    while run.poll() is None:
        for number in children.read_text("ascii").split():
            child = Path("/proc") / number
            with contextlib.suppress(OSError):  # it has just been forked
                environment = (child / "environ").read_bytes()
                found = _SCRATCH.search(environment)
                if found is not None:
                    return child, Path(found[1].decode())
    pytest.fail("the run ended before it had started anything")


_SIGNALLED = """
import os, sys

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "statestores_conformance.plugin":
            os.kill(os.getpid(), int(os.environ["SIGNALLED_BY"]))

sys.meta_path.insert(0, Slow())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_while_it_is_loaded_ends_it_quietly(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Control-C in the first second printed a traceback of an import, and the code was -2.

    Python loads the package before it runs its `__main__`, which had nothing to say then.
    """
    (tmp_path / "sitecustomize.py").write_text(_SIGNALLED)
    ended = subprocess.run(
        [sys.executable, "-m", "statestores_conformance", "memory"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SIGNALLED_BY": str(int(number))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + number, "", "")


def test_who_loads_it_as_a_plugin_keeps_its_signals(tmp_path: Path) -> None:
    """Only a program of its own ends as the suite does."""
    code = (
        "import signal, statestores_conformance as _; "
        "print(signal.getsignal(2) is signal.default_int_handler, signal.getsignal(15) == 0)"
    )
    (tmp_path / "other.py").write_text(code)
    for call in (["-c", code], ["-m", "other"]):
        loaded = subprocess.run(
            [sys.executable, *call],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

        assert loaded.stdout == "True True\n"


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGINT],
    ids=lambda each: each.name,
)
def test_a_signal_ends_the_processes_and_leaves_a_report(
    number: signal.Signals, tmp_path: Path
) -> None:
    """What was found until then is written, no process goes on, and no file stays behind."""
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "statestores_conformance", "memory", "--report", str(file)]
    with subprocess.Popen(
        [*command, "--processes", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            child, scratch = _child_of(run)
            run.send_signal(number)
            output, errors = run.communicate()
        finally:
            run.kill()
    content = json.loads(file.read_text("utf-8"))

    assert run.returncode == 128 + number, errors
    assert "does not conform" in output
    assert any(problem.startswith(f"ended by {number.name}") for problem in content["problems"])
    assert not scratch.parent.exists()
    assert not child.exists()
