"""A stranger's path, by the page alone: a store, a crash, a restore, and Spark."""

import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "first-hour.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.spec("LGS-1")
def test_the_page_leads_from_nothing_to_spark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spark: SparkSession,
) -> None:
    """The installation is what `make try-release` tries; everything after it is done here."""
    pytest.importorskip("rocksdict")
    pytest.importorskip("typer")
    (extras,) = re.findall(r"^pip install 'statestores\[(.*)\]'$", PAGE, re.MULTILINE)
    assert {*extras.split(",")} <= {*(metadata("statestores").get_all("Provides-Extra") or ())}
    write, read, with_spark = _blocks("python")
    (tmp_path / "write.py").write_text(write)
    (tmp_path / "read.py").write_text(read)
    after, lost = (re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] for block in _blocks("console"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)

    killed = subprocess.run([sys.executable, "write.py"], check=False)
    assert killed.returncode == -signal.SIGKILL
    for line in (after[1], *lost):
        command, _, shown = line.partition("\n")
        program = command.split()
        assert shutil.which(program[0], path=path)
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        if shown.strip():
            assert done.stdout.strip() == shown.strip()
    # The session of the tests was started in another directory.
    with_spark = with_spark.replace('load("state")', f"load({str(tmp_path / 'state')!r})")
    exec(compile(with_spark, "first-hour.md", "exec"), {})  # noqa: S102  # our own page
    table = capsys.readouterr().out

    assert table.count("|EUR|") == 2
    assert "1.08" in table
    assert "9.99" not in table
