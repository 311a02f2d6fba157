"""How a stranger takes the suite up: one line, one class, one fixture."""

import subprocess
import sys
from pathlib import Path

import pytest

_LINE = 'pytest_plugins = ["statestores_conformance"]\n'

_CLASS = """
import pytest
from statestores_conformance import EngineTests, OpenEngine
from statestores_memory import MemoryEngine


class TestMine(EngineTests):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return MemoryEngine.open
"""

_WITHOUT_FIXTURE = """
from statestores_conformance import BackendTests


class TestMine(BackendTests):
    pass
"""

_WRONG = """
import pytest
from statestores_conformance import EngineTests, OpenEngine
from statestores_memory import MemoryEngine


class WrongEngine(MemoryEngine):
    def get(self, key: bytes) -> bytes | None:
        return super().get(key) or None


class TestMine(EngineTests):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return WrongEngine.open
"""


def _run(directory: Path, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest as strictly as can be in a stranger's *directory*."""
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nxfail_strict = true\n")
    (directory / "conftest.py").write_text(_LINE)
    (directory / "test_mine.py").write_text(module)
    strict = ["--strict-markers", "--strict-config", "-p", "no:cacheprovider", "-q"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *strict, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_line_and_one_class_are_enough(tmp_path: Path) -> None:
    """With every warning an error, the suite loads, runs and passes."""
    result = _run(tmp_path, _CLASS, "-k", "TestPointReads or TestLocks")

    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout


def test_the_run_ends_with_the_promises_that_were_not_made(tmp_path: Path) -> None:
    """A green run tells what it did not prove."""
    result = _run(tmp_path, _CLASS, "-k", "TestLocks")

    assert "promises not made" in result.stdout
    assert "test_mine.py::TestMine: persistent (6 tests skipped)" in result.stdout


def test_a_forgotten_fixture_is_explained(tmp_path: Path) -> None:
    """The message says which fixture to write, and what it returns."""
    result = _run(tmp_path, _WITHOUT_FIXTURE, "-x", "-k", "test_a_missing_key_is_none")

    assert result.returncode == 1
    assert "give it a fixture `open_engine`" in result.stdout


def test_a_failed_assertion_shows_its_values(tmp_path: Path) -> None:
    """Pytest rewrites the assertions of the installed suite."""
    result = _run(tmp_path, _WRONG, "-k", "test_a_value_comes_back_as_it_was_put")

    assert result.returncode == 1
    assert "assert None == b''" in result.stdout


@pytest.mark.parametrize("plugin", ["pytest", "hypothesis"])
def test_the_core_does_not_need_the_suite(plugin: str) -> None:
    """Importing statestores loads neither pytest nor Hypothesis."""
    code = f"import statestores, sys; sys.exit({plugin!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
