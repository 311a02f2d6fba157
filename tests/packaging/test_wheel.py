"""What a user gets: the wheel, looked into and installed where nothing else is."""

import configparser
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from statestores_conformance.many_cases import for_each

_REPOSITORY = Path(__file__).resolve().parents[2]

_PACKAGES = {
    "pyspark_statestores",
    "statestores",
    "statestores_conformance",
    "statestores_leveldb",
    "statestores_memory",
    "statestores_rocksdb",
    "statestores_sqlite",
}

_IGNORED = re.compile(r"(^|/)(__pycache__|\.)")
"""What interpreters and tools leave behind."""

# Prints the imported modules that are neither ours nor the standard library's, one to a line.
_FOREIGN_MODULES = """
import sys
before = set(sys.modules)
import statestores
import statestores.registry
names = statestores.registry.backend_names()
assert names == ["leveldb", "memory", "postgresql", "rocksdb", "sqlite"]
statestores.registry.load_backend("memory")
known = before | set(sys.stdlib_module_names) | {"statestores", "statestores_memory"}
for name in sorted(sys.modules):
    if name not in before and name.partition(".")[0] not in known:
        print(name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    _run(*build, "--outdir", str(directory), str(_REPOSITORY))
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def files(wheel: Path) -> frozenset[str]:
    """Name the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel alone into a new virtual environment and return its interpreter.

    Of packages without compiled parts that is what installing is; pip does it in the tests of
    strangers' backends.
    """
    environment = tmp_path_factory.mktemp("clean")
    venv.create(environment, symlinks=True)
    places = {"base": str(environment), "platbase": str(environment)}
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(sysconfig.get_path("purelib", "venv", places))
    return environment / "bin" / "python"


def test_the_wheel_holds_the_packages_and_nothing_else(files: frozenset[str]) -> None:
    """Neither the folders ``backends``, ``spec`` and ``tests`` nor the benchmarks are installed."""
    top_level = {name.partition("/")[0] for name in files}

    assert {name for name in top_level if not name.endswith(".dist-info")} == _PACKAGES


@for_each("package", sorted(_PACKAGES))
def test_every_package_is_typed(files: frozenset[str], package: str) -> None:
    """A type checker believes our annotations, because ``py.typed`` is there."""
    assert f"{package}/py.typed" in files


def test_the_wheel_holds_every_file_of_the_checkout(files: frozenset[str]) -> None:
    """No module and no data is lost on the way, whatever the build configuration leaves out."""
    roots = {
        package: _REPOSITORY / folder / package
        for package in _PACKAGES
        for folder in (".", "backends", "conformance")
        if (_REPOSITORY / folder / package).is_dir()
    }
    expected = {
        f"{package}/{file.relative_to(root).as_posix()}"
        for package, root in roots.items()
        for file in root.rglob("*")
        if file.is_file() and not _IGNORED.search(file.relative_to(root).as_posix())
    }

    assert roots.keys() == _PACKAGES
    assert expected - files == set()


def test_the_vectors_say_what_they_are(files: frozenset[str]) -> None:
    """What conformant means, and where the cases come from, is beside them when installed."""
    vectors = "statestores_conformance/vectors"

    assert {f"{vectors}/README.md", f"{vectors}/PROVENANCE.md"} <= files


def test_the_skeleton_of_a_backend_ships(files: frozenset[str]) -> None:
    """`statestores new-backend` finds its templates where they are installed."""
    assert "statestores/cli/skeleton/src/package/engine.py.template" in files


def test_the_vectors_ship_with_the_suite(files: frozenset[str]) -> None:
    """A stranger's backend is tested against the same cases as ours."""
    checkout = _REPOSITORY / "conformance" / "statestores_conformance" / "vectors"
    vectors = {
        f"statestores_conformance/vectors/{vector.relative_to(checkout).as_posix()}"
        for vector in checkout.rglob("*.json")
    }

    assert vectors
    assert vectors - files == set()


def test_the_backends_and_the_command_are_entry_points(wheel: Path) -> None:
    """The built-in backends are registered in the way a stranger's are."""
    entry_points = configparser.ConfigParser()
    entry_points.read_string(_read_metadata(wheel, "entry_points.txt"))

    assert dict(entry_points["statestores.backends"]) == {
        "memory": "statestores_memory:MemoryEngine",
        "rocksdb": "statestores_rocksdb:RocksDBEngine",
        "leveldb": "statestores_leveldb:LevelDBEngine",
        "sqlite": "statestores_sqlite:SQLiteEngine",
        "postgresql": "statestores_sqlite:PostgreSQLEngine",
    }
    assert dict(entry_points["console_scripts"]) == {"statestores": "statestores.cli:main"}


def test_no_plugin_loads_in_strangers_pytest_runs(wheel: Path) -> None:
    """The suite is opted into by name; installing us changes nobody's pytest."""
    assert "pytest11" not in _read_metadata(wheel, "entry_points.txt")


def test_the_readme_of_the_metadata_has_no_relative_links(wheel: Path) -> None:
    """An index shows it without the files that it links to."""
    text = _read_metadata(wheel, "METADATA")
    links = re.findall(r"\]\(([^)\s]+)\)", text)

    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert "Project-URL: Source, https://" in text


def test_the_core_requires_nothing(wheel: Path) -> None:
    """Each dependency belongs to an extra."""
    unconditional = [one for one in _read_requirements(wheel) if "extra ==" not in one]

    assert unconditional == []


def test_leveldb_has_a_binding_with_wheels_on_every_python(wheel: Path) -> None:
    """``pip install statestores[all]`` on Python 3.13 once tried to compile plyvel, and failed.

    Then ``all`` left LevelDB out there, and asked for by name it was still compiled. plyvel's fork
    has wheels from 3.12 on.
    """
    leveldb = sorted(one for one in _read_requirements(wheel) if one.startswith("plyvel"))

    assert leveldb == [
        "plyvel-next>=2.1; (python_version >= '3.13') and extra == 'all'",
        "plyvel-next>=2.1; (python_version >= '3.13') and extra == 'leveldb'",
        "plyvel>=1.5; (python_version < '3.13') and extra == 'all'",
        "plyvel>=1.5; (python_version < '3.13') and extra == 'leveldb'",
    ]


def test_the_license_ships(files: frozenset[str]) -> None:
    """The Apache License asks for its text to travel along."""
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in files)


def test_importing_loads_no_third_party_package(clean_python: Path, tmp_path: Path) -> None:
    """The package and its reference engine work where nothing else is installed."""
    printed = _run(str(clean_python), "-I", "-W", "error", "-c", _FOREIGN_MODULES, cwd=tmp_path)

    assert printed.splitlines() == []


def test_importing_loads_no_third_party_package_that_is_installed(tmp_path: Path) -> None:
    """Nor does it reach for one because it happens to be there."""
    printed = _run(sys.executable, "-I", "-c", _FOREIGN_MODULES, cwd=tmp_path)

    assert printed.splitlines() == []


def _run(*command: str, cwd: Path = _REPOSITORY) -> str:
    """Run *command* and return what it printed; when it fails, show why."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)

    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def _read_requirements(wheel: Path) -> list[str]:
    """Return the requirements of the wheel, each with its condition."""
    metadata = HeaderParser().parsestr(_read_metadata(wheel, "METADATA"))
    return metadata.get_all("Requires-Dist", [])


def _read_metadata(wheel: Path, name: str) -> str:
    """Return a file of the wheel's ``.dist-info`` as text."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (file for file in archive.namelist() if file.endswith(f".dist-info/{name}"))
        return archive.read(member).decode()
