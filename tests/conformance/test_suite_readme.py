"""The README of the suite: what it shows, runs."""

import doctest
from pathlib import Path

import pytest

_README = Path(__file__).parents[2] / "conformance" / "README.md"


def test_the_examples_run() -> None:
    """Each ``>>>`` gives what the README says."""
    pytest.importorskip("rocksdict")
    result = doctest.testfile(str(_README), module_relative=False)

    assert result.attempted > 0
    assert result.failed == 0
