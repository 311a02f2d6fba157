"""Opening the engines under test, and checking that they leave nothing behind.

The author gives one fixture, ``open_engine``; everything that the tests are given follows from it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from statestores.spi import Durability, Engine, EngineReader
from statestores_conformance.promises import skip_unless_promised

OpenEngine: TypeAlias = Callable[[Path], Engine]
"""Opens the engine in a directory. The same directory gives the same data again.

``MyEngine.open`` is one; ``functools.partial(MyEngine.open, options={...})`` is another."""

Pairs: TypeAlias = list[tuple[bytes, bytes]]

_DESCRIPTORS = Path("/proc/self/fd")


def pairs_of(reader: EngineReader) -> Pairs:
    """Return everything that *reader* sees, in key order."""
    return list(reader.scan(b""))


def durability_of(engine: Engine) -> Durability:
    """Return the highest durability that *engine* promises."""
    if engine.capabilities.durable_commit or not engine.capabilities.persistent:
        return Durability.POWER_LOSS
    return Durability.PROCESS_CRASH


def open_into(opened: list[Engine], open_engine: OpenEngine, path: Path) -> None:
    """Add the engine at *path* to *opened*: whoever fails or interrupts this call has none then."""
    opened.append(open_engine(path))


class Engines:
    """Opens engines below one directory and remembers them, so that a failed test closes them."""

    def __init__(self, open_engine: OpenEngine, root: Path) -> None:
        self._open_engine = open_engine
        self._root = root
        self._opened: list[tuple[Path, Engine]] = []

    def path(self, name: str = "engine") -> Path:
        """Return the directory of the engine *name*."""
        return self._root / name

    def open(self, name: str = "engine") -> Engine:
        """Open the engine *name*: a new one, or again the one of that name."""
        engine = self._open_engine(self.path(name))
        self._opened.append((self.path(name), engine))
        return engine

    def check_and_close(self) -> None:
        """Close what is open; a persistent engine must then give the same content again."""
        for path, engine in self._opened:
            if not engine.is_open:
                continue
            before = pairs_of(engine)
            engine.close()
            if engine.capabilities.persistent:
                with self._open_engine(path) as reopened:
                    assert pairs_of(reopened) == before, "reopening changed the content"

    def close(self) -> None:
        """Close what is still open."""
        for _, engine in self._opened:
            engine.close()

    def files_left_open(self) -> list[str]:
        """Return the files below the directory that this process still has open."""
        return open_files_below(self._root)


def open_files_below(root: Path) -> list[str]:
    """Return the files below *root* that this process has open; none if that is not known."""
    if not _DESCRIPTORS.is_dir():
        return []
    found = []
    for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208  # asked after each test
        try:
            target = os.readlink(f"{_DESCRIPTORS}/{descriptor}")  # noqa: PTH115  # paths take six times as long
        except FileNotFoundError:  # the descriptor of this listing
            continue
        if target == str(root) or target.startswith(f"{root}/"):
            found.append(target)
    return sorted(found)


class EngineFixtures:
    """What the tests of an engine are given."""

    @pytest.fixture
    def engines(self, open_engine: OpenEngine, tmp_path: Path) -> Iterator[Engines]:
        """Open any number of engines; each is checked and closed at the end."""
        engines = Engines(open_engine, tmp_path)
        try:
            yield engines
            engines.check_and_close()
        finally:
            engines.close()

        assert engines.files_left_open() == []

    @pytest.fixture
    def engine(self, engines: Engines) -> Engine:
        """Open one empty engine."""
        return engines.open()

    @pytest.fixture
    def persistent_engine(self, engine: Engine) -> Engine:
        """Open one empty engine whose data survives closing."""
        skip_unless_promised("persistent", made=engine.capabilities.persistent)
        return engine


def fill(engine: Engine, batches: int = 30) -> list[list[tuple[bytes, bytes]]]:
    """Apply *batches* to *engine* and return the content after none, one, two... of them."""
    content: dict[bytes, bytes] = {}
    states = [list[tuple[bytes, bytes]]()]
    for number in range(batches):
        batch = {b"%02d-%03d" % (number % 7, key): b"%d" % number * 20 for key in range(20)}
        engine.apply(batch, durability_of(engine))
        content.update(batch)
        states.append(sorted(content.items()))
    return states
