"""Importing statestores brings nobody along, and nothing heavy of the standard library."""

import functools
import json
import subprocess
import sys

import pytest

from statestores import serdes
from statestores.cli.application import COMMANDS

_PROGRAM = """
import json, sys
before = set(sys.modules)
import %s
print(json.dumps(sorted(set(sys.modules) - before)))
"""

_CALL = """
import atexit, json, sys
from statestores.cli import main
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
main()
"""

_HEAVY = {"email", "importlib.metadata", "zipfile", "urllib.request", "ssl", "asyncio", "socket"}
"""Each costs as much as a good part of statestores; what needs one imports it when it does."""


@functools.cache
def loaded(modules: str = "statestores") -> frozenset[str]:
    """Return what a new process loads for the import of *modules*."""
    command = [sys.executable, "-I", "-c", _PROGRAM % modules]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(json.loads(finished.stdout))


def of_command(*arguments: str) -> set[str]:
    """Return what a new process has loaded once the command line was called with *arguments*."""
    command = [sys.executable, "-I", "-c", _CALL, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(finished.stderr))


def test_importing_loads_the_standard_library_alone() -> None:
    """No driver, no Arrow, no Spark: whoever needs one pays for it."""
    packages = {name.partition(".")[0] for name in loaded()}

    assert packages - sys.stdlib_module_names == {"statestores"}


def test_importing_loads_nothing_heavy() -> None:
    """Looking up backends parses the metadata of packages, which the first opening needs first."""
    assert loaded() & _HEAVY == set()


def test_what_needs_arrow_is_loaded_when_it_is_asked_for() -> None:
    """`open_logged_store` is an attribute of the package all the same."""
    assert "statestores.logged_store" not in loaded()


def test_what_opens_typed_stores_is_loaded_when_it_is_asked_for() -> None:
    """Serdes of rows, UUIDs and lists, and typed stores, were a third of `import statestores`.

    They had come to it one by one. All names of `statestores.serdes` are there all the same.
    """
    parts = {name.split(".")[2] for name in loaded() if name.startswith("statestores.serdes.")}
    assert parts & {"descriptions", "list_serde", "rows", "typed_stores", "uuid_serde"} == set()

    assert set(serdes.__all__) <= set(dir(serdes))
    assert all(getattr(serdes, name) is not None for name in serdes.__all__)
    with pytest.raises(AttributeError, match=r"statestores\.serdes.*'rowz'"):
        _ = serdes.rowz  # the name of no serde


def test_importing_loads_no_pandas() -> None:
    """`statestores.arrow` took 0.7 s to import where pandas is installed, as with Spark, not 0.3.

    A constant of a module was made by `pyarrow.scalar`, another by `pyarrow.array` of a list: both
    ask whether they were given something of pandas, and import it to find out. Each command and
    each process of a job paid for that. Constants are made of buffers now.
    """
    pytest.importorskip("pandas")
    commands = {f"statestores.cli.{each.place.partition(':')[0]}" for each in COMMANDS}
    modules = (
        "statestores.arrow, statestores.cli.application, statestores.processing.local, "
        "statestores.spark_checkpoint.unsafe_rows"
    )

    assert "pandas" not in loaded(", ".join((modules, *sorted(commands))))


def test_listing_the_commands_imports_none() -> None:
    """`statestores --help` took 1.5 s of the processor, where `import statestores` takes 0.2.

    It imported each command, and with them Arrow, numpy and the HTTP server, to have their names.
    Now a command is imported when it is called, and the others are not.
    """
    packages = ("pyarrow", "numpy", "pandas", "google_crc32c", "rich", "http", "sqlite3")

    listed, called = of_command("--help"), of_command("get", "--help")
    commands = {name for name in called if name.startswith("statestores.cli.commands.")}

    assert {name for name in listed if name.startswith(packages)} == set()
    assert not {name for name in listed if name.startswith("statestores.cli.commands")}
    assert "pyarrow" in called  # what is asked finds what it should not find
    assert commands == {"statestores.cli.commands.get"}
