"""Typed stores are tested over the reference engine: they add nothing that depends on another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores.registry import load_backend
from statestores.spi import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with load_backend("memory").open(tmp_path / "engine") as opened:
        yield opened
