"""A pytest plugin that leaves out of the collection what has no test to give.

No test is begun before all are collected, however few of them are run.
"""

from collections.abc import Generator
from inspect import isfunction
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


class ShortCollection:
    """A plugin, since the hooks of a `conftest` are called only for what lies beside it."""

    def __init__(self, passed_over: tuple[str, ...], without: frozenset[str]) -> None:
        """Pass over the paths, from the root, that begin with one of *passed_over*.

        Of the others, leave out the functions and classes that have one of the markers *without*.
        """
        self._passed_over = passed_over
        self._without = without

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Import and search for doctests only what has a prompt in it."""
        collectors = yield
        if file_path.suffix != ".py" or b">>>" in file_path.read_bytes():
            return collectors
        return [each for each in collectors if not isinstance(each, DoctestModule)]

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Pass over directories and files that have nothing of what is asked for.

        And over modules without tests and without a prompt: two of three files.
        """
        if collection_path.suffix == ".py" and not _has_tests(collection_path):
            return True
        if not self._passed_over or not collection_path.is_relative_to(config.rootpath):
            return None
        path = collection_path.relative_to(config.rootpath).as_posix()
        path += "/" if collection_path.is_dir() else ""
        return True if path.startswith(self._passed_over) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, obj: object) -> list[pytest.Item] | None:
        """Make no items of what is for longer runs as a whole: that was one item of five."""
        return [] if self._without and _marks_of(obj) & self._without else None


def _has_tests(file: Path) -> bool:
    """Return whether *file* is collected, as a module of tests or for its doctests."""
    return file.name.startswith("test_") or b">>>" in file.read_bytes()


def _marks_of(obj: object) -> set[str]:
    """Return the names of the marks of a function, or of a class and those it inherits from."""
    if isinstance(obj, type):
        kept = [vars(each).get("pytestmark", ()) for each in obj.__mro__]
    else:
        kept = [vars(obj).get("pytestmark", ())] if isfunction(obj) else []
    return {
        mark.name
        for marks in kept
        for mark in (marks if isinstance(marks, (list, tuple)) else (marks,))
    }
