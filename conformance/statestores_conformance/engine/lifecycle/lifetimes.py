"""Engines that are opened again and again."""

import os
from pathlib import Path
from typing import Any

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.subjects.engines import EngineFixtures, OpenEngine, pairs_of

_CYCLES = 50
_MANY_CYCLES = 500
_WARM_UP = 10
"""After this many cycles, the driver has the memory that it keeps for the life of the process."""

_GROWTH_BYTES = 24 * 1024 * 1024
"""How much the process may have grown, whatever the number of cycles: allocators keep something."""


@pytest.mark.level("durable")
class EngineLifetimeTests(EngineFixtures):
    """What is left of an engine after it has been closed, many times over."""

    @pytest.mark.spec("ENG-19", "ENG-10")
    def test_opening_and_closing_leaks_nothing(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """Fifty lives, with scans and snapshots left open in each: no descriptor, no memory."""
        _live_often(open_engine, tmp_path / "again", _CYCLES)

    @pytest.mark.soak
    @pytest.mark.spec("ENG-19", "ENG-10")
    def test_opening_and_closing_for_long_leaks_nothing(
        self, open_engine: OpenEngine, persistent_engine: Engine, tmp_path: Path
    ) -> None:
        """The same five hundred times, within the same bounds."""
        _live_often(open_engine, tmp_path / "again", _MANY_CYCLES)


def _live_often(open_engine: OpenEngine, directory: Path, cycles: int) -> None:
    """Open, write and close the engine in *directory* that often, and watch the process."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("the process cannot see its own descriptors here: there is no /proc/self/fd")
    held: list[Any] = []
    descriptors = memory = 0
    for number in range(cycles):
        engine = open_engine(directory)
        engine.apply({b"%05d" % number: b"v" * 1_000}, Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        held[:] = [engine.scan(b""), engine.scan(b"", reverse=True), snapshot, snapshot.scan(b"")]
        next(held[0])
        engine.close()
        if number == _WARM_UP:
            descriptors, memory = _descriptors(), _resident_bytes()

    assert _descriptors() <= descriptors
    assert _resident_bytes() - memory < _GROWTH_BYTES
    with open_engine(directory) as engine:
        assert [key for key, _ in pairs_of(engine)] == [b"%05d" % n for n in range(cycles)]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
