"""`new-backend`: the package that it writes is whole, and the suite passes in it."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statestores_conformance.many_cases import for_each

Run: TypeAlias = Callable[..., Any]

_REPOSITORY = Path(__file__).resolve().parents[2]
_EXAMPLE = _REPOSITORY / "examples" / "lmdb_backend"

# Nearly all that it reads for a fresh package is the same each time: ours, and what we need.
_MYPY_CACHE = str(_REPOSITORY / ".mypy_cache" / "new-backend")

_PACKAGE = "src/statestores_my_map"
_FILES = {
    "README.md",
    "conftest.py",
    "pyproject.toml",
    *(
        f"{_PACKAGE}/{name}"
        for name in (
            *("__init__.py", "database.py", "engine.py", "failures.py"),
            *("options.py", "py.typed", "reads.py", "snapshot.py"),
        )
    ),
    "tests/test_conformance.py",
}

# As a stranger's run, but with few examples of what is random.
_FEW_EXAMPLES = """
from hypothesis import settings

settings.register_profile("few", max_examples=20, stateful_step_count=20, derandomize=True)
settings.load_profile("few")
"""


@pytest.fixture
def package(succeed: Run, tmp_path: Path) -> Path:
    """Write the package `statestores-my-map`."""
    succeed("new-backend", "my-map", "--directory", tmp_path / "made" / "here")
    return tmp_path / "made" / "here" / "statestores-my-map"


def _call(package: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run *command* of this environment in the package, which need not be installed."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=package,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_files_are_those_that_are_named(package: Path, run: Run, tmp_path: Path) -> None:
    """What is printed is what was written, for people and as JSON."""
    written = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    again = run("new-backend", "my-map", "--directory", tmp_path / "other", "--json")

    assert written == _FILES
    assert again.document == {
        "path": str(tmp_path / "other" / "statestores-my-map"),
        "backend": "my-map",
        "package": "statestores_my_map",
        "files": sorted(_FILES),
    }


def test_the_backend_is_an_entry_point(package: Path) -> None:
    """Installed, the package is found by the name that was asked for."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]

    assert project["name"] == "statestores-my-map"
    assert project["entry-points"] == {
        "statestores.backends": {"my-map": "statestores_my_map:MyMapEngine"}
    }


def test_nothing_is_left_of_the_template(package: Path) -> None:
    """Every name has been filled in."""
    text = "".join(path.read_text() for path in package.rglob("*") if path.is_file())

    assert "$" not in text
    assert ".template" not in text


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check"),
        ("ruff", "format", "--check"),
        pytest.param(("mypy", "--cache-dir", _MYPY_CACHE), marks=pytest.mark.long),
    ],
    ids=["ruff", "format", "mypy"],
)
def test_the_package_is_clean(package: Path, command: tuple[str, ...]) -> None:
    """With the strict settings that it brings along."""
    checked = _call(package, *command)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_engine_passes_the_suite(package: Path) -> None:
    """The fresh package proves door one, and stores over it."""
    passed = _run_suite(package, "-k", "TestEngine or TestStoresOnEngine or TestRetentionOnEngine")

    assert passed > 100


@pytest.mark.soak
def test_the_package_passes_the_whole_suite(package: Path) -> None:
    """The fresh package proves everything that it promises."""
    assert _run_suite(package) > 800


def _run_suite(package: Path, *arguments: str) -> int:
    """Run the suite in *package*; return how many tests have passed."""
    with (package / "conftest.py").open("a") as conftest:
        conftest.write(_FEW_EXAMPLES)
    run = _call(package, "pytest", "-q", "-p", "no:cacheprovider", *arguments)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "promises not made" in run.stdout
    (passed,) = re.findall(r"(\d+) passed", run.stdout)
    return int(passed)


@for_each(
    "name",
    ["", "Redis", "my_map", "2fast", "-x-", "a--b", "a-", "größe", "a/b", "../x", "a" * 41],
)
def test_a_name_that_cannot_be_one_is_refused(name: str, run: Run, tmp_path: Path) -> None:
    """One sentence that says what was expected, and nothing is written."""
    refused = run("new-backend", "--directory", tmp_path / "made", "--", name)

    assert refused.code == 2
    assert "a letter first" in refused.err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["memory", "rocksdb", "conformance"])
def test_a_name_that_is_taken_is_refused(name: str, run: Run, tmp_path: Path) -> None:
    """Two backends of one name would shadow each other."""
    refused = run("new-backend", name, "--directory", tmp_path)

    assert refused.code == 2
    assert f"{name!r} is taken already" in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "file"])
def test_nothing_is_overwritten(make: Callable[[Path], None], run: Run, tmp_path: Path) -> None:
    """Whatever is there already, also an empty directory, stays as it is."""
    target = tmp_path / "statestores-my-map"
    make(target)
    refused = run("new-backend", "my-map", "--directory", tmp_path)

    assert refused.code == 2
    assert "nothing is overwritten" in refused.err
    assert list(tmp_path.iterdir()) == [target]
    assert not target.is_dir() or list(target.iterdir()) == []


def test_the_next_steps_are_named(run: Run, tmp_path: Path) -> None:
    """Whoever has made a package is told what to do with it."""
    made = run("new-backend", "my-map", "--directory", tmp_path)

    assert f"cd {tmp_path / 'statestores-my-map'}" in made.out
    assert "pip install -e '.[test]'" in made.out
    assert "statestores conformance my-map" in made.out


def test_the_command_explains_itself(succeed: Run) -> None:
    """``--help`` has an example, and says that something is written."""
    explained = " ".join(succeed("new-backend", "--help").out.split())

    assert "Example: statestores new-backend redis" in explained
    assert "WRITES" in explained
    assert "--directory" in explained


def test_the_skeleton_has_the_shape_of_the_example(package: Path) -> None:
    """What the tutorial of examples/lmdb_backend says holds for a new package as well."""
    shared = ["conftest.py", "pyproject.toml", "README.md", "tests/test_conformance.py"]
    modules = ["__init__.py", "engine.py", "failures.py", "options.py", "reads.py", "snapshot.py"]

    assert [file for file in shared if not (_EXAMPLE / file).is_file()] == []
    assert [
        module
        for module in modules
        if not (_EXAMPLE / "src" / "statestores_lmdb" / module).is_file()
    ] == []
    assert (package / "conftest.py").read_text() == (_EXAMPLE / "conftest.py").read_text()
