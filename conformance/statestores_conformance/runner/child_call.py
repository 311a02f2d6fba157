"""How a child process is called: ``python -m pytest``, with everything on its command line.

The suite comes in as a plugin, and therefore with rewritten assertions: if it were imported first
outside pytest, what they show would be lost.
"""

import sys
from pathlib import Path

CALL_VARIABLE = "STATESTORES_CONFORMANCE_CALL"
"""What the plugin `child` must know: JSON with pipes, level and Hypothesis's settings."""

_PLUGINS = (
    "_hypothesis_pytestplugin",
    "statestores_conformance",
    "statestores_conformance.runner.kept_collection",
    "statestores_conformance.runner.child",
)
_WITHOUT = ("cacheprovider", "faulthandler", "junitxml", "pastebin", "doctest")

_WARNINGS_THAT_FAIL = (
    "ResourceWarning",
    "pytest.PytestUnraisableExceptionWarning",
    "pytest.PytestUnhandledThreadExceptionWarning",
)
"""Anything left open, or going wrong where nobody looks, fails the test."""


def command(directory: Path, seed: int) -> list[str]:
    """Return the command line of a child that keeps its files in *directory*."""
    return [
        sys.executable,
        "-m",
        "pytest",
        *(argument for name in _PLUGINS for argument in ("-p", name)),
        *(argument for name in _WITHOUT for argument in ("-p", f"no:{name}")),
        *(f"-Werror::{name}" for name in _WARNINGS_THAT_FAIL),
        f"--rootdir={directory}",
        f"--confcutdir={directory}",
        f"--config-file={directory / 'pytest.ini'}",
        f"--basetemp={directory / 'tests'}",
        f"--hypothesis-seed={seed}",
        "--noconftest",
        "--strict-markers",
        "--tb=short",
        "--verbosity=-2",
        "--pyargs",
        "statestores_conformance.runner.subject_tests",
    ]
