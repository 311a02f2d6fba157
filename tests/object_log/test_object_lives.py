"""The random lives of stores whose rows end, with their changelogs in an object store.

Partitions move: to a machine that has nothing, or one that had them before. Whoever had them last
goes on as a zombie, whose commits are refused.
"""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from long_runs import IS_SOAK
from random_lives import INPUT, RETENTION_MS, SPECIFICATIONS, Life

import statestores as ss
from statestores.errors import CapabilityNotSupportedError, FencedError
from statestores.semantics.expiry import wall_clock
from statestores.upkeep import ObjectVacuum
from statestores.verification import verify

STEPS = 300 if IS_SOAK else 60
SEEDS = range(20 if IS_SOAK else 1)
_FAR_MS = 1_000_000


class ObjectLife(Life):
    """The same in an object store, with engines on several machines."""

    def __init__(self, directory: Path, kind: str, backend: str, seed: int, url: str) -> None:
        self.url, self.machine, self.zombies = url, 0, list[Any]()
        super().__init__(directory, kind, backend, seed)

    def make_root(self) -> ss.StateRoot:
        """Make the root in the object store."""
        return ss.StateRoot.create(self.url)

    def open_root(self) -> None:
        """Look at the root anew."""
        self.root = ss.StateRoot.open(self.url)

    def _engine(self, number: int) -> Path:
        return self.directory / f"machine-{self.machine}" / str(number)

    def open(self) -> None:
        """Take all partitions, from whoever has them."""
        self.current = deepcopy(self.committed)
        for number in range(len(self.committed)):
            self.opened.append(
                ss.open_logged_store(
                    self.root, "store", number, backend=self.backend, directory=self._engine(number)
                )
            )
        self.check()

    def die(self) -> None:
        """Have others take the partitions over, on a new machine or an old one."""
        machines = {*range(self.copies + 2)} - {self.machine}
        self.zombies, self.opened = self.opened, []
        self.copies += 1
        self.machine = self.random.choice(sorted(machines))
        self.open_root()
        self.open()
        while self.zombies:
            self.wake(self.zombies.pop())

    def wake(self, zombie: Any) -> None:
        """Have a fenced owner commit, which is refused, write a snapshot, and end."""
        put = zombie.store.put
        if self.kind == "session":
            put(b"zombie", _FAR_MS, _FAR_MS, b"z")
        else:
            put(b"zombie", b"z", _FAR_MS)
        with pytest.raises(FencedError):
            zombie.commit({INPUT: _FAR_MS})
        if self.random.random() < 0.5:
            zombie.store.rollback()
            zombie.snapshot()
        zombie.close()

    def lose_an_engine(self) -> None:
        """Write a snapshot, of the form that there is, and perhaps have an engine made of it."""
        number = self.random.randrange(len(self.opened))
        with pytest.raises(CapabilityNotSupportedError):
            self.opened[number].snapshot(snapshot_format="native")
        self.opened[number].snapshot()
        if self.random.random() < 0.5:
            self.close()
            shutil.rmtree(self._engine(number))
            self.open()

    def upkeep(self) -> None:
        """Fold, compact or vacuum, beside the owners."""
        log = self.root.object_log("store")
        retention_ms = None if self.kind in {"event", "wall"} else RETENTION_MS
        ways: list[Callable[[], object]] = [
            log.fold,
            lambda: log.compact(retention_ms=retention_ms),
            lambda: log.vacuum(abandoned_after_ms=0),
            ObjectVacuum(log=log, keep_snapshots=1, abandoned_after_ms=-60_000),
            log.retire_former,
            log.remove_dead,
        ]
        self.random.choice(ways)()

    def often(self) -> list[tuple[Callable[[], None], int]]:
        """Add the upkeep of a log in an object store."""
        return [*super().often(), (self.upkeep, 8)]


@pytest.mark.spec("OBJ-9", "OBJ-10", "OBJ-13", "OBJ-20", "OBJ-34", "OBJ-38", "OBJ-46", "OBJ-48")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", ["rocksdb", "sqlite"])
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_every_door_shows_what_the_model_has_wherever_it_is(
    tmp_path: Path, url: str, kind: str, backend: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the life was, and nothing that lies in the object store is damaged by it."""
    life = ObjectLife(tmp_path, kind, backend, seed, url)
    clock = SimpleNamespace(time_ns=lambda: life.now_ms * 1_000_000)
    monkeypatch.setattr(wall_clock, "time", clock)
    life.reopen()
    try:
        life.live(STEPS)
    finally:
        for each in life.zombies:
            each.close()
        life.close()

    assert [each for each in verify(life.url) if each.is_failure] == []
