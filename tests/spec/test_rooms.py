"""No room of the source is so full that a concept is hard to find in it."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {"statestores", "backends", "conformance", "benchmarks", "tools"}

MOST_MODULES = 20
"""Modules of a folder, without its `__init__`: the rule of CONTRIBUTING.md."""


def test_a_folder_has_at_most_20_modules() -> None:
    """It was counted by eye, and `statestores_conformance.engine` had grown to 23."""
    modules = [
        path.relative_to(ROOT)
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        if path.name != "__init__.py"
    ]
    counts = Counter(path.parent.as_posix() for path in modules)

    assert {path.parts[0] for path in modules} == SOURCES
    assert {room: count for room, count in counts.items() if count > MOST_MODULES} == {}
