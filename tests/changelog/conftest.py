"""What the tests of the changelog share."""

import sys
from pathlib import Path

import pytest

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

from small_log import FIRST, write  # noqa: E402  # after the path to it


@pytest.fixture(autouse=True)
def _closes_its_files(no_descriptor_leaks: None) -> None:
    """Every test of this folder leaves no file open."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a changelog may be created."""
    return tmp_path / "changelog"


@pytest.fixture
def segment(directory: Path) -> Path:
    """The only segment of the small log."""
    write(directory)
    return directory / FIRST


@pytest.fixture
def ends(tmp_path: Path) -> list[int]:
    """Where its head and each of its frames end."""
    return write(tmp_path / "measured")
