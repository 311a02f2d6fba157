"""The whole demo, started as a user starts it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import delays
import statestores as ss
from checks import Checks
from statestores.errors import MissingDriverError
from statestores.processing import LocalTopics, Topic, run

# A Spark session and 30,000 records take half a minute, and minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)

_DEMO = Path(__file__).resolve().parents[2] / "examples" / "nycflights"
# What the demo needs of a backend, that backend's own tests prove; both run in a soak.
_BACKENDS = ("rocksdb", "sqlite") if os.environ.get("STATESTORES_SOAK") == "1" else ("rocksdb",)
_SAMPLE = "3000"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where the demo leaves its files, by backend."""
    return {backend: tmp_path_factory.mktemp(backend) for backend in _BACKENDS}


@pytest.fixture(scope="module")
def outputs(kept: dict[str, Path]) -> dict[str, str]:
    """Run the demo with each backend, at the same time, and return what each has printed."""
    missing = set(_BACKENDS) - set(ss.available_backends())
    if missing:
        pytest.skip(f"no driver for {', '.join(sorted(missing))}")
    runs = {
        backend: subprocess.Popen(
            [
                *(sys.executable, str(_DEMO), "--backend", backend),
                *("--sample", _SAMPLE, "--keep", str(directory)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for backend, directory in kept.items()
    }
    printed = {backend: run.communicate()[0] for backend, run in runs.items()}
    codes = {backend: run.returncode for backend, run in runs.items()}

    assert codes == dict.fromkeys(_BACKENDS, 0), printed
    return printed


@pytest.mark.parametrize("backend", _BACKENDS)
def test_every_row_agrees_and_is_counted(backend: str, outputs: dict[str, str]) -> None:
    """The join, the kill, the plane and both reads by Spark hold what they are compared with."""
    printed = outputs[backend]
    agreed = re.search(r"✓ ([0-9,]+) of ([0-9,]+) joined rows agree with DuckDB", printed)

    assert agreed is not None, printed
    assert agreed[1] == agreed[2]
    assert int(agreed[1].replace(",", "")) >= int(_SAMPLE)
    assert "✓ killed at" in printed
    assert "✓ 26,115 versions of 3 airports" in printed
    assert "EWR to LAS, flight UA 1222, departed 2013-07-03 15:22" in printed
    assert "✓ DuckDB finds the same departure" in printed
    assert re.search(r"✓ as of 01 July 2013, [0-9,]+ planes are known", printed)
    assert re.search(r"✓ [0-9,]+ changes, \{.*\} by partition, as written", printed)
    assert "WRONG" not in printed


@pytest.mark.parametrize("backend", _BACKENDS)
def test_the_topology_is_checked_too(backend: str, outputs: dict[str, str]) -> None:
    """It was killed before its end, and all that came out is right."""
    printed = outputs[backend]
    killed = re.search(r"killed at ([0-9,]+) records reported as committed; readers", printed)
    agreed = re.search(r"✓ ([0-9,]+) of ([0-9,]+) flights came out, each once, in order", printed)

    assert killed is not None, printed
    assert int(killed[1].replace(",", "")) < 26_115 + int(_SAMPLE)
    assert agreed is not None, printed
    assert agreed[1] == agreed[2]
    assert re.search(r"✓ [0-9,]+ mean delays by airport and day, each given out once", printed)


@pytest.mark.long
@pytest.mark.usefixtures("outputs")
@pytest.mark.parametrize("backend", _BACKENDS)
def test_what_comes_out_does_not_show_the_kill(
    backend: str, kept: dict[str, Path], tmp_path: Path
) -> None:
    """The topics are those of a run that nobody killed, byte for byte and in the same order."""
    source, undisturbed = kept[backend] / "topology" / "topics", tmp_path / "topics"
    for topic in (delays.FLIGHTS, delays.WEATHER):
        shutil.copytree(source / topic.name, undisturbed / topic.name)
    run(delays.delays, state=tmp_path / "state", topics=undisturbed, backend="memory", until="idle")

    assert written(source) == written(undisturbed)


def written(directory: Path) -> dict[str, list[Any]]:
    """Return the joined flights as bytes by partition, and the days of each airport in order."""
    as_bytes = Topic(delays.JOINED.name, partitions=2)
    with LocalTopics(directory) as topics:
        days: dict[str, list[Any]] = {}
        for _, _, day in topics.topic(delays.DELAYS).read():
            days.setdefault(day.key.key, []).append(day)
        return days | {"joined": list(topics.topic(as_bytes).read())}


@pytest.mark.parametrize("backend", _BACKENDS)
def test_nothing_else_is_printed(backend: str, outputs: dict[str, str]) -> None:
    """Neither Spark nor Java nor a warning disturbs the table."""
    assert not re.search(r"WARN|ERROR|Warning|Traceback", outputs[backend]), outputs[backend]


def test_backends_give_the_same_rows(outputs: dict[str, str]) -> None:
    """The joined rows do not depend on the engine."""
    fingerprints = {
        re.findall(r"fingerprint of the joined rows ([0-9a-f]{16})", printed)[0]
        for printed in outputs.values()
    }

    assert len(fingerprints) == 1


@pytest.fixture
def demo() -> ModuleType:
    """The entry point, with a run that is replaced by each test."""
    spec = importlib.util.spec_from_file_location("nycflights_entry_point", _DEMO / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_state_of_an_earlier_run_is_left_alone(demo: ModuleType, tmp_path: Path) -> None:
    """A directory that is not empty is refused, before anything is written."""
    (tmp_path / "precious").touch()
    command = typer.Typer()
    command.command()(demo.main)
    refused = CliRunner().invoke(command, ["--keep", str(tmp_path)])

    assert refused.exit_code == 2
    assert "is not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_difference_is_exit_code_1(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that runs the demo learns that a check has failed."""
    monkeypatch.setattr(demo.DemoRun, "run", lambda run, sample: False)
    with pytest.raises(typer.Exit) as ended:
        demo.main()

    assert ended.value.exit_code == 1


def test_what_is_missing_is_said_in_full(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Java, the message names the extra, whose brackets are no markup."""

    def without_java(run: object, sample: int | None) -> bool:
        raise MissingDriverError("pip install 'statestores[java]'")

    monkeypatch.setattr(demo.DemoRun, "run", without_java)
    with pytest.raises(typer.Exit) as ended:
        demo.main()

    assert ended.value.exit_code == 2
    assert "pip install 'statestores[java]'" in capsys.readouterr().out


def test_a_check_that_fails_is_counted_and_explained() -> None:
    """What does not hold is said with its details; the demo's exit code follows from the count."""
    console = Console(record=True, width=100, quiet=False)
    checks = Checks(console)
    checks.expect(True, "this holds", ["not shown"])  # noqa: FBT003  # the outcome
    before = checks.failed
    checks.expect(False, "all rows agree", ["flight 7: temp is 1, DuckDB says 2"])  # noqa: FBT003  # the same
    printed = console.export_text()

    assert (before, checks.failed) == (0, 1)
    assert "WRONG: all rows agree" in printed
    assert "flight 7: temp is 1" in printed
    assert "not shown" not in printed
