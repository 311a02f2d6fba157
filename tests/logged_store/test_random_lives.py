"""Stores whose rows end, with their changelogs, over random lives, against a naive model."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from long_runs import IS_SOAK
from random_lives import SPECIFICATIONS, Life

from statestores.semantics.expiry import wall_clock
from statestores.verification import verify

STEPS = 300 if IS_SOAK else 60
SEEDS = range(40 if IS_SOAK else 1)


@pytest.mark.spec("LGS-6", "WIN-8", "SES-8", "TTL-2", "ROF-9", "SNP-10", "RSH-1", "RSH-3")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", ["rocksdb", "sqlite"])
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_every_door_shows_what_the_model_has(
    tmp_path: Path, kind: str, backend: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the life was, and nothing that lies on the disk is damaged by it."""
    life = Life(tmp_path, kind, backend, seed)
    clock = SimpleNamespace(time_ns=lambda: life.now_ms * 1_000_000)
    monkeypatch.setattr(wall_clock, "time", clock)
    life.reopen()
    try:
        life.live(STEPS)
    finally:
        life.close()

    assert [each for each in verify(life.root.path) if each.is_failure] == []
