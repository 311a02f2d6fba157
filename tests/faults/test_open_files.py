"""Whether a test that leaves a file open is told so, wherever tests keep their files."""

import tempfile
from pathlib import Path

import pytest
from open_files import DESCRIPTORS, open_files

IN_MEMORY = Path("/dev/shm")  # noqa: S108  # where `make test` has its files, if it can


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="open files cannot be listed here")
@pytest.mark.parametrize(
    "parent",
    [
        None,
        pytest.param(
            IN_MEMORY,
            marks=pytest.mark.skipif(not IN_MEMORY.is_dir(), reason="there is no /dev/shm"),
        ),
    ],
    ids=["default", "in memory"],
)
def test_a_file_that_is_open_is_seen_wherever_it_is(parent: Path | None) -> None:
    """The fixture that looks for leaks saw none in memory, where `make test` keeps the files.

    It took whatever is below `/dev` for a device. Mutants that closed nothing passed every test.
    """
    before = open_files()
    with tempfile.NamedTemporaryFile(dir=parent) as file:
        opened = open_files() - before

    assert [path for _, path in opened] == [file.name]
    assert open_files() == before


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="open files cannot be listed here")
def test_a_device_is_no_file_that_was_left_open() -> None:
    """Subprocesses and drivers open those as they like."""
    before = open_files()
    with Path("/dev/null").open("rb"):
        during = open_files()

    assert during == before
