"""Where the pages of a log begin and end: batches that end there, and zeros from there on.

A system that loses the power may have made a file longer and not written what belongs there. Some
drivers take zeros for room that was reserved, and go on with what comes after them.
"""

import random
import shutil
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.engine.disk.altered_files import bytes_of
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.intensity import seed
from statestores_conformance.promises import NOT_APPLICABLE
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    Pairs,
    durability_of,
    pairs_of,
)

_SEED = seed(32768)
_BATCHES = 80
_VALUE_BYTES = 400
"""Before it is made longer or shorter, so that a batch takes a whole part of a page."""
_BATCH_BYTES = 512
_PAGES = (_BATCH_BYTES, 4096, 32_768)
"""Zeros reach to the end of so many bytes. Most logs are written in blocks of one of these sizes,
and 80 batches of 512 bytes take more than one of the largest."""
_AFTER = (3, 21, 50, 70)
"""The batches after which there are zeros, by their numbers."""
_LAST_BYTES = 1_000
_MOST_LEFT = 9
"""How many bytes batches leave of a page, at most: as many as the header of a record has."""


class _Writer:
    """Applies batches of one pair each, and looks at what they take in a file."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._chance = random.Random(_SEED)  # noqa: S311  # repeatable
        self.values: list[bytes] = []
        """What was in each batch."""
        self.states = [Pairs()]
        """The content after none, one, two... of them."""
        self.length = 0
        """How long the file is that has the last value in it; 0 if none has it in one piece."""
        self.beside = 0
        """What a batch takes beside its value; 0 if that is not known."""
        self.apply(_VALUE_BYTES)
        before = self.length
        self.apply(_VALUE_BYTES)
        if before < self.length < before + _BATCH_BYTES:
            self.beside = self.length - before - _VALUE_BYTES

    def apply(self, value_bytes: int) -> None:
        """Apply a batch whose value has so many bytes, and at least one."""
        value = self._chance.randbytes(max(1, value_bytes))
        key = b"%03d" % len(self.values)
        self._engine.apply({key: value}, durability_of(self._engine))
        self.values.append(value)
        self.states.append([*self.states[-1], (key, value)])
        files = bytes_of(self._path).values()
        self.length = max((len(data) for data in files if value in data), default=0)

    def room(self, page: int) -> int:
        """Return how many bytes the last *page* of the file has left."""
        return -self.length % page


class _Left(NamedTuple):
    """What a process leaves that dies."""

    path: Path
    states: list[Pairs]
    """Its content after none, one, two... of its batches."""
    values: list[bytes]
    """What was in each of them."""


class LogPageTests(EngineFixtures):
    """What an engine makes of the pages of its log."""

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-8", "ENG-36")
    def test_a_batch_may_end_anywhere_in_a_page(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """What a process leaves is whole where a batch ends with a page, or a few bytes before it.

        A header of the next may fit into what is left, exactly, or not.
        """
        writer = _Writer(persistent_engine, engines.path())
        if not writer.length:  # of a server, for instance, whose pages are elsewhere
            pytest.skip(f"{NOT_APPLICABLE}no file of the engine holds what was written")
        page = max(_PAGES)
        for left in range(_MOST_LEFT):
            if writer.room(page) < 2 * _LAST_BYTES:
                writer.apply(2 * _LAST_BYTES)
            writer.apply(writer.room(page) - _LAST_BYTES - writer.beside)
            writer.apply(writer.room(page) - left - writer.beside)
        with open_engine(killed_copy(engines.path(), tmp_path / "left")) as opened:
            assert pairs_of(opened) == writer.states[-1]

    @pytest.mark.spec("ENG-14", "ENG-27", "ENG-32", "ENG-36")
    def test_zeros_within_a_log_are_never_a_hole(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Where batches in the middle are zeros, those after them are not there alone.

        From the end of a batch to the end of a page, the next of which begins with a batch: no
        record is torn then, and each that is left is right.
        """
        left = _left(engines, checking, tmp_path / "left")
        for (name, data), number, page in product(bytes_of(left.path).items(), _AFTER, _PAGES):
            begin = data.find(left.values[number]) + len(left.values[number])
            if begin < len(left.values[number]):
                continue
            end = -(-(begin + 1) // page) * page
            zeroed = data[:begin] + bytes(end - begin) + data[end:]
            found = _content_or_error(left, name, zeroed[: len(data)], open_engine)

            where = f"{name} has zeros from byte {begin} to {end}"
            assert found in left.states or isinstance(found, StoreCorruptedError), where

    @pytest.mark.spec("ENG-32", "ENG-36")
    def test_a_tail_of_zeros_is_a_torn_one_or_damage(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Zeros up to the end are the end, wherever they begin between two batches, or damage.

        They may begin so little after a batch that nothing of the next tells what it is. Whether a
        driver can tell them from damage does not depend on how many batches there are.
        """
        left = _left(engines, checking, tmp_path / "left")
        for (name, data), more in product(bytes_of(left.path).items(), (0, 2)):
            refused = set()
            for number in _AFTER:
                begin = data.find(left.values[number]) + len(left.values[number]) + more
                if begin < len(left.values[number]) + more:
                    continue
                zeroed = data[:begin] + bytes(len(data) - begin)
                found = _content_or_error(left, name, zeroed, open_engine)
                refused.add(isinstance(found, StoreCorruptedError))

                assert found in left.states or isinstance(found, StoreCorruptedError), name
            assert len(refused) < 2, f"{name}, {more} bytes after a batch"


def _left(engines: Engines, engine: Engine, to: Path) -> _Left:
    """Apply batches that take a whole part of a page each, where pages show it; copy it *to*."""
    writer = _Writer(engine, engines.path())
    size = _VALUE_BYTES
    if writer.beside:
        writer.apply(writer.room(_BATCH_BYTES) + _BATCH_BYTES - writer.beside)
        size = _BATCH_BYTES - writer.beside
    while len(writer.values) < _BATCHES:
        writer.apply(size)
    return _Left(killed_copy(engines.path(), to), writer.states, writer.values)


def _content_or_error(
    left: _Left, name: str, data: bytes, open_engine: OpenEngine
) -> Pairs | StateStoreError:
    """Return what an engine with *data* in the file *name* has in it, or its error."""
    copy = shutil.copytree(left.path, left.path.with_name("copy"))
    (copy / name).write_bytes(data)
    try:
        with open_engine(copy) as opened:
            return pairs_of(opened)
    except StateStoreError as error:
        return error
    finally:
        shutil.rmtree(copy)
