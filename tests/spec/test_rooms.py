"""No room is so full, and no module so long, that a concept is hard to find in it."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {"statestores", "backends", "conformance", "benchmarks", "tools", "tests"}

MOST_MODULES = 20
"""Modules of a folder, without its `__init__` or `conftest`: the rule of CONTRIBUTING.md."""

MOST_LINES = 500
"""Lines of a module. From 400 on a second concept is looked for; here there is one."""


def modules() -> list[Path]:
    """Return those of the repository, but what a folder says of itself."""
    return [
        path.relative_to(ROOT)
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        if path.name not in ("__init__.py", "conftest.py")
    ]


def test_a_folder_has_at_most_20_modules() -> None:
    """It was counted by eye, and `statestores_conformance.engine` had grown to 23.

    Of the tests nobody counted, and the kit of Spark's had 22.
    """
    counts = Counter(path.parent.as_posix() for path in modules())

    assert {path.parts[0] for path in modules()} == SOURCES
    assert {room: count for room, count in counts.items() if count > MOST_MODULES} == {}


def test_a_module_has_at_most_500_lines() -> None:
    """`test_standby_moments.py` had 570: promotions, snapshots and closing in one place."""
    lines = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in modules()}

    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}
