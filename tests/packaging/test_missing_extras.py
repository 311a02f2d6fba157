"""What is said where an extra is missing: which one to install, in an error of our tree.

``import statestores.tasks``, and `statestores.open_logged_store`, in an environment with the core
alone, ended in ``ModuleNotFoundError: No module named 'numpy'``. Nobody who reads that learns that
``statestores[arrow]`` was meant. Now every way in says it.
"""

import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys

for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not installed
from statestores.errors import StateStoreError  # each of them begins with the core

for program in sys.argv[2:]:
    process = os.fork()
    if process == 0:
        break
    assert os.waitpid(process, 0)[1] == 0, program
else:
    sys.exit()
try:
    exec(program)
except ImportError as error:
    print(isinstance(error, StateStoreError), error)
except SystemExit as error:
    print(error)
else:
    print("fine")
"""

ARROW = "numpy,pyarrow,google_crc32c,pandas"

NEED_ARROW = [
    "import statestores.tasks",
    "import statestores as ss; ss.open_logged_store",
    "from statestores import LoggedStore",
    "import statestores.logged_store",
    "import statestores.arrow",
    "import statestores.arrow.restore",
    "import statestores.changelog",
    "import statestores.changelog.rows",
    "import statestores.migration",
    "import statestores.resharding",
    "import statestores.upkeep",
    "import statestores.verification",
    "import pyspark_statestores",
    "from statestores.spark import stateful",
]

NEED_NOTHING = [
    "import statestores.query",
    "import statestores.metrics",
    "import statestores.spark",
    "import statestores as ss; ss.StateRoot, ss.open_store, dir(ss)",
]


def _told(hidden: str, *programs: str) -> list[str]:
    """Return what *programs* say where packages are *hidden*, each in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, hidden, *programs],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


@pytest.mark.spec("LAY-28")
def test_what_needs_arrow_says_so() -> None:
    """An ImportError of our tree that names the extra."""
    for program, told in zip(NEED_ARROW, _told(ARROW, *NEED_ARROW), strict=True):
        assert told.startswith("True "), (program, told)
        assert told.endswith("try: pip install 'statestores[arrow]'"), (program, told)


@pytest.mark.spec("LAY-28")
def test_what_needs_spark_says_so() -> None:
    """Likewise."""
    programs = ["import pyspark_statestores", "from statestores.spark import stateful"]
    for told in _told("pyspark,py4j", *programs):
        assert told.startswith("True ")
        assert told.endswith("try: pip install 'statestores[spark]'")


@pytest.mark.spec("LAY-28")
def test_what_needs_the_web_server_says_so() -> None:
    """Likewise."""
    for told in _told("starlette,uvicorn", "import statestores.serving"):
        assert told.startswith("True ")
        assert told.endswith("try: pip install 'statestores[serve]'")


@pytest.mark.spec("LAY-28")
def test_what_needs_neither_works_without() -> None:
    """Stores, queries and metrics are the core's."""
    assert _told(ARROW, *NEED_NOTHING) == ["fine"] * len(NEED_NOTHING)
