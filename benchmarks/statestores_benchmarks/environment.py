"""What the figures were measured on: the machine, its load, the versions, the revision."""

import os
import platform
import sqlite3
import subprocess
from pathlib import Path

from statestores_benchmarks.peers import version_of

PACKAGES = (
    "statestores",
    "rocksdict",
    "plyvel",
    "lmdb",
    "sqlalchemy",
    "pyarrow",
    "numpy",
    "msgpack",
    "orjson",
    "pyspark",
    "quixstreams",
    "faust-streaming",
    "duckdb",
    "polars",
)

_CPU_MODEL = "model name"
_CPU_FACTS = Path("/proc/cpuinfo")


def machine() -> dict[str, str]:
    """Return the processor, the memory and the operating system."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{pages * size / 1024**3:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    if _CPU_FACTS.is_file():
        for line in _CPU_FACTS.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == _CPU_MODEL:
                return value.strip()
    return platform.machine()


def versions() -> dict[str, str]:
    """Return the version of Python, of SQLite, and of each measured package."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return found | {package: version_of(package) for package in PACKAGES}


def load() -> float:
    """Return how many processes wanted to run during the last minute."""
    return round(os.getloadavg()[0], 2)


def revision() -> str:
    """Return the commit of the checkout, with a plus if its files were changed since."""
    here = Path(__file__).parent
    commit = _git(here, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}+" if _git(here, "status", "--porcelain", "--untracked-files=no") else commit


def _git(directory: Path, *arguments: str) -> str:
    """Return what git says, or nothing if there is no git or no checkout."""
    try:
        ran = subprocess.run(  # noqa: S603  # fixed arguments
            ["git", *arguments],  # noqa: S607  # whichever git made the checkout
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
