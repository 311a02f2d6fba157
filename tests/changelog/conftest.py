"""What the tests of the changelog share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _closes_its_files(no_descriptor_leaks: None) -> None:
    """Every test of this folder leaves no file open."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a changelog may be created."""
    return tmp_path / "changelog"
