"""``python -m statestores_mutants.child NAME FILE``: run the suite against one mutant.

A process of its own, because a mutant may hang or break the interpreter, and because the store that
it substitutes would stay. What came out goes to FILE as JSON; pytest's own words to the output.
"""

import json
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from statestores.errors import StateStoreError
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import FileEngine
from statestores_mutants.registry import Mutant, all_mutants, sound
from statestores_mutants.substitution import substitute

BASES = {"FileEngine": sound(FileEngine), "MemoryEngine": sound(MemoryEngine)}
"""What the mutants are made of, to be passed by the suite on the same road."""

_INI = "[pytest]\nfilterwarnings = error\nxfail_strict = true\n"
_HERE = str(Path(__file__).parent)


class Observer:
    """The plugin that gives the suite its mutant, and remembers the first test that failed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.tests = 0
        """How many tests were run, skipped ones not counted."""
        self.catch: dict[str, object] | None = None
        """The test that failed, with what it cites and why it failed."""

    @pytest.fixture
    def mutant(self) -> Mutant:
        """Give the mutant that this process is about."""
        return self._mutant

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run first what ought to catch it. The order decides how soon, not whether."""
        expected = self._mutant.expected
        items.sort(key=lambda item: not expected.intersection(_cited_by(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.tests += report.when == "call" and not report.skipped
        if report.failed and self.catch is None and call.excinfo is not None:
            self.catch = {
                "test": item.nodeid.partition("::TestMutant::")[2],
                "phase": report.when,
                "cited": sorted(_cited_by(item)),
                "message": _first_line(call.excinfo.value),
                "own_mistake": _is_own_mistake(call.excinfo, self._mutant),
            }
        return report


def _cited_by(item: pytest.Item) -> set[str]:
    """Return the requirements that a test cites."""
    return {identifier for mark in item.iter_markers("spec") for identifier in mark.args}


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def _is_own_mistake(failure: pytest.ExceptionInfo[BaseException], mutant: Mutant) -> bool:
    """Return whether the mutant's code broke down, instead of doing what it is there to do.

    An error of the tree may be what it does; an error of Python out of our code is sloppiness.
    """
    wanted = (StateStoreError,) if mutant.raises is None else (StateStoreError, mutant.raises)
    return not isinstance(failure.value, wanted) and str(failure.traceback[-1].path).startswith(
        _HERE
    )


def main(name: str, result: Path) -> None:
    """Run the suite against the mutant, or base, *name*, up to the first failure."""
    subject = (BASES | all_mutants())[name]
    if subject.store is not None:
        substitute(subject.store)
    observer = Observer(subject)
    with tempfile.TemporaryDirectory() as scratch:
        ini = Path(scratch) / "pytest.ini"
        ini.write_text(_INI)
        arguments = ["-c", str(ini), "--rootdir", scratch, "--basetemp", f"{scratch}/work"]
        plugins = ["no:cacheprovider", "no:xdist", "statestores_conformance"]
        code = pytest.main(
            [
                str(Path(_HERE) / "suite.py"),
                *arguments,
                *(f"-p{plugin}" for plugin in plugins),
                "--import-mode=importlib",
                "-xq",
            ],
            plugins=[observer],
        )
    content = {"code": int(code), "tests": observer.tests, "catch": observer.catch}
    result.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
