"""Write ``requirements.json`` of the conformance suite from the chapters of ``spec/``.

The level of a requirement is the lowest of the tests that cite it, as pytest collects them.
"""

import contextlib
import io
import os
import sys
from pathlib import Path

import pytest

from statestores_conformance import requirements
from statestores_conformance.citations import cited_by
from statestores_conformance.levels import level_of, rank_of

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "spec"
DATA = ROOT / "conformance" / "statestores_conformance" / requirements.DATA


class Levels:
    """The plugin that notes the lowest level at which each requirement is cited."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.found: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note all citations of what was collected."""
        for item in session.items:
            level = level_of(item)
            for name in cited_by(item):
                self.found[name] = min(level, self.found.get(name, level), key=rank_of)


def levels() -> dict[str, str]:
    """Return the level of each requirement that the suite cites."""
    os.environ["STATESTORES_CONFORMANCE_SUBJECT"] = '{"backend": "memory", "options": {}}'
    plugin = Levels()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            [
                "--collect-only",
                "--quiet",
                "--noconftest",
                f"--config-file={os.devnull}",
                "--pyargs",
                "statestores_conformance.runner.subject_tests",
                "-pno:cacheprovider",
                "-pstatestores_conformance",
            ],
            plugins=[plugin],
        )
    if code != 0:
        sys.exit(f"the suite cannot be collected:\n{said.getvalue()}")
    return plugin.found


def content() -> str:
    """Return what the file should hold."""
    return requirements.as_json(
        requirements.read_version(SPEC), requirements.read_specification(SPEC, levels())
    )


if __name__ == "__main__":
    wanted = content()
    if sys.argv[1:] == ["--check"]:
        if DATA.read_text("utf-8") != wanted:
            sys.exit(
                f"{DATA.relative_to(ROOT)} is not what spec/ and the suite say; make requirements"
            )
    else:
        DATA.write_text(wanted, "utf-8")
