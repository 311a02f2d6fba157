"""A stranger's path, by the page alone: a store, a crash, a restore, and Spark."""

import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import first_hour
import pytest
from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.spec("LGS-1")
def test_the_page_leads_from_nothing_to_spark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spark: SparkSession,
) -> None:
    """All but the installation, which `make try-release` does as well, with a Spark of its own."""
    pytest.importorskip("rocksdict")
    pytest.importorskip("typer")
    page = first_hour.read_page()
    extras = {each for some in (page.extras, *page.more_extras) for each in some.split(",")}
    assert "spark" in extras
    assert extras <= {*(metadata("statestores").get_all("Provides-Extra") or ())}
    assert [*page.files] == ["write.py", "read.py", "rates.py"]
    for name, program in page.files.items():
        (tmp_path / name).write_text(program)
    (crash, *others, last) = page.commands
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)

    assert crash == ("python write.py", "Killed")
    killed = subprocess.run([sys.executable, "write.py"], check=False)
    assert killed.returncode == -signal.SIGKILL
    for command, shown in others:
        if command.startswith("pip install "):
            continue
        program_and_arguments = command.split()
        assert shutil.which(program_and_arguments[0], path=path)
        done = subprocess.run(program_and_arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        if shown:
            assert done.stdout.strip() == shown
    assert last == ("python rates.py", "")
    # The session of the tests was started in another directory.
    state = f"load({str(tmp_path / 'state')!r})"
    with_spark = page.files["rates.py"].replace('load("state")', state)
    exec(compile(with_spark, "first-hour.md", "exec"), {})  # noqa: S102  # our own page
    table = capsys.readouterr().out

    assert table.count("|EUR|") == 2
    assert "1.08" in table
    assert "9.99" not in table
