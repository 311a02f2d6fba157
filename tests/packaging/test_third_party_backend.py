"""Strangers' backends: installed beside the wheel in a clean environment, and proved from there.

The packages are `examples/lmdb_backend` and `examples/duckdb_backend`, which are engines, and
`examples/redis_store`, a store at door two. Nothing of this checkout is on their path: the suite,
its runner and its specification are those that the wheel installs. A bug that is planted in a copy
of one has to be found, and the requirement that it breaks to be named.

What the wheels ask for, and what that asks for, is lent by this environment, and nothing else is:
`make try-release` has it from the index.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(_REPOSITORY / "examples" / "redis_store" / "tests" / "kit"))

from redis_server import PROGRAM, RedisServer  # noqa: E402  # lies with the example

_ENGINES = ("lmdb", "duckdb")
_EXAMPLES = {
    **{name: _REPOSITORY / "examples" / f"{name}_backend" for name in _ENGINES},
    "redis": _REPOSITORY / "examples" / "redis_store",
}
_SEED = 1035
_PATIENCE_SECONDS = 1_800
"""For tests in which DuckDB plans tens of thousands of queries, on a machine that is busy."""

_PROVE = """
import json, sys
import statestores_conformance
from statestores_conformance.runner import run_conformance
from statestores_conformance.runner.subject import load_subject
call = json.loads(sys.argv[1])


def module_of(backend):
    subject = load_subject(backend, {})
    return getattr(subject, "engine", subject.open).__module__


report = run_conformance(**call)
print(json.dumps({
    "level": report.level,
    "stopped_by": report.stopped_by,
    "levels": {level.name: level.status for level in report.levels},
    "broken": sorted({one for failure in report.failures for one in failure.requirements}),
    "failed": [failure.test for failure in report.failures],
    "problems": report.problems,
    "suite": statestores_conformance.__file__,
    "module": sys.modules[module_of(call["backend"])].__file__,
}))
"""

_BUILD = """
import os, sys
from hatchling.build import build_wheel
for project in sys.argv[2:]:
    os.chdir(project)
    build_wheel(sys.argv[1])
"""
"""Builds all in one process: as `python -m build` does it, the tests of our own wheel show."""

_KEEPS_TO_ITS_STOP = """        if stop is not None and pair[0] >= stop:
            return
        yield pair
"""
_INCLUDES_A_LONG_STOP = """        if stop is not None and pair[0] >= stop:
            if pair[0] == stop and len(stop) > CHUNK_BYTES:
                yield pair
            return
        yield pair
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the wheels of this checkout and of the examples."""
    directory = tmp_path_factory.mktemp("wheels")
    copies = tmp_path_factory.mktemp("examples")
    for name, example in _EXAMPLES.items():
        shutil.copytree(example, copies / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    projects = map(str, (_REPOSITORY, *(copies / name for name in _EXAMPLES)))
    _run(sys.executable, "-c", _BUILD, str(directory), *projects)
    return sorted(directory.glob("*.whl"))


@pytest.fixture(scope="module")
def clean_python(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheels into a new virtual environment, and lend it what they need."""
    environment = tmp_path_factory.mktemp("clean")
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check")
    # What nobody imports need not be compiled.
    _run(*pip, "install", "--no-deps", "--no-index", "--no-compile", *map(str, wheels))
    places = {"base": str(environment), "platbase": str(environment)}
    installed = _lend_requirements(Path(sysconfig.get_path("purelib", "venv", places)))
    assert len(installed) == 1 + len(_EXAMPLES)
    return python


def _lend_requirements(directory: Path) -> set[str]:
    """Link what the packages in *directory* require into it; return the names of these packages."""
    there = distributions(path=[str(directory)])
    installed = {canonicalize_name(each.name): each for each in there}
    waiting = [Requirement("statestores[conformance]"), *map(Requirement, installed)]
    asked: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        found = installed.get(name) or distribution(name)
        assert wanted.specifier.contains(found.version, prereleases=True), wanted
        for extra in ("", *wanted.extras):
            if (name, extra) in asked:
                continue
            asked.add((name, extra))
            waiting += [
                each
                for each in map(Requirement, found.requires or ())
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
    for lent in {name for name, _ in asked} - set(installed):
        found = distribution(lent)
        for entry in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (directory / entry).symlink_to(str(found.locate_file(entry)))
    return set(installed)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Copy the example's package, and make the ends of its ranges inclusive for long keys."""
    sources = tmp_path / "planted" / "src"
    shutil.copytree(
        _EXAMPLES["lmdb"] / "src", sources, ignore=shutil.ignore_patterns("__pycache__")
    )
    walks = sources / "statestores_lmdb" / "walks.py"
    program = walks.read_text()
    assert program.count(_KEEPS_TO_ITS_STOP) == 1
    walks.write_text(program.replace(_KEEPS_TO_ITS_STOP, _INCLUDES_A_LONG_STOP))
    return sources


@pytest.mark.long
@pytest.mark.parametrize("name", _ENGINES)
def test_the_backend_is_found_and_whole(clean_python: Path, tmp_path: Path, name: str) -> None:
    """By its entry point, in an environment without the drivers of ours."""
    code = "import sys, statestores.registry as r; print(r.load_backend(sys.argv[1]).__module__)"
    printed = _run(str(clean_python), "-I", "-c", code, name, cwd=tmp_path)

    assert printed == f"statestores_{name}.engine\n"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("lmdb", "test_lmdb or test_long_keys or (TestEngine and TestSeeks)"),
        pytest.param("duckdb", "test_duckdb or (TestEngine and TestPaths)", marks=pytest.mark.long),
        ("redis", "test_redis or (TestRedis and (TestIterators or one_owner or specification))"),
    ],
)
def test_the_example_passes_its_own_tests(
    clean_python: Path, tmp_path: Path, name: str, parts: str
) -> None:
    """With the line and the class of its README; of the suite, the tests of its weakest point."""
    ours, example = tmp_path / "example", _EXAMPLES[name]
    shutil.copytree(example / "tests", ours / "tests", ignore=shutil.ignore_patterns("__py*"))
    if name == "redis":
        _skip_without_redis()
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(example / file, ours)
    command = (str(clean_python), "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", parts)
    printed = _run(*command, cwd=ours)

    assert " passed" in printed
    assert " failed" not in printed


@pytest.mark.long
def test_the_backend_reaches_its_level(clean_python: Path, tmp_path: Path) -> None:
    """Every level but the one that needs checksums, which LMDB has not.

    Suite and backend are those that are installed; no file of this checkout takes part.
    """
    report = _prove(clean_python, tmp_path, backend="lmdb", profile="quick")

    assert (report["level"], report["broken"], report["problems"]) == ("crash-proof", [], [])
    assert "detects_corruption" in report["stopped_by"]
    for module in ("suite", "module"):
        assert Path(report[module]).is_relative_to(clean_python.parents[1])


@pytest.mark.long
def test_a_planted_bug_is_found_and_named(
    clean_python: Path, planted: Path, tmp_path: Path
) -> None:
    """The end of a range is exclusive (ENG-6), for keys of every length (ENG-25)."""
    asked = {"backend": "lmdb", "level": "engine", "profile": "quick", "max_failures": 1}
    report = _prove(clean_python, tmp_path, sources=planted, **asked)

    assert Path(report["module"]).is_relative_to(planted)
    assert report["level"] is None
    assert report["levels"]["engine"] == "failed"
    assert {"ENG-6", "ENG-25"} <= set(report["broken"])


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["quick", "full"])
def test_the_store_at_door_two_reaches_its_level(
    clean_python: Path, tmp_path: Path, profile: str
) -> None:
    """Every level but the one of damaged files, of which a Redis server keeps its own."""
    _skip_without_redis()
    with RedisServer() as server:
        report = _prove(
            clean_python,
            tmp_path,
            backend="statestores_redis:open_store",
            options={"url": server.url},
            profile=profile,
            test_time_limit_s=_PATIENCE_SECONDS,
        )

    assert (report["level"], report["broken"], report["problems"]) == ("crash-proof", [], [])
    for module in ("suite", "module"):
        assert Path(report[module]).is_relative_to(clean_python.parents[1])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "profile", "level"),
    [
        ("lmdb", "full", "crash-proof"),
        ("duckdb", "quick", "fault-proof"),
        ("duckdb", "full", "fault-proof"),
    ],
)
def test_the_backend_reaches_its_level_with_every_trial(
    clean_python: Path, tmp_path: Path, name: str, profile: str, level: str
) -> None:
    """The whole profile comes to the same result; DuckDB, whose queries cost more, only here."""
    report = _prove(
        clean_python, tmp_path, backend=name, profile=profile, test_time_limit_s=_PATIENCE_SECONDS
    )

    assert (report["level"], report["broken"], report["problems"]) == (level, [], [])


def _skip_without_redis() -> None:
    if PROGRAM is None:
        pytest.skip("there is no redis-server")


def _prove(python: Path, cwd: Path, *, sources: Path | None = None, **arguments: Any) -> Any:
    """Run the conformance suite in the clean environment; return what it found."""
    call = json.dumps({"seed": _SEED, **arguments})
    paths = {} if sources is None else {"PYTHONPATH": str(sources)}
    return json.loads(_run(str(python), "-c", _PROVE, call, cwd=cwd, extra=paths))


def _run(*command: str, cwd: Path = _REPOSITORY, extra: dict[str, str] | None = None) -> str:
    """Run *command* without this environment's paths; return what it printed, or show why not."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=inherited | (extra or {}),
    )

    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
