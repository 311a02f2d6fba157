"""Something else in the place of a file: found, never passed on as data, and never a hole."""

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    fill,
    open_files_below,
    pairs_of,
)


def _make_a_directory(file: Path) -> None:
    """Put a directory in the place of *file*."""
    file.unlink()
    file.mkdir()


def _empty(file: Path) -> None:
    """Leave in *file* what an editor leaves of it."""
    file.write_bytes(b"\n")


def _cut_a_byte(file: Path) -> None:
    """Take the last byte of *file*."""
    os.truncate(file, file.stat().st_size - 1)


def _cut_in_half(file: Path) -> None:
    """Take the second half of *file*."""
    os.truncate(file, file.stat().st_size // 2)


_REPLACED: dict[str, Callable[[Path], None]] = {
    "is gone": Path.unlink,
    "is a directory": _make_a_directory,
    "is an empty line": _empty,
    "lacks a byte": _cut_a_byte,
    "lacks a half": _cut_in_half,
}
"""What may have become of a file."""

_OF_THE_SYSTEM = {Path.unlink, _make_a_directory}
"""That the system refuses a file does not say why."""


class ReplacedFileTests(EngineFixtures):
    """What an engine that finds damage does where a file is not what it was."""

    @pytest.mark.spec("ENG-14", "ENG-19", "ENG-28", "ENG-32")
    def test_what_is_in_a_file_s_place_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """A directory, which no driver expects, an empty line, or the file without its second half.

        Such damage can be told, and is, unless it is what a crash may leave of a log. And nothing
        at all is never a hole, also after a second life, whose opening may have moved what a log
        had to other files.
        """
        states = fill(checking)
        content = states[-1]
        checking.close()
        first = tmp_path / "first life"
        shutil.copytree(engines.path(), first)
        engines.open().close()
        for source, (how, damage) in product((first, engines.path()), _REPLACED.items()):
            if source == first and damage is not Path.unlink:
                continue
            for number, path in enumerate(sorted(source.rglob("*"))):
                if not path.is_file():
                    continue
                if damage not in _OF_THE_SYSTEM and not path.stat().st_size:
                    continue
                damaged = tmp_path / f"{source.name} {how} {number}"
                shutil.copytree(source, damaged)
                damage(damaged / path.relative_to(source))
                found = _content_or_error(damaged, open_engine)

                assert open_files_below(damaged) == []
                if damage in _OF_THE_SYSTEM:
                    allowed, error = [content], StateStoreError
                else:  # what is left may be a log without its end (ENG-32)
                    allowed, error = states, StoreCorruptedError

                assert found in allowed or isinstance(found, error), f"{path.name} {how}: {found!r}"


def _content_or_error(
    engine: Path, open_engine: OpenEngine
) -> list[tuple[bytes, bytes]] | StateStoreError:
    """Return what is in *engine*, or the error of opening or reading it, with its traceback."""
    try:
        with open_engine(engine) as opened:
            return pairs_of(opened)
    except StateStoreError as error:
        return error
