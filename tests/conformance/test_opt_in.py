"""How a stranger takes the suite up: one line, one class, one fixture."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from statestores_conformance.many_cases import for_each

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


def _run(directory: Path, modules: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run pytest as strictly as can be in a stranger's *directory*; return exit code and output."""
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nxfail_strict = true\n")
    (directory / "conftest.py").write_text(_LINE)
    for name, module in modules.items():
        (directory / f"test_{name}.py").write_text(module)
    strict = ["--strict-markers", "--strict-config", "-p", "no:cacheprovider", "-q"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *strict, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """Run a part of the suite with an engine that is sound."""
    directory = tmp_path_factory.mktemp("sound")
    return _run(directory, {"mine": _CLASS}, "-k", "TestPointReads or TestLocks")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """Run a test without the fixture that it needs, and one with an engine that is wrong."""
    return _run(
        tmp_path_factory.mktemp("failing"),
        {"without": _WITHOUT_FIXTURE, "wrong": _WRONG},
        "-k",
        "(test_without and test_a_missing_key_is_none) or "
        "(test_wrong and test_a_value_comes_back_as_it_was_put)",
    )


def test_one_line_and_one_class_are_enough(sound: tuple[int, str]) -> None:
    """With every warning an error, the suite loads, runs and passes."""
    code, printed = sound

    assert code == 0, printed
    assert " passed" in printed


def test_the_run_ends_with_the_promises_that_were_not_made(sound: tuple[int, str]) -> None:
    """A green run tells what it did not prove."""
    printed = sound[1]

    assert "promises not made" in printed
    assert "test_mine.py::TestMine: persistent (7 tests skipped)" in printed


def test_a_forgotten_fixture_is_explained(failing: tuple[int, str]) -> None:
    """The message says which fixture to write, and what it returns."""
    code, printed = failing

    assert code == 1
    assert re.search(r"ERROR test_without\.py::\S+test_a_missing_key_is_none", printed), printed
    assert "give it a fixture `open_engine`" in printed


def test_a_failed_assertion_shows_its_values(failing: tuple[int, str]) -> None:
    """Pytest rewrites the assertions of the installed suite."""
    code, printed = failing

    assert code == 1
    assert re.search(r"FAILED test_wrong\.py::\S+test_a_value_comes_back", printed), printed
    assert "assert None == b''" in printed


@for_each("plugin", ["pytest", "hypothesis"])
def test_the_core_does_not_need_the_suite(plugin: str) -> None:
    """Importing statestores loads neither pytest nor Hypothesis."""
    code = f"import statestores, sys; sys.exit({plugin!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
